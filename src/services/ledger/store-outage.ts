/** Why the store cannot be used. */
export type StoreOutage = 'unreachable' | 'removed'

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

/** The credits that one account has spent while the store was unavailable, without a grant of the store. */
export class Overdraft {
  /** Those that the store did not have on record when it last responded. */
  #credits = 0

  /** False where the grace does not allow it. `outageMs` is undefined while the store is available. */
  reserve(credits: number, { maxCredits, maxDurationMs }: OutageGrace, outageMs: number | undefined): boolean {
    if (outageMs === undefined || outageMs >= maxDurationMs || this.#credits + credits > maxCredits) return false
    this.#credits += credits
    return true
  }

  /** The store has responded: it does not have so many credits on record. */
  recordResponse(unrecordedCredits: number): void {
    this.#credits = unrecordedCredits
  }
}
