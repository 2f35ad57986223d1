import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { AccountRow } from '../store.ts'
import { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'

/** The accounts in a Redis, read and nothing else. None when it cannot be asked: it may be out of reach from here. */
export const readRedisAccounts = async (address: RedisAddress, clock: Clock): Promise<readonly AccountRow[]> => {
  const redis = new RedisConnection(address, clock)
  try {
    await redis.open()
    const rows = (await redis.sendCommand('HVALS', redisKeys.accounts)) as string[]
    return rows.map(text => JSON.parse(text) as AccountRow) // as this very program has written them
  } catch {
    return []
  } finally {
    await redis.close()
  }
}
