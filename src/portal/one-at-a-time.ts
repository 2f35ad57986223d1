import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../services/clock.ts'
import type { RecordStore, StoredRecord } from '../store/record-store.ts'

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
  const holder = randomBytes(holderBytes).toString('base64url')
  const newLock = (): StoredRecord => ({ id: name, account: '', value: holder, expires: clock.now() + lockTtlMs })
  let lock = newLock()
  // A timer of the clock would not keep a command alive.
  for (; !(await store.addRecord('lock', lock)); lock = newLock()) await sleep(retryMs)
  try {
    return await action()
  } finally {
    // Only its own: after `lockTtlMs` another may hold it. What the action has done stands, also where the store fails now.
    await store.replaceRecord('lock', lock, null, 0).catch(() => undefined)
  }
}

const holderBytes = 9
