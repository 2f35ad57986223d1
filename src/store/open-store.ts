import { loadModulesSync } from '../runtime/load-modules-sync.ts'
import type { StoreAddress } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import type { HeightBroadcasts } from './redis/redis-height-broadcast.ts'
import type { Store } from './store.ts'

/**
 * Opens the store that gateway.yaml names. Throws StoreFault when the operator must change something first. Only the
 * engine that is used is loaded.
 */
export const openStore = async (address: StoreAddress, clock: Clock): Promise<Store> => {
  if (address.kind !== 'lmdb') return (await import('./redis/redis-store.ts')).openRedisStore(address, clock)
  loadModulesSync(new URL('./lmdb/lmdb-store.js', import.meta.url))
  return (await import('./lmdb/lmdb-store.ts')).openLmdbStore(address.path, clock)
}

/** What gateways on other machines tell callers, where the store is one that machines share. */
export const openHeightBroadcasts = async (address: StoreAddress, clock: Clock): Promise<HeightBroadcasts> =>
  address.kind === 'lmdb'
    ? { heightBroadcastsOf: () => [], close: async () => undefined }
    : (await import('./redis/redis-height-broadcast.ts')).openRedisHeightBroadcasts(address, clock)
