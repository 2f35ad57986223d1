import type { CopySource } from '../store.ts'
import { hashedKeys } from './redis-accounts.ts'
import type { RedisDayClock } from './redis-day-clock.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import { parseLeaseRecord } from './redis-ledger.ts'
import { parsePairs } from './redis-reply.ts'
import * as scripts from './redis-scripts.ts'
import { parseHourCounts, parseHourMember } from './redis-usage.ts'

export const redisCopySource = (redis: RedisConnection, { scriptArgs }: RedisDayClock): CopySource => ({
  async countLiveProcesses() {
    const [, , ...liveProcesses] = (await redis.runScript(
      scripts.listLiveProcesses,
      [redisKeys.processes, redisKeys.latestDay],
      scriptArgs(),
    )) as unknown[]
    return liveProcesses.length
  },
  hashedKeys: account => hashedKeys(redis, account),
  async leaseRecords(account, day) {
    const row = parsePairs(await redis.sendCommand('HGETALL', redisKeys.ledgerDay(account, day)))
    return new Map(row.filter(([name]) => name !== 'leased').map(([name, value]) => [name.slice(2), parseLeaseRecord(value)]))
  },
  async *allUsageCounts() {
    for (const member of (await redis.sendCommand('ZRANGE', redisKeys.hoursOfAllAccounts, '0', '-1')) as string[]) {
      const { account, hour } = parseHourMember(member)
      yield* parseHourCounts(account, hour, await redis.sendCommand('HGETALL', redisKeys.usage(account, hour)))
    }
  },
})
