import { compareUsage, UsageAdder } from '../../services/usage/usage-adder.ts'
import type { UsageStatistics } from '../../services/usage/usage-adder.ts'
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
import type { FailureMessages } from './request-queries.ts'
import { isIncluded } from './usage-dimensions.ts'
import type { Dimension, UsageFilter } from './usage-dimensions.ts'

/** The calls of one group. */
export interface UsageSeries extends UsageStatistics {
  readonly name: string
  /** By point of time; empty for a group that is not among the first. */
  readonly points: UsagePoints
  /** By the second dimension, the most credits first; empty unless there is one. */
  readonly parts: readonly UsagePart[]
}

interface UsagePart extends UsageStatistics {
  readonly name: string
}

interface UsagePoints {
  readonly calls: readonly number[]
  readonly failed: readonly number[]
  readonly credits: readonly number[]
  /** Of a group, empty unless asked for; null where no call has succeeded. */
  readonly p50Ms: readonly (number | null)[]
  readonly p95Ms: readonly (number | null)[]
  readonly p99Ms: readonly (number | null)[]
}

export interface UsageOverTime {
  /** The most credits first. */
  readonly groups: readonly UsageSeries[]
  readonly total: UsageSeries
  /** Of all calls of the range, whatever is asked for, by their names. */
  readonly methods: readonly string[]
  readonly networks: readonly string[]
  readonly keys: readonly string[]
}

interface FilteredRange extends PeriodRange {
  readonly filter: UsageFilter
}

interface CallsByOutcome {
  /** The most frequent first. */
  readonly outcomes: readonly OutcomeCalls[]
  /** With any outcome, whichever is asked for. */
  readonly calls: number
  /** What failed calls have, the most frequent first, whatever is asked for. */
  readonly failed: { readonly [D in Exclude<Dimension, 'outcome'>]: readonly string[] }
}

export interface OutcomeCalls {
  readonly outcome: string
  readonly calls: number
  /** The most frequent first. */
  readonly methods: readonly { readonly method: string; readonly calls: number }[]
}

interface OverTimeQuery extends FilteredRange {
  readonly by: Dimension
  /** What each group is divided by. */
  readonly and?: Dimension | undefined
  /** Whether the points of groups have latencies. */
  readonly latencies?: boolean
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
  | 'latestRequests'
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
  outcomes(range: FilteredRange): Promise<CallsByOutcome>
  /** The last hour in which each key was used, in the days from `fromDay` to `toDay`. */
  lastUses(days: LastUsesQuery): Promise<readonly (readonly [key: string, hour: number])[]>
  /** Of each outcome, the messages that most of its logged requests have. */
  failureMessages(options: Parameters<typeof readFailureMessages>[1]): Promise<FailureMessages>
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
    outcomes: range => readOutcomes(periods, range),
    lastUses: query => readLastUses(periods, query),
    failureMessages: options => readFailureMessages(store, options),
    usagePage: options => readUsagePage(store, options),
    ledgerDay: options => readLedgerDay(store, options),
  }
}

const readOverTime = async (periods: PeriodRows, { maxSeries, ...query }: OverTimeQuery): Promise<UsageOverTime> => {
  const { by, and, latencies = false, filter, ...range } = query
  const { from, to } = range
  const total = new SeriesAdder('total', { length: to - from, latencies: true })
  const groups = new Map<string, SeriesAdder>()
  const [methods, networks, keys] = [new Set<string>(), new Set<string>(), new Set<string>()]
  for await (const { start, rows } of periods.read(range)) {
    for (const row of rows) {
      methods.add(row.group.method)
      networks.add(row.group.network)
      keys.add(row.group.key)
      if (!isIncluded(row, filter)) continue
      const group = getOrCreate(groups, row.group[by], name => new SeriesAdder(name, { length: to - from, latencies, and }))
      group.add(start - from, row)
      total.add(start - from, row)
    }
  }
  const sorted = [...groups.values()].sort((a, b) => compareUsage(a.total, b.total))
  return {
    groups: sorted.map((group, i) => group.toSeries(i < maxSeries)),
    total: total.toSeries(true),
    methods: [...methods].sort(),
    networks: [...networks].sort(),
    keys: [...keys].sort(),
  }
}

