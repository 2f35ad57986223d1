import { setImmediate } from 'node:timers/promises'
import type { BalanceStore } from '../store/store.ts'
import type { UsageCount } from '../store/usage-store.ts'
import { dayMs, hourMs, isoDate, isoTime } from '../util/dates.ts'
import { getOrCreate } from '../util/memoize.ts'
import { compareUsage, UsageAdder } from './usage/usage-adder.ts'
import type { UsageStatistics } from './usage/usage-adder.ts'

/** One account's day. Limit = used + held + forfeited + left, unless the limit was lowered that day. */
export interface Balance {
  /** YYYY-MM-DD, UTC. */
  readonly day: string
  /** Null when gateway.yaml does not have the account's plan. */
  readonly limit: number | null
  readonly used: number
  readonly held: number
  readonly forfeited: number
  /** Null without a limit. */
  readonly left: number | null
  /** ISO 8601: the next midnight UTC. */
  readonly resetAt: string
}

/** Printed in place of the limit of an account whose plan is no longer in gateway.yaml. */
export const removedPlanLabel = 'plan no longer exists'

export const readBalance = async (store: Pick<BalanceStore, 'dayBalance'>, account: string, limit: number | null): Promise<Balance> => {
  const { day, leased, used, held, forfeited } = await store.dayBalance(account)
  return {
    day: isoDate(day * dayMs),
    limit,
    used,
    held,
    forfeited,
    left: limit === null ? null : Math.max(0, limit - leased),
    resetAt: isoTime((day + 1) * dayMs),
  }
}

/** What counts can be grouped by. */
export const groupings = ['method', 'network', 'key', 'outcome', 'hour', 'day'] as const

export type Grouping = (typeof groupings)[number]

/** The calls of one group. The members are those of `usage --json`. */
export interface UsageTotals extends UsageStatistics {
  /** The value that the calls have in common; for an hour or a day its beginning, UTC. */
  readonly name: string
}

type UsageCounts = Iterable<UsageCount> | AsyncIterable<UsageCount>

/** Counts that are added up. */
interface CountGroup {
  readonly first: UsageCount
  readonly sums: UsageAdder
  /** Since 1970, UTC. */
  readonly hours: { first: number; last: number }
}

/** How often others get their turn while counts are added up: those of all accounts may be millions. */
const countsPerTurn = 2_000

/** Adds up the counts of each group. Those that `keyOf` returns undefined for are left out. */
export const addUpUsage = async (
  counts: UsageCounts,
  keyOf: (count: UsageCount) => string | undefined,
): Promise<ReadonlyMap<string, CountGroup>> => {
  const groups = new Map<string, CountGroup>()
  let countsOfTurn = 0
  for await (const count of counts) {
    const key = keyOf(count)
    if (key !== undefined) {
      const { sums, hours } = getOrCreate(groups, key, () => ({
        first: count,
        sums: new UsageAdder(),
        hours: { first: count.hour, last: count.hour },
      }))
      sums.add(count, count)
      hours.first = Math.min(hours.first, count.hour)
      hours.last = Math.max(hours.last, count.hour)
    }
    countsOfTurn = (countsOfTurn + 1) % countsPerTurn
    if (countsOfTurn === 0) await setImmediate()
  }
  return groups
}

/** The calls of groups, and of all of them. */
export interface GroupedUsage {
  readonly groups: readonly UsageTotals[]
  readonly total: UsageStatistics
}

/** Hours and days in order, other groups by credits, the most first. */
export const groupUsage = async (counts: UsageCounts, by: Grouping | 'account'): Promise<GroupedUsage> => {
  const groups = await addUpUsage(counts, count => groupName(count, by))
  const isTime = by === 'hour' || by === 'day'
  const compare = (a: UsageTotals, b: UsageTotals) => (isTime ? (a.name < b.name ? -1 : 1) : compareUsage(a, b))
  const totals = Array.from(groups, ([name, { sums }]) => ({ name, ...sums.statistics }))
  // A call may have been taken back from another hour than it was counted in, where hours were merged.
  const all = new UsageAdder()
  for (const { sums } of groups.values()) all.merge(sums)
  return { groups: totals.filter(({ calls, credits }) => calls !== 0 || credits !== 0).sort(compare), total: all.statistics }
}

const groupName = (count: UsageCount, by: Grouping | 'account'): string => {
  switch (by) {
    case 'hour':
      return `${isoTime(count.hour * hourMs).slice(0, 16)}Z`
    case 'day':
      return isoDate(count.hour * hourMs)
    default:
      return count[by]
  }
}
