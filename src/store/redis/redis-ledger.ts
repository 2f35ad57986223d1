import type { LeaseRequest, LeaseRecord } from '../lease-accounting.ts'
import type { LeaseResponse, LedgerStore, StoreDay, DayTotals } from '../store.ts'
import type { RedisDayClock } from './redis-day-clock.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import { parsePairs } from './redis-reply.ts'
import * as scripts from './redis-scripts.ts'

export const redisLedgerStore = (redis: RedisConnection, { scriptArgs, observe }: RedisDayClock): LedgerStore => {
  const processKeys = [redisKeys.processes, redisKeys.latestDay]
  return {
    // An ask costs a round trip over the network.
    horizonMs: 10_000,
    async requestLease(request) {
      const reply = await redis.runScript(
        scripts.requestLease,
        [redisKeys.ledgerDay(request.account, request.day)],
        [...scriptArgs(), ...leaseArgs(request)],
      )
      const [today, endsInMs, granted, returned, used, remaining] = (reply as LeaseReply).map(Number) as LeaseReplyNumbers
      return observe<LeaseResponse>({ today, endsInMs, counters: { granted, returned, used }, remaining })
    },
    async heartbeat(process) {
      const [today, endsInMs, liveProcesses] = (await redis.runScript(scripts.heartbeat, processKeys, [...scriptArgs(), process])) as [
        number,
        number,
        number,
      ]
      return observe({ today, endsInMs, liveProcesses })
    },
    async deregister(process) {
      await redis.sendCommand('ZREM', redisKeys.processes, process)
    },
    async dayTotals(account, requestedDay) {
      const [today, endsInMs, ...liveNames] = (await redis.runScript(
        scripts.listLiveProcesses,
        processKeys,
        scriptArgs(),
      )) as LiveProcessesReply
      const now = observe({ today, endsInMs })
      const day = requestedDay ?? today
      const row = day > today - scripts.retentionDays ? await redis.sendCommand('HGETALL', redisKeys.ledgerDay(account, day)) : []
      return { ...now, day, ...sumTotals(row, new Set(liveNames)) }
    },
  }
}

type LeaseReply = readonly (number | string)[]
type LeaseReplyNumbers = [today: number, endsInMs: number, granted: number, returned: number, used: number, left: number]
type LiveProcessesReply = [today: number, endsInMs: number, ...processes: string[]]

const leaseArgs = ({
  process,
  seq,
  day,
  minCredits,
  desiredCredits,
  limit,
  shareDivisor,
  counters,
}: LeaseRequest): readonly (string | number)[] => [
  process,
  seq,
  day,
  minCredits,
  desiredCredits,
  limit,
  shareDivisor,
  ...(counters ? [counters.granted, counters.returned, counters.used] : ['', '', '']),
]

const sumTotals = (row: unknown, liveProcesses: ReadonlySet<string>): Omit<DayTotals, keyof StoreDay | 'day'> => {
  const totals = { leased: 0, used: 0, held: 0, forfeited: 0 }
  for (const [name, value] of parsePairs(row)) {
    if (name === 'leased') {
      totals.leased = Number(value)
      continue
    }
    const { granted, returned, used } = parseLeaseRecord(value)
    totals.used += used
    totals[liveProcesses.has(name.slice(2)) ? 'held' : 'forfeited'] += granted - returned - used
  }
  return totals
}

/** A process's entry as the script writes it. */
export const parseLeaseRecord = (text: string): LeaseRecord => {
  const [granted = 0, returned = 0, used = 0, seq = 0] = text.split(' ').map(Number)
  return { granted, returned, used, seq }
}
