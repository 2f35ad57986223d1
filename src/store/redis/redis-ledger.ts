import { hoursPerDay } from '../../util/dates.ts'
import { sumDay } from '../lease-accounting.ts'
import type { DayRecords, LeaseRecord, LeaseRequest } from '../lease-accounting.ts'
import { ledgerRetentionDays } from '../store.ts'
import type { BalanceStore, ClockRepair, DayTotals, KeyRow, LeaseResponse, LedgerStore } from '../store.ts'
import { parsePairs } from './redis-connection.ts'
import type { RedisConnection } from './redis-connection.ts'
import { listLiveProcesses, parseIntegers, processKeys, syncDayClock } from './redis-day-clock.ts'
import type { RedisDayClock } from './redis-day-clock.ts'
import { outOfSyncError } from './redis-errors.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-ledger-scripts.ts'
import { readReportedUse } from './redis-usage.ts'

export const redisLedgerStore = (redis: RedisConnection, dayClock: RedisDayClock): LedgerStore & BalanceStore & ClockRepair => ({
  // A request costs a round trip over the network.
  horizonMs: 10_000,
  async requestLease(request) {
    await syncDayClock(redis, dayClock)
    const reply = await redis.runScript(
      scripts.requestLease,
      [
        redisKeys.ledgerDay(request.account, request.day),
        redisKeys.ledgerDays(request.account),
        redisKeys.latestLedgerDay(request.account),
      ],
      [...dayClock.scriptArgs(), ...leaseArgs(request)],
    )
    const [today, endsInMs, granted, returned, used, remaining, seq] = parseIntegers(reply, 7) as LeaseReply
    // With the reply to another request, the credits of one account would be spent by another.
    if (seq !== request.seq) throw outOfSyncError()
    return dayClock.observe<LeaseResponse>({ today, endsInMs, counters: { granted, returned, used }, remaining })
  },
  async heartbeat(process) {
    const reply = await redis.runScript(scripts.heartbeat, processKeys, [...dayClock.scriptArgs(), process])
    const [today, endsInMs, liveProcesses, ignoredJumpMs] = parseIntegers(reply, 4) as HeartbeatReply
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
    await Promise.all([...accounts, ...limitedKeys].map(account => dropLedger(redis, account, to)))
    return { from, to }
  },
})

/** Drops what the ledger has of one account's days after `after`; of all days unless given. */
export const dropLedger = async (redis: RedisConnection, account: string, after = -1): Promise<void> => {
  await redis.runScript(
    scripts.dropDays,
    [redisKeys.ledgerDays(account), redisKeys.latestLedgerDay(account)],
    [after, redisKeys.ledgerDay(account, '')],
  )
  await redis.runScript(scripts.dropDays, [redisKeys.reportedDays(account)], [after, redisKeys.reportedUse(account, '')])
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

type LeaseReply = [today: number, endsInMs: number, granted: number, returned: number, used: number, remaining: number, seq: number]
type HeartbeatReply = [today: number, endsInMs: number, liveProcesses: number, ignoredJumpMs: number]
/** The arguments of the script, in its order. */
const leaseArgs = (request: LeaseRequest): readonly (string | number)[] => {
  const { process, seq, day, minCredits, desiredCredits, limit, shareDivisor, counters } = request
  const reported = counters ? [counters.granted, counters.returned, counters.used] : ['', '', '']
  return [process, seq, day, minCredits, desiredCredits, limit, shareDivisor, ...reported]
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

/** The text that the script writes. */
const parseLeaseRecord = (text: string): LeaseRecord => {
  const [granted = 0, returned = 0, used = 0, seq = 0] = text.split(' ').map(Number)
  return { granted, returned, used, seq }
}
