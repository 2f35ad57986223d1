import type { UsageCount, UsageStore } from '../store.ts'
import { usageGroupKey } from '../store.ts'
import { parsePairs } from './redis-connection.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-scripts.ts'
import type { RedisDayClock } from './redis-scripts.ts'
import { dayMs } from '../../util/dates.ts'

export const redisUsageStore = (redis: RedisConnection, { scriptArgs }: RedisDayClock): UsageStore => ({
  async reportUsage({ process, seq, counts, retentionHours }) {
    const countKeys = counts.flatMap(({ account, hour }) => [redisKeys.usage(account, hour), redisKeys.hoursOfAccount(account)])
    const countArgs = counts.flatMap(count => [count.account, count.hour, usageGroupKey(count), count.calls, count.credits])
    const [previousSeq, ...expired] = (await redis.runScript(
      scripts.reportUsage,
      [redisKeys.lastReport(process), redisKeys.hoursOfAllAccounts, ...countKeys],
      [...scriptArgs(), seq, retentionHours, lastReportTtlMs, ...countArgs],
    )) as [number, ...string[]]
    await Promise.all(expired.map(hour => dropHour(redis, hour)))
    return previousSeq
  },
  async usageCounts(account, from, to) {
    const hours = (await redis.sendCommand('ZRANGEBYSCORE', redisKeys.hoursOfAccount(account), String(from), `(${to}`)) as string[]
    const rows = await Promise.all(
      hours.map(async hour =>
        parseHourCounts(account, Number(hour), await redis.sendCommand('HGETALL', redisKeys.usage(account, Number(hour)))),
      ),
    )
    return rows.flat()
  },
})

/** A process without reports for this time does not repeat its last one. */
const lastReportTtlMs = 3 * dayMs

const dropHour = (redis: RedisConnection, member: string): Promise<unknown> => {
  const { account, hour } = parseHourMember(member)
  return redis.runScript(
    scripts.dropHour,
    [redisKeys.usage(account, hour), redisKeys.hoursOfAccount(account), redisKeys.hoursOfAllAccounts],
    [hour, account],
  )
}

/** A member of `hoursOfAllAccounts`. */
export const parseHourMember = (member: string): { readonly account: string; readonly hour: number } => {
  const colon = member.lastIndexOf(':')
  return { account: member.slice(0, colon), hour: Number(member.slice(colon + 1)) }
}

/** `row` is the reply of HGETALL for one account's hour. */
export const parseHourCounts = (account: string, hour: number, row: unknown): readonly UsageCount[] => {
  const groups = new Map<string, { calls: number; credits: number }>()
  for (const [field, value] of parsePairs(row)) {
    const space = field.lastIndexOf(' ')
    const sums = groups.get(field.slice(0, space)) ?? { calls: 0, credits: 0 }
    groups.set(field.slice(0, space), { ...sums, [field.slice(space + 1)]: Number(value) })
  }
  return Array.from(groups, ([group, sums]) => {
    const [key, network, method, outcome, forwarded] = JSON.parse(group) as [string, string, string, string, boolean]
    return { account, key, network, method, outcome, forwarded, hour, ...sums }
  })
}
