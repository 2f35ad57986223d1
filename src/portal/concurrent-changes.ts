import { setTimeout as sleep } from 'node:timers/promises'
import type { RecordKind, RecordStore, StoredRecord } from '../store/record-store.ts'
import type { Json } from '../util/json.ts'
import { randomId } from './people/random-tokens.ts'
import type { RecordServices } from './record-services.ts'

/** Of a gateway that dies while it holds the lock. */
const actionTtlMs = 10_000
/** Several times what an action takes, so that waiting requests are few writes of the store. */
const retryMs = 5

/** Clocks of gateways may differ by this much. A lock that ends later than that was taken before the clock went back. */
const maxClockSkewMs = 60_000

/**
 * Takes the lock of this name, of which the store has one for all gateways. Returns what releases it; undefined while another holds it. After
 * `ttlMs`, which is the same for each lock of the name, another may take it.
 */
export const tryLock = async (
  { store, clock }: RecordServices,
  name: string,
  ttlMs: number,
): Promise<(() => Promise<void>) | undefined> => {
  const holder = randomId()
  const lock: StoredRecord = { id: name, account: '', value: holder, expires: clock.now() + ttlMs }
  if (!(await store.addRecord('lock', lock))) {
    const held = await store.findRecord('lock', name)
    const isObsolete = held !== undefined && held.expires > lock.expires + maxClockSkewMs
    if (!isObsolete || !(await store.replaceRecord('lock', held, holder, lock.expires))) return undefined
  }
  return async () => {
    // Only its own: another may hold it by now.
    try {
      await store.replaceRecord('lock', lock, null, 0)
    } catch {
      // What was done stands, also where the store fails now.
    }
  }
}

/**
 * Runs actions of one name one after the other, on several gateways too: what an action reads before it writes is as the action before has
 * left it.
 */
export const oneAtATime = async <T>(services: RecordServices, name: string, action: () => Promise<T>): Promise<T> => {
  let release = await tryLock(services, name, actionTtlMs)
  while (release === undefined) {
    // A timer of the clock would not keep a command alive.
    await sleep(retryMs)
    release = await tryLock(services, name, actionTtlMs)
  }
  try {
    return await action()
  } finally {
    await release()
  }
}

/**
 * Gives a record the value that `edit` makes of it as it is now: of several edits at once, on several gateways too, each begins with what the
 * one before has written. False when there is no such record, or `edit` returns undefined.
 */
export const editRecord = async (
  store: RecordStore,
  kind: RecordKind,
  id: string,
  edit: (found: StoredRecord) => Json | undefined,
): Promise<boolean> => {
  for (;;) {
    const found = await store.findRecord(kind, id)
    const value = found && edit(found)
    if (found === undefined || value === undefined) return false
    if (await store.replaceRecord(kind, found, value)) return true
  }
}
