import type { StoreAddress } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import type { AccountRow } from './store.ts'

/**
 * The accounts of a store, for who must not change or create anything. None when there is no store yet, or when it
 * cannot be read: what is wrong with it is told by whoever opens it.
 */
export const readAccounts = async (address: StoreAddress, clock: Clock): Promise<readonly AccountRow[]> =>
  address.kind === 'lmdb'
    ? (await import('./lmdb/read-lmdb-accounts.ts')).readLmdbAccounts(address.path)
    : (await import('./redis/read-redis-accounts.ts')).readRedisAccounts(address, clock)
