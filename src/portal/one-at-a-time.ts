import type { Clock } from '../services/clock.ts'
import type { RecordStore } from '../store/record-store.ts'
import { sleep } from '../util/async.ts'

/** Of a gateway that dies while it holds the lock. */
const lockTtlMs = 10_000
/** Several times what an action takes, so that waiting requests are few writes of the store. */
const retryMs = 5

export interface LockServices {
  readonly store: RecordStore
  readonly clock: Clock
}

/**
 * Runs actions of one name one after the other, on several gateways too: what an action reads before it writes is as the action before has
 * left it.
 */
export const oneAtATime = async <T>({ store, clock }: LockServices, name: string, action: () => Promise<T>): Promise<T> => {
  const lock = () => store.addRecord('lock', { id: name, account: '', value: true, expires: clock.now() + lockTtlMs })
  while (!(await lock())) await sleep(clock, retryMs)
  try {
    return await action()
  } finally {
    await store.takeRecord('lock', name)
  }
}
