import type { DayRecords, ReportedUse } from '../lease-accounting.ts'
import { creditsByDay, totalsByHour, usageGroupKey } from '../usage-store.ts'
import type { UsageCount, UsageReport, UsageStore } from '../usage-store.ts'
import { parsePairs } from './redis-connection.ts'
import type { RedisConnection } from './redis-connection.ts'
import { parseIntegers, syncDayClock } from './redis-day-clock.ts'
import type { RedisDayClock } from './redis-day-clock.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-usage-scripts.ts'

export const redisUsageStore = (redis: RedisConnection, dayClock: RedisDayClock): UsageStore => ({
  reportUsage: report => storeReport(redis, dayClock, report),
  async usageCounts(account, from, to) {
    const hours = (await redis.sendCommand('ZRANGEBYSCORE', redisKeys.hoursOfAccount(account), String(from), `(${to}`)) as string[]
    const rows = await Promise.all(
      hours.map(async hour =>
        parseHourCounts(account, Number(hour), await redis.sendCommand('HGETALL', redisKeys.usage(account, Number(hour)))),
      ),
    )
    return rows.flat()
  },
  async hourTotals(account, from, to) {
    const hours = Array.from({ length: to - from }, (_, i) => from + i)
    const fields = hours.flatMap(hour => [`${hour} calls`, `${hour} credits`])
    const values = (await redis.sendCommand('HMGET', redisKeys.hourTotals(account), ...fields)) as (string | null)[]
    return hours.flatMap((hour, i) => {
      const [calls, credits] = [values[2 * i], values[2 * i + 1]]
      return calls == null ? [] : [{ hour, calls: Number(calls), credits: Number(credits) }]
    })
  },
})

/** Returns the number of the process's report before this one. Hours that are over their retention are dropped with it. */
const storeReport = async (
  redis: RedisConnection,
  dayClock: RedisDayClock,
  { process, seq, counts, retentionHours, isFinal = false }: UsageReport,
): Promise<number> => {
  await syncDayClock(redis, dayClock)
  const use = creditsByDay(counts)
  const hours = totalsByHour(counts)
  const reply = await redis.runScript(
    scripts.reportUsage,
    [
      redisKeys.lastReport(process),
      redisKeys.reportingProcesses,
      redisKeys.hoursOfAllAccounts,
      ...counts.map(({ account, hour }) => redisKeys.usage(account, hour)),
      ...hours.flatMap(({ account }) => [redisKeys.hoursOfAccount(account), redisKeys.hourTotals(account)]),
      ...use.flatMap(({ account, day }) => [redisKeys.reportedUse(account, day), redisKeys.reportedDays(account)]),
    ],
    [
      ...dayClock.scriptArgs(),
      ...[seq, retentionHours, isFinal ? finalSuffix : '', process, counts.length, hours.length],
      ...counts.flatMap(count => [usageGroupKey(count), count.calls, count.credits]),
      ...hours.flatMap(({ account, hour, calls, credits }) => [account, hour, calls, credits]),
      ...use.flatMap(({ day, credits }) => [day, credits]),
    ],
  )
  // A smaller number would say that the store has lost reports, which would be counted twice then.
  const [previousSeq] = parseIntegers(reply, 1, { hasMore: true }) as [number]
  const [, ...expired] = reply as [number, ...string[]]
  await Promise.all(expired.map(hour => dropHour(redis, hour)))
  return previousSeq
}

/** Behind the number of a process's last report. */
const finalSuffix = ' final'

/** What processes have reported of one account's day, and the credits of its usage counts. */
interface ReportedDay extends Pick<DayRecords, 'reported'> {
  readonly counted: number
}

/** `dayKeys`: what processes have reported, and the hours whose credits are summed. */
export const readReportedUse = async (
  redis: RedisConnection,
  dayKeys: readonly string[],
  processes: readonly string[],
): Promise<ReportedDay> => {
  const scriptKeys = [...dayKeys, ...processes.map(redisKeys.lastReport)]
  const [counted, ...found] = (await redis.runScript(scripts.readReportedUse, scriptKeys, [dayKeys.length, ...processes])) as [
    string,
    ...string[],
  ]
  const reported = new Map<string, ReportedUse>()
  for (const [i, process] of processes.entries()) {
    const [credits = '0', lastReport = ''] = found.slice(2 * i)
    if (lastReport !== '') reported.set(process, { credits: Number(credits), isFinal: lastReport.endsWith(finalSuffix) })
  }
  return { counted: Number(counted), reported }
}

/** Of one process, as reportUsage() records it. */
export const restoreReportedUse = async (
  redis: RedisConnection,
  dayClock: RedisDayClock,
  { account, day, process }: { readonly account: string; readonly day: number; readonly process: string },
  { credits, isFinal }: ReportedUse,
): Promise<void> => {
  await syncDayClock(redis, dayClock)
  const lastReport = `0${isFinal ? finalSuffix : ''}`
  await redis.runScript(
    scripts.restoreReportedUse,
    [redisKeys.lastReport(process), redisKeys.reportingProcesses, redisKeys.reportedUse(account, day), redisKeys.reportedDays(account)],
    [...dayClock.scriptArgs(), process, day, credits, lastReport],
  )
}

const dropHour = (redis: RedisConnection, member: string): Promise<unknown> => {
  const { account, hour } = parseHourMember(member)
  return redis.runScript(
    scripts.dropHour,
    [redisKeys.usage(account, hour), redisKeys.hoursOfAccount(account), redisKeys.hoursOfAllAccounts, redisKeys.hourTotals(account)],
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
