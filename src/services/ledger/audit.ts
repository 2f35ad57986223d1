import type { LedgerStore, UsageStore } from '../../store/store.ts'
import { hoursPerDay } from '../../util/dates.ts'

/** One account's day in the books, and what in them does not add up. */
export interface Audit {
  /** Null when the account's plan does not stand in gateway.yaml. */
  readonly limit: number | null
  readonly leased: number
  readonly used: number
  readonly held: number
  readonly forfeited: number
  /** Credits of the day by the counts of calls, which are kept apart from leases. */
  readonly counted: number
  /** By how much `used` and `counted` may differ now. */
  readonly tolerance: number
  /** In words; none when the books are right. */
  readonly faults: readonly string[]
}

/** Holds today's books of one account against each other. */
export const auditAccount = async (store: LedgerStore & UsageStore, account: string, limit: number | null): Promise<Audit> => {
  const { day, leased, used, held, forfeited } = await store.dayTotals(account)
  const counts = await store.usageCounts(account, day * hoursPerDay, (day + 1) * hoursPerDay)
  const counted = counts.reduce((sum, { credits }) => sum + credits, 0)
  const totals = { limit, leased, used, held, forfeited, counted, tolerance: maxDifference(leased, used) }
  return { ...totals, faults: findDiscrepancies(totals) }
}

/**
 * None for an account at rest: all that is leased is used. Otherwise some process is a second behind with either report,
 * has calls in flight, or died before a report: what is leased and not used, and one part in a hundred.
 */
const maxDifference = (leased: number, used: number): number => (leased === used ? 0 : Math.abs(leased - used) + Math.ceil(leased / 100))

const findDiscrepancies = ({ limit, leased, used, held, forfeited, counted, tolerance }: Omit<Audit, 'faults'>): readonly string[] => {
  const faults: string[] = []
  if (leased !== used + held + forfeited) {
    faults.push(`leased is ${leased}, but used, held and forfeited are ${used + held + forfeited} together`)
  }
  if (limit !== null && leased > limit) {
    faults.push(`${leased - limit} more are leased than the limit: it was lowered, or credits were lent while the store was away`)
  }
  if (Math.abs(used - counted) > tolerance) {
    faults.push(`used is ${used}, but the calls that were counted cost ${counted}; they may differ by ${tolerance} now`)
  }
  return faults
}
