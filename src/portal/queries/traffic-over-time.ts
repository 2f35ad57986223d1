import { setImmediate } from 'node:timers/promises'
import { UsageAdder } from '../../services/usage/usage-adder.ts'
import type { UsagePeriod, UsagePeriods } from '../../store/usage-store.ts'
import type { QueryClock } from './period-rows.ts'

/** Calls of all accounts in one period, on all gateways that use the store. */
export interface PeriodTraffic {
  /** Periods since 1970, UTC. */
  readonly start: number
  readonly calls: number
  /** By the fault of nodes or of the gateway. */
  readonly failedCalls: number
  readonly credits: number
  /** Of successful calls. */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
}

export interface TrafficRange {
  readonly period: UsagePeriod
  /** Periods since 1970, UTC: from `from` up to, not including, `to`. */
  readonly from: number
  readonly to: number
}

/** A page that is open asks every 15 s for what is over. Days are read for a trend. */
const freshMs = { fiveMinutes: 60_000, hour: 60_000, day: 900_000 } as const satisfies Readonly<Record<UsagePeriod, number>>
const accountsPerRead = 50

/** Reads what was called before the gateway was started: each account that has called in the range. */
export const openTrafficOverTime = (store: UsagePeriods, clock: Pick<QueryClock, 'monotonic'>) => {
  const known = new Map<string, { readonly freshUntil: number; readonly periods: Promise<readonly PeriodTraffic[]> }>()
  return (range: TrafficRange): Promise<readonly PeriodTraffic[]> => {
    const key = JSON.stringify(range)
    for (const [each, { freshUntil }] of known) if (clock.monotonic() >= freshUntil) known.delete(each)
    const found = known.get(key)
    if (found !== undefined) return found.periods
    const periods = readTraffic(store, range)
    known.set(key, { freshUntil: clock.monotonic() + freshMs[range.period], periods })
    periods.catch(() => known.delete(key))
    return periods
  }
}

/** One point a period, also where nobody has called. */
const readTraffic = async (store: UsagePeriods, { period, from, to }: TrafficRange): Promise<readonly PeriodTraffic[]> => {
  const points = Array.from({ length: to - from }, () => new UsageAdder())
  const accounts = new Set<string>()
  for (let start = from; start < to; start += 1) for (const account of await store.usageAccounts(period, start)) accounts.add(account)
  const ids = [...accounts]
  for (let first = 0; first < ids.length; first += accountsPerRead) {
    const part = ids.slice(first, first + accountsPerRead)
    const found = await Promise.all(part.map(account => store.usageRows(account, period, from, to)))
    for (const { start, rows } of found.flat()) {
      const point = points[start - from]
      for (const row of rows) point?.add(row.group, row)
    }
    await setImmediate()
  }
  return points.map(({ calls, byGateway, credits, latency }, i) => {
    const { p50Ms, p95Ms } = latency
    return { start: from + i, calls, failedCalls: byGateway, credits, p50Ms, p95Ms }
  })
}
