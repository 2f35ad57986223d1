import { setImmediate } from 'node:timers/promises'
import type { Store } from '../../store/store.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { createPageQueries } from './page-queries.ts'
import type { PageQueries } from './page-queries.ts'
import { readLedgerDay, readUsagePage } from './usage-days.ts'
import type { LedgerDayState, UsagePage, UsagePageOptions } from './usage-days.ts'
import { HourSummaries, addUsage, newUsageSum } from './hour-summaries.ts'
import type { Dimension, QueryClock, UsageSum } from './hour-summaries.ts'

/** Hours since 1970, UTC: from `from` up to, not including, `to`. */
interface AccountHours {
  readonly account: string
  readonly from: number
  readonly to: number
}

/** The calls of one group over time. */
export interface UsageSeries extends Readonly<UsageSum> {
  readonly name: string
  /** Calls by point of time. */
  readonly points: readonly number[]
}

export interface UsageTotal extends Readonly<UsageSum> {
  readonly name: string
}

export interface UsageOverTime {
  /** The most credits first. */
  readonly groups: readonly UsageSeries[]
  readonly total: UsageSeries
}

interface OverTimeQuery extends AccountHours {
  readonly by: Dimension
  /** Hours between two points. */
  readonly stepHours: number
}

interface TotalsQuery extends Omit<AccountHours, 'account'> {
  readonly by: Dimension | 'account'
}

/** What queries read. */
type QueriedStore = Pick<Store, 'usageCounts' | 'allUsageCounts' | 'accounts' | 'dayTotals' | 'records'>

/** What the dashboard reads of usage. Each may take longer than a call may wait: openQueryProcess() runs them beside the calls. */
export interface UsageQueries extends PageQueries {
  overTime(query: OverTimeQuery): Promise<UsageOverTime>
  /** Calls by outcome. */
  outcomes(range: AccountHours): Promise<readonly (readonly [outcome: string, calls: number])[]>
  /** The last hour in which each key was used. */
  lastUses(range: AccountHours): Promise<readonly (readonly [key: string, hour: number])[]>
  /** All accounts together, by account or by a dimension; the most credits first. */
  totals(query: TotalsQuery): Promise<readonly UsageTotal[]>
  /** The rows of a day that is over, for a billing system. */
  usagePage(options: UsagePageOptions): Promise<UsagePage>
  ledgerDay(options: { readonly day: number }): Promise<LedgerDayState>
}

/** How often queries that run at the same time get their turn while all accounts are read. */
const countsPerTurn = 2_000

export type QueryName = keyof UsageQueries

export const createUsageQueries = (store: QueriedStore, clock: QueryClock): UsageQueries => {
  const summaries = new HourSummaries(store, clock)
  const read = ({ account, from, to }: AccountHours) => summaries.read(account, from, to)

  return {
    ...createPageQueries(store),
    overTime: query => readOverTime(summaries, query),
    async outcomes(range) {
      const calls = new Map<string, number>()
      for await (const { groups } of read(range)) {
        for (const [outcome, sum] of groups.outcome) calls.set(outcome, (calls.get(outcome) ?? 0) + sum.calls)
      }
      return [...calls]
    },
    async lastUses(range) {
      const hours = new Map<string, number>()
      for await (const { hour, groups } of read(range)) for (const key of groups.key.keys()) hours.set(key, hour)
      return [...hours]
    },
    totals: query => readTotals(store, query),
    usagePage: options => readUsagePage(store, options),
    ledgerDay: options => readLedgerDay(store, options),
  }
}

const readOverTime = async (summaries: HourSummaries, { account, from, to, by, stepHours }: OverTimeQuery): Promise<UsageOverTime> => {
  const first = Math.floor(from / stepHours)
  const points = Math.floor((to - 1) / stepHours) - first + 1
  const newSeries = (name: string) => ({ name, ...newUsageSum(), points: new Array<number>(points).fill(0) })
  const total = newSeries('total')
  const groups = new Map<string, typeof total>()
  for await (const { hour, groups: hourGroups } of summaries.read(account, from, to)) {
    const point = Math.floor(hour / stepHours) - first
    for (const [name, sum] of hourGroups[by]) {
      for (const series of [getOrCreate(groups, name, newSeries), total]) {
        addUsage(series, sum)
        series.points[point] = (series.points[point] ?? 0) + sum.calls
      }
    }
  }
  return { groups: [...groups.values()].sort(compareTotals), total }
}

const readTotals = async (store: Pick<Store, 'allUsageCounts'>, { from, to, by }: TotalsQuery): Promise<readonly UsageTotal[]> => {
  const totals = new Map<string, UsageTotal & UsageSum>()
  let count = 0
  for await (const row of store.allUsageCounts({ from, to })) {
    addUsage(
      getOrCreate(totals, row[by], name => ({ name, ...newUsageSum() })),
      { ...row, forwarded: row.forwarded ? row.calls : 0 },
    )
    if ((count += 1) % countsPerTurn === 0) await setImmediate()
  }
  return [...totals.values()].sort(compareTotals)
}

const compareTotals = (a: UsageTotal, b: UsageTotal): number => b.credits - a.credits || b.calls - a.calls || (a.name < b.name ? -1 : 1)
