import type { Secret } from '../../plugin/secret.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { AcceptEntry, RedisCache, SharedCacheEntry } from './redis-cache.ts'

export type { AcceptEntry, SharedCacheEntry } from './redis-cache.ts'

/** Results that processes and machines share. Redis may be slow, unreachable or empty at any time: no call waits for it. */
export interface SharedCache {
  /**
   * The entry of the name, if Redis returns it and `accept` agrees within 5 ms in all. An entry above `maxBytes`, and bytes
   * that set() did not write, are not found. Names hold no secrets.
   */
  get(name: string, maxBytes: number, accept: AcceptEntry): Promise<SharedCacheEntry | undefined>
  /** Writes in the background: an entry that cannot be written is dropped. */
  set(name: string, entry: SharedCacheEntry, ttlMs: number): void
}

export interface SharedCaches {
  /** Connects in the background. The same URL gives the same cache. A plugin calls this in start(). */
  open(redis: Secret): SharedCache
}

interface SharedCachesOptions {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The Redis client is loaded when the first cache is opened: most gateways have none. */
export const openSharedCaches = (options: SharedCachesOptions): SharedCaches & { close(): Promise<void> } => {
  const opened = new Map<string, OpenedCache>()
  return {
    open: redis => getOrCreate(opened, redis.reveal(), () => connectCache(redis, options)),
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
      const loaded = await loading
      loaded.cache.stop()
      await loaded.redis.close()
    },
  }
}

const loadRedisCache = async (url: Secret, options: SharedCachesOptions) => {
  const [{ RedisClient }, { RedisCache }] = await Promise.all([import('../../store/redis/redis-client.ts'), import('./redis-cache.ts')])
  const redis = new RedisClient({ url }, options.clock, {
    retryInitialConnect: true,
    onReady: () => void cache.onConnected(),
    onError: cause => cache.onConnectionError(cause),
  })
  const cache = new RedisCache({ ...options, redis, address: String(url) })
  redis.open().catch(() => undefined) // retries until close(), which rejects it
  return { cache, redis }
}
