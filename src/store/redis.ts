import type { RedisAddress } from '../config/types.ts'
import type { Clock } from '../services/clock.ts'
import { accountsIn } from './redis/accounts.ts'
import { openCalendar } from './redis/calendar.ts'
import { Connection } from './redis/connection.ts'
import { copiesOf } from './redis/copy.ts'
import { keys, version } from './redis/layout.ts'
import { ledgerIn } from './redis/ledger.ts'
import { openNews } from './redis/news.ts'
import { usageIn } from './redis/usage.ts'
import { StoreFault } from './store.ts'
import type { Store } from './store.ts'

/**
 * The store for many machines: a Redis 5 or later, or a Valkey. Redis's own clock names the day; `now`, in ms since
 * 1970, takes its place in tests.
 */
export const openRedis = async (address: RedisAddress, clock: Clock, now?: () => number): Promise<Store> => {
  const redis = new Connection(address, clock)
  await redis.open()
  try {
    await checkVersion(redis, address)
    await checkMemory(redis, address)
  } catch (fault) {
    await redis.close()
    throw fault
  }
  const calendar = openCalendar(now)
  const news = openNews(address, clock)
  return {
    ...accountsIn(redis, news),
    ...ledgerIn(redis, calendar),
    ...usageIn(redis, calendar),
    ...copiesOf(redis, calendar),
    async close() {
      await Promise.all([redis.close(), news.close()])
    },
  }
}

const checkVersion = async (redis: Connection, address: RedisAddress): Promise<void> => {
  await redis.send('SETNX', keys.version, String(version))
  const found = await redis.send('GET', keys.version)
  if (found === String(version)) return
  throw new StoreFault(
    `the store in redis at ${address.url} has version ${String(found)}, and this Tollgate reads version ${version}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another database',
  )
}

/** What Redis drops to make room would be served twice. */
const checkMemory = async (redis: Connection, address: RedisAddress): Promise<void> => {
  // Not every provider allows INFO.
  const info = String(await redis.send('INFO', 'memory').catch(() => ''))
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction'
  if (policy === 'noeviction' || /^maxmemory:0\r?$/m.test(info)) return
  throw new StoreFault(
    `redis at ${address.url} would drop balances and keys when its memory is full: ` +
      `set its maxmemory-policy to noeviction (it is ${policy})`,
  )
}
