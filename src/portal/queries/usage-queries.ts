import type { UsageStore } from '../../store/store.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { HourSummaries, addUsage, newUsageSum } from './hour-summaries.ts'
import type { Dimension, UsageSum } from './hour-summaries.ts'

/** Hours since 1970, UTC: from `from` up to, not including, `to`. */
interface HourRange {
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

export interface UsageOverTime {
  /** The most credits first. */
  readonly groups: readonly UsageSeries[]
  readonly total: UsageSeries
}

/** What the dashboard reads of usage. Each may take longer than a call may wait: openQueryProcess() runs them beside the calls. */
export interface UsageQueries {
  overTime(range: HourRange & { readonly by: Dimension; readonly stepHours: number }): Promise<UsageOverTime>
  /** Calls by outcome. */
  outcomes(range: HourRange): Promise<readonly (readonly [outcome: string, calls: number])[]>
  /** Credits of each hour. */
  creditsByHour(range: HourRange): Promise<readonly number[]>
  /** The last hour in which each key was used. */
  lastUses(range: HourRange): Promise<readonly (readonly [key: string, hour: number])[]>
}

export type QueryName = keyof UsageQueries

export const createUsageQueries = (store: Pick<UsageStore, 'usageCounts'>, now: () => number): UsageQueries => {
  const summaries = new HourSummaries(store, now)
  const read = ({ account, from, to }: HourRange) => summaries.read(account, from, to)

  return {
    async overTime({ by, stepHours, ...range }) {
      const first = Math.floor(range.from / stepHours)
      const points = Math.floor((range.to - 1) / stepHours) - first + 1
      const newSeries = (name: string) => ({ name, ...newUsageSum(), points: new Array<number>(points).fill(0) })
      const total = newSeries('total')
      const groups = new Map<string, typeof total>()
      for await (const { hour, groups: hourGroups } of read(range)) {
        const point = Math.floor(hour / stepHours) - first
        for (const [name, sum] of hourGroups[by]) {
          for (const series of [getOrCreate(groups, name, newSeries), total]) {
            addUsage(series, sum)
            series.points[point] = (series.points[point] ?? 0) + sum.calls
          }
        }
      }
      return {
        groups: [...groups.values()].sort((a, b) => b.credits - a.credits || b.calls - a.calls || (a.name < b.name ? -1 : 1)),
        total,
      }
    },
    async outcomes(range) {
      const calls = new Map<string, number>()
      for await (const { groups } of read(range)) {
        for (const [outcome, sum] of groups.outcome) calls.set(outcome, (calls.get(outcome) ?? 0) + sum.calls)
      }
      return [...calls]
    },
    async creditsByHour(range) {
      const credits: number[] = []
      for await (const { groups } of read(range)) credits.push([...groups.network.values()].reduce((sum, each) => sum + each.credits, 0))
      return credits
    },
    async lastUses(range) {
      const hours = new Map<string, number>()
      for await (const { hour, groups } of read(range)) for (const key of groups.key.keys()) hours.set(key, hour)
      return [...hours]
    },
  }
}
