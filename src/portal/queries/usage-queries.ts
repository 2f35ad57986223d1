import { compareUsage, UsageAdder } from '../../services/usage-adder.ts'
import type { UsageStatistics } from '../../services/usage-adder.ts'
import type { Store } from '../../store/store.ts'
import { successOutcome } from '../../store/usage-store.ts'
import type { UsageRow } from '../../store/usage-store.ts'
import { hoursPerDay } from '../../util/dates.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { createPageQueries } from './page-queries.ts'
import type { PageQueries } from './page-queries.ts'
import { readLedgerDay, readUsagePage } from './usage-days.ts'
import type { LedgerDayState, UsagePage, UsagePageOptions } from './usage-days.ts'
import { PeriodRows } from './period-rows.ts'
import type { PeriodRange, QueryClock } from './period-rows.ts'
import { readFailureMessages } from './request-queries.ts'
import type { FailureMessage, LoggedRange } from './request-queries.ts'
import { isIncluded } from './usage-dimensions.ts'
import type { Dimension, UsageFilter } from './usage-dimensions.ts'

/** The calls of one group. */
export interface UsageSeries extends UsageStatistics {
  readonly name: string
  /** By point of time; empty for a group that is not among the first. */
  readonly points: UsagePoints
}

interface UsagePoints {
  readonly calls: readonly number[]
  readonly failed: readonly number[]
  readonly credits: readonly number[]
}

export interface UsageOverTime {
  /** The most credits first. */
  readonly groups: readonly UsageSeries[]
  readonly total: UsageSeries
  /** Of all calls, by point of time. */
  readonly latency: { readonly p50Ms: readonly (number | null)[]; readonly p95Ms: readonly (number | null)[] }
}

interface FilteredRange extends PeriodRange {
  readonly filter: UsageFilter
}

interface OverTimeQuery extends FilteredRange {
  readonly by: Dimension
  /** So many groups have points. */
  readonly maxSeries: number
}

/** What queries read. */
type QueriedStore = Pick<
  Store,
  | 'usageCounts'
  | 'usageRows'
  | 'usageAccounts'
  | 'requests'
  | 'keysWithHint'
  | 'findRequests'
  | 'allUsageCounts'
  | 'accounts'
  | 'accountUse'
  | 'dayTotals'
  | 'dayBalance'
  | 'records'
>

/** What the dashboard reads of usage. Each may take longer than a call may wait: openQueryProcess() runs them beside the calls. */
export interface UsageQueries extends PageQueries {
  overTime(query: OverTimeQuery): Promise<UsageOverTime>
  /** Calls by outcome. */
  outcomes(range: FilteredRange): Promise<readonly (readonly [outcome: string, calls: number])[]>
  /** The last hour in which each key was used, in the days from `fromDay` to `toDay`. */
  lastUses(days: LastUsesQuery): Promise<readonly (readonly [key: string, hour: number])[]>
  /** Of each outcome, the messages that most of its logged requests have. */
  failureMessages(options: LoggedRange): Promise<readonly FailureMessage[]>
  /** The rows of a day that is over, for a billing system. */
  usagePage(options: UsagePageOptions): Promise<UsagePage>
  ledgerDay(options: { readonly day: number }): Promise<LedgerDayState>
}

interface LastUsesQuery {
  readonly account: string
  /** Days since 1970, UTC; both are included. */
  readonly fromDay: number
  readonly toDay: number
}

export type QueryName = keyof UsageQueries

export const createUsageQueries = (store: QueriedStore, clock: QueryClock): UsageQueries => {
  const periods = new PeriodRows(store, clock)
  return {
    ...createPageQueries(store, clock),
    overTime: query => readOverTime(periods, query),
    async outcomes({ filter, ...range }) {
      const calls = new Map<string, number>()
      for await (const { rows } of periods.read(range)) {
        for (const row of rows) {
          const { outcome } = row.group
          if (isIncluded(row, filter)) calls.set(outcome, (calls.get(outcome) ?? 0) + row.calls)
        }
      }
      return [...calls]
    },
    lastUses: query => readLastUses(periods, query),
    failureMessages: options => readFailureMessages(store, options),
    usagePage: options => readUsagePage(store, options),
    ledgerDay: options => readLedgerDay(store, options),
  }
}

const readOverTime = async (periods: PeriodRows, { by, filter, maxSeries, ...range }: OverTimeQuery): Promise<UsageOverTime> => {
  const { from, to } = range
  const total = new SeriesAdder('total', to - from)
  const latencies = Array.from({ length: to - from }, () => new UsageAdder())
  const groups = new Map<string, SeriesAdder>()
  for await (const { start, rows } of periods.read(range)) {
    for (const row of rows) {
      if (!isIncluded(row, filter)) continue
      const group = getOrCreate(groups, row.group[by], name => new SeriesAdder(name, to - from))
      group.add(start - from, row)
      total.add(start - from, row)
      latencies[start - from]?.add(row.group, row)
    }
  }
  const sorted = [...groups.values()].sort((a, b) => compareUsage(a.total, b.total))
  const quantiles = latencies.map(({ latency }) => latency)
  return {
    groups: sorted.map((group, i) => group.toSeries(i < maxSeries)),
    total: total.toSeries(true),
    latency: { p50Ms: quantiles.map(({ p50Ms }) => p50Ms), p95Ms: quantiles.map(({ p95Ms }) => p95Ms) },
  }
}

class SeriesAdder {
  readonly name: string
  readonly #adder = new UsageAdder()
  readonly #points: { readonly [Measure in keyof UsagePoints]: number[] }

  constructor(name: string, length: number) {
    const newPoints = () => new Array<number>(length).fill(0)
    this.name = name
    this.#points = { calls: newPoints(), failed: newPoints(), credits: newPoints() }
  }

  add(point: number, row: UsageRow): void {
    const { calls, failed, credits } = this.#points
    this.#adder.add(row.group, row)
    calls[point]! += row.calls
    credits[point]! += row.credits
    if (row.group.outcome !== successOutcome) failed[point]! += row.calls
  }

  get total() {
    return { name: this.name, ...this.#adder.sum }
  }

  toSeries(hasPoints: boolean): UsageSeries {
    return { name: this.name, ...this.#adder.statistics, points: hasPoints ? this.#points : noPoints }
  }
}

const noPoints: UsagePoints = { calls: [], failed: [], credits: [] }

/** By days, and then by the hours of the last day of each key alone; the first hour of a day whose hours are not kept. */
const readLastUses = async (periods: PeriodRows, { account, fromDay, toDay }: LastUsesQuery) => {
  const lastDays = new Map<string, number>()
  for await (const { start, rows } of periods.read({ account, period: 'day', from: fromDay, to: toDay + 1 }))
    for (const { group } of rows) lastDays.set(group.key, start)
  const hours = new Map(Array.from(lastDays, ([key, day]) => [key, day * hoursPerDay]))
  for (const day of new Set(lastDays.values())) {
    const range = { account, period: 'hour', from: day * hoursPerDay, to: (day + 1) * hoursPerDay } as const
    for await (const { start, rows } of periods.read(range))
      for (const { group } of rows) if (lastDays.get(group.key) === day) hours.set(group.key, start)
  }
  return [...hours]
}
