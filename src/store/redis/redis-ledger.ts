import { creditsByDay, sumDay, totalsByHour } from '../lease-accounting.ts'
import type { DayRecords, LeaseRecord, LeaseRequest, ReportedUse } from '../lease-accounting.ts'
import { ledgerRetentionDays } from '../store.ts'
import type { BalanceStore, ClockRepair, DayTotals, KeyRow, LeaseResponse, LedgerStore, StoreDay } from '../store.ts'
import { usageGroupKey } from '../usage-store.ts'
import type { UsageCount, UsageStore } from '../usage-store.ts'
import { parsePairs } from './redis-connection.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-ledger-scripts.ts'
import type { RedisDayClock } from './redis-ledger-scripts.ts'
import { dayMs, hoursPerDay } from '../../util/dates.ts'

export const redisLedgerStore = (redis: RedisConnection, dayClock: RedisDayClock): LedgerStore & BalanceStore & ClockRepair => ({
  // A request costs a round trip over the network.
  horizonMs: 10_000,
  async requestLease(request) {
    // The script cannot read what the store has recorded of its time: that is in another slot of a cluster.
    if (!dayClock.isSynced()) await listLiveProcesses(redis, dayClock)
    const reply = await redis.runScript(
      scripts.requestLease,
      [redisKeys.ledgerDay(request.account, request.day), redisKeys.latestLedgerDay(request.account)],
      [...dayClock.scriptArgs(), ...leaseArgs(request)],
    )
    const [today, endsInMs, granted, returned, used, remaining] = (reply as LeaseReply).map(Number) as LeaseReplyNumbers
    return dayClock.observe<LeaseResponse>({ today, endsInMs, counters: { granted, returned, used }, remaining })
  },
  async heartbeat(process) {
    const reply = await redis.runScript(scripts.heartbeat, processKeys, [...dayClock.scriptArgs(), process])
    const [today, endsInMs, liveProcesses, ignoredJumpMs] = reply as HeartbeatReply
    return dayClock.observe({ today, endsInMs, liveProcesses, ignoredJumpMs })
  },
  async deregister(process) {
    await redis.sendCommand('ZREM', redisKeys.processes, process)
  },
  async dayBalance(account, day) {
    const { counted: _, ...balance } = await readDayTotals(redis, dayClock, { account, day, countedHours: 0 })
    return balance
  },
  dayTotals: (account, day) => readDayTotals(redis, dayClock, { account, day, countedHours: hoursPerDay }),
  async resetDay() {
    const [from, to] = (await redis.runScript(scripts.resetDay, processKeys, dayClock.scriptArgs())) as [number, number]
    const accounts = (await redis.sendCommand('HKEYS', redisKeys.accounts)) as string[]
    const keys = ((await redis.sendCommand('HVALS', redisKeys.keys)) as string[]).map(row => JSON.parse(row) as KeyRow)
    const limitedKeys = keys.flatMap(({ id, dailyCredits }) => (dailyCredits === undefined ? [] : [id]))
    // Other rows have expired: a row that is not the latest is kept for three days after its day by the clock that wrote it.
    const laterDays = Array.from({ length: ledgerRetentionDays }, (_, i) => to + 1 + i)
    await Promise.all(
      [...accounts, ...limitedKeys].flatMap(account => [
        dropLatestDay(redis, account, to),
        ...laterDays.map(day => redis.sendCommand('DEL', redisKeys.ledgerDay(account, day))),
      ]),
    )
    return { from, to }
  },
})

/** Drops the row of the account's latest day if that is after `after`. */
export const dropLatestDay = async (redis: RedisConnection, account: string, after = -1): Promise<void> => {
  const latest = Number(await redis.sendCommand('GET', redisKeys.latestLedgerDay(account)))
  if (latest <= after) return
  await redis.sendCommand('DEL', redisKeys.ledgerDay(account, latest))
  await redis.sendCommand('DEL', redisKeys.latestLedgerDay(account))
}

/** `countedHours`: of how many hours of the day the credits of counts are summed, from the first. */
const readDayTotals = async (
  redis: RedisConnection,
  dayClock: RedisDayClock,
  {
    account,
    day: requestedDay,
    countedHours,
  }: { readonly account: string; readonly day: number | undefined; readonly countedHours: number },
): Promise<DayTotals> => {
  const { processes, ...storeDay } = await listLiveProcesses(redis, dayClock)
  const day = requestedDay ?? storeDay.today
  const { leased, counted, ...records } =
    day > storeDay.today - ledgerRetentionDays ? await readLedgerDay(redis, account, day, countedHours) : emptyLedgerDay
  return { ...storeDay, day, leased, counted, ...sumDay(records, process => processes.includes(process)) }
}

const processKeys = [redisKeys.processes, redisKeys.latestDay, redisKeys.time]

type LeaseReply = readonly (number | string)[]
type LeaseReplyNumbers = [today: number, endsInMs: number, granted: number, returned: number, used: number, remaining: number]
type HeartbeatReply = [today: number, endsInMs: number, liveProcesses: number, ignoredJumpMs: number]
type LiveProcessesReply = [today: number, endsInMs: number, ...processes: string[]]

