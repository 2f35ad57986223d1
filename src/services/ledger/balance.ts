import type { LedgerStore } from '../../store/store.ts'
import { dayMs, isoDate, isoTime } from '../../util/dates.ts'

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

export const readBalance = async (store: LedgerStore, account: string, limit: number | null): Promise<Balance> => {
  const { day, leased, used, held, forfeited } = await store.dayTotals(account)
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
