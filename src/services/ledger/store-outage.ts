/** Why the store cannot be used, the worst first. */
export const storeOutages = ['removed', 'unreachable', 'emptied'] as const

export type StoreOutage = (typeof storeOutages)[number]

/** After `the store`. */
export const storeEmptied =
  'answers, but has lost its accounts and keys: restore its data, or add them anew; meanwhile keys that were looked up before are served, calls with others are refused (503)'

/**
 * How far an account may overdraw while the store is unavailable. The overdraft is charged when the store is available
 * again.
 */
export interface OutageGrace {
  /** Credits for each process, account and outage. */
  readonly maxCredits: number
  /** Since the outage began. */
  readonly maxDurationMs: number
}

export const noGrace: OutageGrace = { maxCredits: 0, maxDurationMs: 0 }

/** May an account have spent so many credits without a grant? `outageMs` is undefined while the store is available. */
export const isWithinGrace = (credits: number, { maxCredits, maxDurationMs }: OutageGrace, outageMs: number | undefined): boolean =>
  outageMs !== undefined && outageMs < maxDurationMs && credits <= maxCredits