const readOutcomes = async (periods: PeriodRows, { filter, ...range }: FilteredRange): Promise<CallsByOutcome> => {
  const outcomes = new Map<string, CallCounter>()
  const failed = { method: new CallCounter(), network: new CallCounter(), key: new CallCounter() }
  let calls = 0
  for await (const { rows } of periods.read(range)) {
    for (const row of rows) {
      const { outcome, method, network, key } = row.group
      if (outcome !== successOutcome) {
        failed.method.add(method, row)
        failed.network.add(network, row)
        failed.key.add(key, row)
      }
      if (!isIncluded(row, { ...filter, outcome: undefined })) continue
      calls += row.calls
      if (isIncluded(row, filter)) getOrCreate(outcomes, outcome, () => new CallCounter()).add(method, row)
    }
  }
  return {
    outcomes: Array.from(outcomes, ([outcome, methods]) => ({
      outcome,
      calls: methods.sorted.reduce((sum, [, count]) => sum + count, 0),
      methods: methods.sorted.map(([method, count]) => ({ method, calls: count })),
    })).sort((a, b) => b.calls - a.calls),
    calls,
    failed: { method: failed.method.names, network: failed.network.names, key: failed.key.names },
  }
}

class CallCounter {
  readonly #calls = new Map<string, number>()

  add(name: string, { calls }: UsageRow): void {
    this.#calls.set(name, (this.#calls.get(name) ?? 0) + calls)
  }

  /** The most frequent first. */
  get sorted(): readonly (readonly [name: string, calls: number])[] {
    return [...this.#calls].sort(([, a], [, b]) => b - a)
  }

  /** As many as a list is chosen from; calls that were taken back leave a count of none. */
  get names(): readonly string[] {
    return this.sorted.flatMap(([name, calls]) => (calls > 0 ? [name] : [])).slice(0, maxNames)
  }
}

const maxNames = 200

interface SeriesOptions {
  /** Points of time. */
  readonly length: number
  readonly latencies: boolean
  readonly and?: Dimension | undefined
}

class SeriesAdder {
  readonly name: string
  readonly #and: Dimension | undefined
  readonly #adder = new UsageAdder()
  readonly #points: { readonly [Measure in 'calls' | 'failed' | 'credits']: number[] }
  readonly #latencies: readonly UsageAdder[]
  readonly #parts = new Map<string, UsageAdder>()

  constructor(name: string, { length, latencies, and }: SeriesOptions) {
    const newPoints = () => new Array<number>(length).fill(0)
    this.name = name
    this.#and = and
    this.#points = { calls: newPoints(), failed: newPoints(), credits: newPoints() }
    this.#latencies = latencies ? Array.from({ length }, () => new UsageAdder()) : []
  }

  add(point: number, row: UsageRow): void {
    const { calls, failed, credits } = this.#points
    this.#adder.add(row.group, row)
    this.#latencies[point]?.add(row.group, row)
    if (this.#and !== undefined) getOrCreate(this.#parts, row.group[this.#and], () => new UsageAdder()).add(row.group, row)
    calls[point]! += row.calls
    credits[point]! += row.credits
    if (row.group.outcome !== successOutcome) failed[point]! += row.calls
  }

  get total() {
    return { name: this.name, ...this.#adder.sum }
  }

  toSeries(hasPoints: boolean): UsageSeries {
    const parts = Array.from(this.#parts, ([name, adder]) => ({ name, ...adder.statistics })).sort(compareUsage)
    return { name: this.name, ...this.#adder.statistics, points: hasPoints ? this.#withLatencies() : noPoints, parts }
  }

  #withLatencies(): UsagePoints {
    const latencies = this.#latencies.map(({ latency }) => latency)
    return {
      ...this.#points,
      ...{
        p50Ms: latencies.map(({ p50Ms }) => p50Ms),
        p95Ms: latencies.map(({ p95Ms }) => p95Ms),
        p99Ms: latencies.map(({ p99Ms }) => p99Ms),
      },
    }
  }
}

const noPoints: UsagePoints = { calls: [], failed: [], credits: [], p50Ms: [], p95Ms: [], p99Ms: [] }

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
