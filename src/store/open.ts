import { loadAtOnce } from '../at-once.ts'
import type { StoreAddress } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import type { Heights } from './redis/heights.ts'
import type { Store } from './store.ts'

/**
 * Opens the store that gateway.yaml names. Throws StoreFault when the operator must change something first. Only the
 * engine that is used is loaded.
 */
export const openStore = async (address: StoreAddress, clock: Clock): Promise<Store> => {
  if (address.kind !== 'lmdb') return (await import('./redis.ts')).openRedis(address, clock)
  loadAtOnce(new URL('./lmdb.js', import.meta.url))
  return (await import('./lmdb.ts')).openLmdb(address.path, clock)
}

/** What gateways on other machines tell callers, where the store is one that machines share. */
export const openHeights = async (address: StoreAddress, clock: Clock): Promise<Heights> =>
  address.kind === 'lmdb'
    ? { newsOf: () => [], close: async () => undefined }
    : (await import('./redis/heights.ts')).openHeights(address, clock)
