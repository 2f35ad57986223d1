import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import { redisAccountStore } from './redis-accounts.ts'
import { openDayClock } from './redis-day-clock.ts'
import { RedisConnection } from './redis-connection.ts'
import { redisCopySource } from './redis-copy-source.ts'
import { redisKeys, layoutVersion } from './redis-layout.ts'
import { redisLedgerStore } from './redis-ledger.ts'
import { openChangeFeed } from './change-feed.ts'
import { redisUsageStore } from './redis-usage.ts'
import { StoreError } from '../store.ts'
import type { Store } from '../store.ts'

/**
 * The store for many machines: a Redis 5 or later, or a Valkey. Redis's own clock names the day; `now`, in ms since
 * 1970, takes its place in tests.
 */
export const openRedisStore = async (address: RedisAddress, clock: Clock, now?: () => number): Promise<Store> => {
  const redis = new RedisConnection(address, clock)
  await redis.open()
  try {
    await checkVersion(redis, address)
    await checkEvictionPolicy(redis, address)
  } catch (fault) {
    await redis.close()
    throw fault
  }
  const dayClock = openDayClock(now)
  const changeFeed = openChangeFeed(address, clock)
  return {
    ...redisAccountStore(redis, changeFeed),
    ...redisLedgerStore(redis, dayClock),
    ...redisUsageStore(redis, dayClock),
    ...redisCopySource(redis, dayClock),
    async close() {
      await Promise.all([redis.close(), changeFeed.close()])
    },
  }
}

const checkVersion = async (redis: RedisConnection, address: RedisAddress): Promise<void> => {
  await redis.sendCommand('SETNX', redisKeys.version, String(layoutVersion))
  const found = await redis.sendCommand('GET', redisKeys.version)
  if (found === String(layoutVersion)) return
  throw new StoreError(
    `the store in redis at ${address.url} has version ${String(found)}, and this Tollgate reads version ${layoutVersion}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another database',
  )
}

/** What Redis drops to make room would be served twice. */
const checkEvictionPolicy = async (redis: RedisConnection, address: RedisAddress): Promise<void> => {
  // Not every provider allows INFO.
  const info = String(await redis.sendCommand('INFO', 'memory').catch(() => ''))
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction'
  if (policy === 'noeviction' || /^maxmemory:0\r?$/m.test(info)) return
  throw new StoreError(
    `redis at ${address.url} would drop balances and keys when its memory is full: ` +
      `set its maxmemory-policy to noeviction (it is ${policy})`,
  )
}
