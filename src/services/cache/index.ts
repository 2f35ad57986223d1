import type { Secret } from '../../secret.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Entry } from './entry.ts'
import type { Accept, RedisCache } from './redis.ts'

export type { Entry } from './entry.ts'
export type { Accept } from './redis.ts'

/** Answers that processes and machines share. It may be slow, away or empty at any time; nobody ever waits for it. */
export interface SharedCache {
  /**
   * What was kept under the name, if Redis gives it and `accept` agrees within 5 ms in all; whatever is longer than
   * `maxBytes`, or not what keep() writes, is not found. Names hold no secrets.
   */
  find(name: string, maxBytes: number, accept: Accept): Promise<Entry | undefined>
  /** For `ttl` ms at most. Returns at once; whether it is kept nobody hears. */
  keep(name: string, entry: Entry, ttl: number): void
}

export interface Caches {
  /** Connects, in the background; the same Redis gives the same cache. To be called when a stage starts. */
  open(redis: Secret): SharedCache
}

export interface CachesTerms {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The client of Redis is loaded when the first cache is opened: most gateways have none. */
export const openCaches = (terms: CachesTerms): Caches & { close(): Promise<void> } => {
  const opened = new Map<string, Opened>()
  return {
    open(redis) {
      const known = opened.get(redis.reveal()) ?? connect(redis, terms)
      opened.set(redis.reveal(), known)
      return known
    },
    async close() {
      await Promise.all([...opened.values()].map(each => each.close()))
    },
  }
}

interface Opened extends SharedCache {
  close(): Promise<void>
}

const connect = (url: Secret, terms: CachesTerms): Opened => {
  let cache: RedisCache | undefined
  const opening = load(url, terms).then(made => {
    cache = made.cache
    return made
  })
  return {
    find: async (name, maxBytes, accept) => cache?.find(name, maxBytes, accept),
    keep: (name, entry, ttl) => cache?.keep(name, entry, ttl),
    async close() {
      const { cache, redis } = await opening
      cache.stop()
      await redis.close()
    },
  }
}

const load = async (url: Secret, terms: CachesTerms) => {
  const [{ Connection }, { RedisCache }] = await Promise.all([import('../../store/redis/connection.ts'), import('./redis.ts')])
  const redis = new Connection({ url }, terms.clock, {
    isPatient: true,
    onReady: () => void cache.greet(),
    onTrouble: cause => cache.hear(cause),
  })
  const cache = new RedisCache({ ...terms, redis, place: String(url) })
  // Nothing but close() ends its patience.
  redis.open().catch(() => undefined)
  return { cache, redis }
}
