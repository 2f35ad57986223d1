import type { LedgerStore } from '../../store/store.ts'

/** One account's day as its leases and its counted calls have it, and where they disagree. */
export interface Audit {
  /** Null when gateway.yaml does not have the account's plan. */
  readonly limit: number | null
  readonly leased: number
  readonly used: number
  readonly held: number
  readonly forfeited: number
  /** Credits of the day by the counted calls. Each call is stored in its count, and apart from it in the use of a lease. */
  readonly counted: number
  /** By how much `used` and `counted` may differ: 0, except beside a gateway of an older Tollgate, or one that has not reported yet. */
  readonly tolerance: number
  /** One sentence for each disagreement. */
  readonly faults: readonly string[]
}

/** Verifies that leased credits and counted calls of an account agree for today. */
export const auditAccount = async (store: LedgerStore, account: string, limit: number | null): Promise<Audit> => {
  const { leased, used, held, forfeited, counted, isExact } = await store.dayTotals(account)
  const totals = { limit, leased, used, held, forfeited, counted, tolerance: isExact ? 0 : maxDifference(leased, used) }
  return { ...totals, faults: findDiscrepancies(totals) }
}

/**
 * For a process that reports use and counts apart. 0 for an idle account: all leased credits are used. Otherwise the process is a
 * second behind with either report, has calls in flight, or died before a report: the credits that are leased and not used, and
 * 1 % of the leased credits.
 */
const maxDifference = (leased: number, used: number): number => (leased === used ? 0 : Math.abs(leased - used) + Math.ceil(leased / 100))

const findDiscrepancies = ({ limit, leased, used, held, forfeited, counted, tolerance }: Omit<Audit, 'faults'>): readonly string[] => {
  const faults: string[] = []
  if (leased !== used + held + forfeited) {
    faults.push(`leased is ${leased}, but used + held + forfeited is ${used + held + forfeited}`)
  }
  if (Math.min(held, forfeited) < 0) {
    faults.push(`more calls were counted than credits leased: held is ${held}, forfeited is ${forfeited}`)
  }
  if (limit !== null && leased > limit) {
    faults.push(
      `leased exceeds the limit by ${leased - limit}: the limit was lowered, or credits were overdrawn while the store was unreachable`,
    )
  }
  if (Math.abs(used - counted) > tolerance) {
    faults.push(`used is ${used}, but the counted calls cost ${counted}; the tolerance is ${tolerance}`)
  }
  return faults
}
