import type { StoreAddress } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import type { BackupSummary } from './lmdb/lmdb-backup.ts'
import type { HeightBroadcasts } from './redis/redis-height-broadcast.ts'
import { StoreError } from './store.ts'
import type { Store, StoreContents } from './store.ts'

// Each engine is loaded when it is used: a start with LMDB loads no Redis client.

/** Opens the store that gateway.yaml names. Rejects with StoreError when the operator must change something first. */
export const openStore = async (address: StoreAddress, clock: Clock): Promise<Store> => {
  if (address.kind !== 'lmdb') return (await import('./redis/redis-store.ts')).openRedisStore(address, clock)
  return (await import('./lmdb/lmdb-store.ts')).openLmdbStore(address.path, clock)
}

/**
 * The accounts of a store and its warnings, without changing or creating anything. Empty when there is no store yet, or when it
 * cannot be read: openStore() reports why.
 */
export const inspectStore = async (address: StoreAddress, clock: Clock): Promise<StoreContents> =>
  address.kind === 'lmdb'
    ? (await import('./lmdb/lmdb-store.ts')).inspectLmdbStore(address.path)
    : (await import('./redis/redis-store.ts')).inspectRedisStore(address, clock)

/** Writes an embedded store to a new folder while gateways use it. */
export const backupStore = async (address: StoreAddress, target: string): Promise<BackupSummary> => {
  if (address.kind !== 'lmdb')
    throw new StoreError('store backup is for an embedded store: a Redis is saved by its own means, such as BGSAVE')
  return (await import('./lmdb/lmdb-backup.ts')).backupLmdbStore(address.path, target)
}

/** The rate limits that gateways on several machines share; undefined where the store cannot be shared by machines. */
export const openSharedRateLimits = async (
  address: StoreAddress,
  clock: Clock,
  log: Log,
): Promise<(RateLimits & { close(): Promise<void> }) | undefined> =>
  address.kind === 'lmdb' ? undefined : new (await import('./redis/redis-rate-limits.ts')).RedisRateLimits(address, clock, log)

/** The heights that gateways on other machines report; none where the store cannot be shared by machines. */
export const openHeightBroadcasts = async (address: StoreAddress, clock: Clock): Promise<HeightBroadcasts> =>
  address.kind === 'lmdb'
    ? { heightBroadcastsOf: () => [], close: async () => undefined }
    : (await import('./redis/redis-height-broadcast.ts')).openRedisHeightBroadcasts(address, clock)
