import { LRUCache } from 'lru-cache'
import type { Clock } from '../../services/clock.ts'
import { unexpired } from '../../store/record-store.ts'
import type { StoredRecord } from '../../store/record-store.ts'
import { StoreError } from '../../store/store.ts'
import type { SessionOptions } from '../people/sessions.ts'

type SessionStore = SessionOptions['store']

/** What this gateway last knew of a session. */
interface KnownSession {
  /** Undefined: it has ended. */
  readonly record: StoredRecord | undefined
  /** It began or ended while the store was unreachable: the store is told with the next request. */
  readonly isUnwritten?: boolean
}

const maxSessions = 1_000

/**
 * The sessions of the operator, who opens the page above all while the store is unreachable. A gateway then goes on with the sessions that it
 * knows, and begins and ends others by itself: the token of the admin listener is in its configuration. Most routes need the store all the same.
 */
export const createOutageSessions = (store: SessionStore, clock: Pick<Clock, 'now'>): SessionStore => {
  const known = new LRUCache<string, KnownSession>({ max: maxSessions })

  /** What was begun or ended while the store was unreachable. */
  const writeLate = async (id: string): Promise<void> => {
    const { record, isUnwritten = false } = known.get(id) ?? {}
    if (!isUnwritten) return
    if (record === undefined) await store.takeRecord('session', id)
    else await store.putRecord('session', record)
    known.set(id, { record })
  }

  return {
    findRecord: (kind, id) =>
      unlessUnreachable(
        async () => {
          await writeLate(id)
          const record = await store.findRecord(kind, id)
          if (record === undefined) known.delete(id)
          else known.set(id, { record })
          return record
        },
        () => unexpired(known.get(id)?.record, clock.now()),
      ),
    putRecord: (kind, record) =>
      unlessUnreachable(
        async () => {
          await store.putRecord(kind, record)
          known.set(record.id, { record })
        },
        () => void known.set(record.id, { record, isUnwritten: true }),
      ),
    // A renewal that the store has missed is made up for by the next one.
    replaceRecord: (kind, found, value, expires = found.expires) =>
      unlessUnreachable(
        () => store.replaceRecord(kind, found, value, expires),
        () => known.set(found.id, { ...known.get(found.id), record: { ...found, value, expires } }) !== undefined,
      ),
    takeRecord: (kind, id) =>
      unlessUnreachable(
        async () => {
          known.delete(id)
          return store.takeRecord(kind, id)
        },
        () => void known.set(id, { record: undefined, isUnwritten: true }),
      ),
  }
}

const unlessUnreachable = async <T>(work: () => Promise<T>, otherwise: () => T): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) return otherwise()
    throw error
  }
}
