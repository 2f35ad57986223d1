import type { LeaseRecord, LeaseRequest } from '../lease-accounting.ts'
import { ledgerRetentionDays, usageGroupKey } from '../store.ts'
import type { ClockRepair, DayTotals, LeaseResponse, LedgerStore, StoreDay, UsageCount, UsageStore } from '../store.ts'
import { parsePairs } from './redis-connection.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-scripts.ts'
import type { RedisDayClock } from './redis-scripts.ts'
import { dayMs } from '../../util/dates.ts'

export const redisLedgerStore = (redis: RedisConnection, dayClock: RedisDayClock): LedgerStore & ClockRepair => ({
  // A request costs a round trip over the network.
  horizonMs: 10_000,
  async requestLease(request) {
    // The script cannot read what the store has recorded of its time: that is in another slot of a cluster.
    if (!dayClock.isSynced()) await listLiveProcesses(redis, dayClock)
    const reply = await redis.runScript(
      scripts.requestLease,
      [redisKeys.ledgerDay(request.account, request.day)],
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
  async dayTotals(account, requestedDay) {
    const { processes, ...storeDay } = await listLiveProcesses(redis, dayClock)
    const day = requestedDay ?? storeDay.today
    const row = day > storeDay.today - ledgerRetentionDays ? await readLedgerDay(redis, account, day) : emptyLedgerDay
    return { ...storeDay, day, leased: row.leased, ...sumTotals(row.records, new Set(processes)) }
  },
  async resetDay() {
    const [from, to] = (await redis.runScript(scripts.resetDay, processKeys, dayClock.scriptArgs())) as [number, number]
    const accounts = (await redis.sendCommand('HKEYS', redisKeys.accounts)) as string[]
    // Later rows have expired: a row is kept for three days after its day by the clock that wrote it.
    const laterDays = Array.from({ length: ledgerRetentionDays }, (_, i) => to + 1 + i)
    await Promise.all(accounts.flatMap(account => laterDays.map(day => redis.sendCommand('DEL', redisKeys.ledgerDay(account, day)))))
    return { from, to }
  },
})

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

/** One account's day: what is leased over all processes, and the records by process. */
interface LedgerDay {
  readonly leased: number
  readonly records: ReadonlyMap<string, LeaseRecord>
}

const emptyLedgerDay: LedgerDay = { leased: 0, records: new Map() }

export const readLedgerDay = async (redis: RedisConnection, account: string, day: number): Promise<LedgerDay> => {
  let leased = 0
  const records = new Map<string, LeaseRecord>()
  for (const [field, value] of parsePairs(await redis.sendCommand('HGETALL', redisKeys.ledgerDay(account, day)))) {
    if (field === 'leased') leased = Number(value)
    else records.set(field.slice('p:'.length), parseLeaseRecord(value))
  }
  return { leased, records }
}

/** The text that the script writes. */
const parseLeaseRecord = (text: string): LeaseRecord => {
  const [granted = 0, returned = 0, used = 0, seq = 0] = text.split(' ').map(Number)
  return { granted, returned, used, seq }
}

const sumTotals = (records: LedgerDay['records'], liveProcesses: ReadonlySet<string>): Pick<DayTotals, 'used' | 'held' | 'forfeited'> => {
  const totals = { used: 0, held: 0, forfeited: 0 }
  for (const [process, { granted, returned, used }] of records) {
    totals.used += used
    totals[liveProcesses.has(process) ? 'held' : 'forfeited'] += granted - returned - used
  }
  return totals
}

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