/** The arguments of the script, in its order. */
const leaseArgs = (request: LeaseRequest): readonly (string | number)[] => {
  const { process, seq, day, minCredits, desiredCredits, limit, shareDivisor, counters } = request
  const reported = counters ? [counters.granted, counters.returned, counters.used] : ['', '', '']
  return [process, seq, day, minCredits, desiredCredits, limit, shareDivisor, ...reported]
}

export const listLiveProcesses = async (
  redis: RedisConnection,
  { scriptArgs, observe }: RedisDayClock,
): Promise<StoreDay & { readonly processes: readonly string[] }> => {
  const reply = await redis.runScript(scripts.listLiveProcesses, processKeys, scriptArgs())
  const [today, endsInMs, ...processes] = reply as LiveProcessesReply
  return observe({ today, endsInMs, processes })
}

/** One account's day: what is leased over all processes, the records by process, and the credits of the usage counts. */
interface LedgerDay extends DayRecords {
  readonly leased: number
  readonly counted: number
}

const emptyLedgerDay: LedgerDay = { leased: 0, counted: 0, leases: new Map(), reported: new Map() }

/** What processes have reported is read before their leases: a lease covers what was reported before. */
export const readLedgerDay = async (redis: RedisConnection, account: string, day: number, countedHours = 0): Promise<LedgerDay> => {
  const { leases: known } = await readLeases(redis, account, day)
  const hours = Array.from({ length: countedHours }, (_, i) => redisKeys.usage(account, day * hoursPerDay + i))
  const use = await readReportedUse(redis, [redisKeys.reportedUse(account, day), ...hours], [...known.keys()])
  return { ...use, ...(await readLeases(redis, account, day)) }
}

const readLeases = async (redis: RedisConnection, account: string, day: number): Promise<Pick<LedgerDay, 'leased' | 'leases'>> => {
  let leased = 0
  const leases = new Map<string, LeaseRecord>()
  for (const [field, value] of parsePairs(await redis.sendCommand('HGETALL', redisKeys.ledgerDay(account, day)))) {
    if (field === 'leased') leased = Number(value)
    else leases.set(field.slice('p:'.length), parseLeaseRecord(value))
  }
  return { leased, leases }
}

/** `dayKeys`: what processes have reported, and the hours whose credits are summed. */
const readReportedUse = async (
  redis: RedisConnection,
  dayKeys: readonly string[],
  processes: readonly string[],
): Promise<Pick<LedgerDay, 'reported' | 'counted'>> => {
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

/** The text that the script writes. */
const parseLeaseRecord = (text: string): LeaseRecord => {
  const [granted = 0, returned = 0, used = 0, seq = 0] = text.split(' ').map(Number)
  return { granted, returned, used, seq }
}

export const redisUsageStore = (redis: RedisConnection, { scriptArgs }: RedisDayClock): UsageStore => ({
  async reportUsage({ process, seq, counts, retentionHours, isFinal = false }) {
    const use = creditsByDay(counts)
    const hours = totalsByHour(counts)
    const [previousSeq, ...expired] = (await redis.runScript(
      scripts.reportUsage,
      [
        redisKeys.lastReport(process),
        redisKeys.hoursOfAllAccounts,
        ...counts.map(({ account, hour }) => redisKeys.usage(account, hour)),
        ...hours.flatMap(({ account }) => [redisKeys.hoursOfAccount(account), redisKeys.hourTotals(account)]),
        ...use.map(({ account, day }) => redisKeys.reportedUse(account, day)),
      ],
      [
        ...scriptArgs(),
        ...[seq, retentionHours, lastReportTtlMs, isFinal ? finalSuffix : '', process, counts.length, hours.length],
        ...counts.flatMap(count => [usageGroupKey(count), count.calls, count.credits]),
        ...hours.flatMap(({ account, hour, calls, credits }) => [account, hour, calls, credits]),
        ...use.flatMap(({ day, credits }) => [day, credits]),
      ],
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

/** Behind the number of a process's last report. */
const finalSuffix = ' final'

/** Of one process, as reportUsage() records it. */
export const restoreReportedUse = async (
  redis: RedisConnection,
  { account, day, process }: { readonly account: string; readonly day: number; readonly process: string },
  { credits, isFinal }: ReportedUse,
): Promise<void> => {
  const key = redisKeys.reportedUse(account, day)
  await redis.sendCommand('HSET', key, process, String(credits))
  await redis.sendCommand('EXPIREAT', key, String(((day + ledgerRetentionDays) * dayMs) / 1_000))
  const lastReport = `0${isFinal ? finalSuffix : ''}`
  await redis.sendCommand('SET', redisKeys.lastReport(process), lastReport, 'PX', String(lastReportTtlMs), 'NX')
}

/** A process without reports for this time does not repeat its last one. */
const lastReportTtlMs = 3 * dayMs

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
