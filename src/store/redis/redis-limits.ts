import type { UsedShares } from '../store.ts'
import type { RedisClient } from './redis-client.ts'

/** What INFO calls what is used, and its limit. `maxclients` is there from Redis 7 on. */
const limits = [
  { name: 'memory', section: 'memory', used: 'used_memory', limit: 'maxmemory' },
  { name: 'clients', section: 'clients', used: 'connected_clients', limit: 'maxclients' },
] as const

/** Of the nodes that take writes. */
export const readUsedShares = async (redis: RedisClient): Promise<UsedShares> => {
  const found = limits.map(async ({ name, section, used, limit }) => {
    const shares = (await readInfos(redis, section)).flatMap(info => {
      const [usedNow, most] = [numberIn(info, used), numberIn(info, limit)]
      // 0: there is no limit.
      return most > 0 ? [usedNow / most] : []
    })
    return shares.length === 0 ? [] : [[name, Math.max(...shares)] as const]
  })
  return Object.fromEntries((await Promise.all(found)).flat())
}

const numberIn = (info: string, name: string): number => Number(new RegExp(`^${name}:(\\d+)\\r?$`, 'm').exec(info)?.[1] ?? 0)

/** Nothing where a provider does not allow INFO. */
export const readInfos = (redis: RedisClient, section: string): Promise<readonly string[]> => redis.infos(section).catch(() => [])
