import type { CopySource } from '../store.ts'
import { hashedKeys } from './accounts.ts'
import type { RedisDayClock } from './calendar.ts'
import type { RedisConnection } from './connection.ts'
import { redisKeys } from './layout.ts'
import { parseLeaseRecord } from './ledger.ts'
import { parsePairs } from './reply.ts'
import * as scripts from './scripts.ts'
import { parseHourCounts, parseHourMember } from './usage.ts'

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
