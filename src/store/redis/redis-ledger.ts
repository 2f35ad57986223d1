import type { LeaseRecord, LeaseRequest } from '../lease-accounting.ts'
import { ledgerRetentionDays } from '../store.ts'
import type { DayTotals, LeaseResponse, LedgerStore, StoreDay } from '../store.ts'
import { parsePairs } from './redis-connection.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-scripts.ts'
import type { RedisDayClock } from './redis-scripts.ts'

export const redisLedgerStore = (redis: RedisConnection, dayClock: RedisDayClock): LedgerStore => ({
  // A request costs a round trip over the network.
  horizonMs: 10_000,
  async requestLease(request) {
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
    const [today, endsInMs, liveProcesses] = reply as HeartbeatReply
    return dayClock.observe({ today, endsInMs, liveProcesses })
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
})

const processKeys = [redisKeys.processes, redisKeys.latestDay]

type LeaseReply = readonly (number | string)[]
type LeaseReplyNumbers = [today: number, endsInMs: number, granted: number, returned: number, used: number, remaining: number]
type HeartbeatReply = [today: number, endsInMs: number, liveProcesses: number]
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
