import type { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { SharedCacheEntry } from './cache-entry.ts'
import type { AcceptEntry, RedisCache } from './redis-cache.ts'

export type { SharedCacheEntry } from './cache-entry.ts'
export type { AcceptEntry } from './redis-cache.ts'

/** Answers that processes and machines share. It may be slow, away or empty at any time; nobody ever waits for it. */
export interface SharedCache {
  /**
   * What was kept under the name, if Redis gives it and `accept` agrees within 5 ms in all; whatever is longer than
   * `maxBytes`, or not what keep() writes, is not found. Names hold no secrets.
   */
  get(name: string, maxBytes: number, accept: AcceptEntry): Promise<SharedCacheEntry | undefined>
  /** For `ttl` ms at most. Returns at once; whether it is kept nobody hears. */
  set(name: string, entry: SharedCacheEntry, ttlMs: number): void
}

export interface SharedCaches {
  /** Connects, in the background; the same Redis gives the same cache. To be called when a stage starts. */
  open(redis: Secret): SharedCache
}

export interface SharedCachesOptions {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The client of Redis is loaded when the first cache is opened: most gateways have none. */
export const openSharedCaches = (options: SharedCachesOptions): SharedCaches & { close(): Promise<void> } => {
  const opened = new Map<string, OpenedCache>()
  return {
    open(redis) {
      const existing = opened.get(redis.reveal()) ?? connectCache(redis, options)
      opened.set(redis.reveal(), existing)
      return existing
    },
    async close() {
      await Promise.all([...opened.values()].map(each => each.close()))
    },
  }
}

interface OpenedCache extends SharedCache {
  close(): Promise<void>
}

const connectCache = (url: Secret, options: SharedCachesOptions): OpenedCache => {
  let cache: RedisCache | undefined
  const loading = loadRedisCache(url, options).then(loaded => {
    cache = loaded.cache
    return loaded
  })
  return {
    get: async (name, maxBytes, accept) => cache?.get(name, maxBytes, accept),
    set: (name, entry, ttlMs) => cache?.set(name, entry, ttlMs),
    async close() {
      const { cache, redis } = await loading
      cache.stop()
      await redis.close()
    },
  }
}

const loadRedisCache = async (url: Secret, options: SharedCachesOptions) => {
  const [{ RedisConnection }, { RedisCache }] = await Promise.all([
    import('../../store/redis/redis-connection.ts'),
    import('./redis-cache.ts'),
  ])
  const redis = new RedisConnection({ url }, options.clock, {
    retryInitialConnect: true,
    onReady: () => void cache.onConnected(),
    onError: cause => cache.onConnectionError(cause),
  })
  const cache = new RedisCache({ ...options, redis, address: String(url) })
  // Nothing but close() ends its patience.
  redis.open().catch(() => undefined)
  return { cache, redis }
}
