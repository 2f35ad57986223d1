import type { PlainStoreAddress, StoreAddress } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import type { Engine } from './engine.ts'
import { openEngineStore } from './engine-store.ts'
import type { BackupSummary } from './lmdb/lmdb-backup.ts'
import { assertInUse, openMovableEngine, readMove, storeId } from './movable-engine.ts'
import type { HeightBroadcasts } from './redis/redis-height-broadcast.ts'
import { StoreError } from './store.ts'
import type { Store, StoreContents } from './store.ts'

// Each engine is loaded when it is used: a start with LMDB loads no Redis client.

/** Opens the store that gateway.yaml names. Rejects with StoreError when the operator must change something first. */
export const openStore = async ({ from, ...address }: StoreAddress, clock: Clock): Promise<Store> => {
  const opened: Engine[] = []
  const open = async (at: PlainStoreAddress): Promise<Engine> => {
    const engine = await openEngine(at, clock)
    opened.push(engine)
    return engine
  }
  try {
    const engine = await open(address)
    if (from !== undefined && (await readMove(engine, 'movedFrom')) === undefined) {
      const [source, id] = [await open(from), await storeId(engine)]
      const movedTo = await readMove(source, 'movedTo')
      if (movedTo === undefined) return openEngineStore(openMovableEngine(source, clock, { id, engine }), clock)
      if (movedTo !== id) await assertInUse(source)
      await source.close()
      return openEngineStore(engine, clock)
    }
    const { isBeingCopied } = await assertInUse(engine)
    return openEngineStore(isBeingCopied ? openMovableEngine(engine, clock) : engine, clock)
  } catch (error) {
    for (const engine of opened) await engine.close()
    throw error
  }
}

/** What the store is built on, whatever its state. */
export const openEngine = async (address: PlainStoreAddress, clock: Clock): Promise<Engine> =>
  address.kind === 'lmdb'
    ? (await import('./lmdb/lmdb-store.ts')).openLmdbFolder(address.path, clock)
    : (await import('./redis/redis-store.ts')).openRedis(address, clock)

/**
 * The accounts of a store and its warnings, without changing or creating anything. Empty when there is no store yet, or when it
 * cannot be read: openStore() reports why.
 */
export const inspectStore = async ({ from, ...address }: StoreAddress, clock: Clock): Promise<StoreContents> => {
  const old = from && (await inspectPlainStore(from, clock))
  return old !== undefined && isInUse(old) ? old : inspectPlainStore(address, clock)
}

const inspectPlainStore = async (address: PlainStoreAddress, clock: Clock): Promise<StoreContents> =>
  address.kind === 'lmdb'
    ? (await import('./lmdb/lmdb-store.ts')).inspectLmdbStore(address.path)
    : (await import('./redis/redis-store.ts')).inspectRedisStore(address, clock)

/** One that is gone is empty. */
const isInUse = ({ accounts, isMoved }: StoreContents): boolean => accounts.length > 0 && !isMoved

/** Writes an embedded store to a new folder while gateways use it. */
export const backupStore = async (
  { from, ...address }: StoreAddress,
  clock: Clock,
  target: string,
  signal?: AbortSignal,
): Promise<BackupSummary> => {
  const used = from !== undefined && isInUse(await inspectPlainStore(from, clock)) ? from : address
  if (used.kind !== 'lmdb') throw new StoreError('store backup is for an embedded store: a Redis is saved by its own means, such as BGSAVE')
  return (await import('./lmdb/lmdb-backup.ts')).backupLmdbStore(used.path, target, signal)
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
