import type { LeaseCounters } from '../../store/lease-accounting.ts'

/** What this process holds of one account's day. What was granted is returned, used or in hand, always. */
export class Lease {
  readonly day: number
  /** Credits in hand. A charge changes nothing else. */
  available = 0
  #granted = 0
  #returned = 0
  /** Until the store's first answer nothing is known: this process may have forgotten an earlier lease of the day. */
  #isSynced = false
  #usedByEarlierLeases = 0
  #reportedUse = 0
  #recordedGrants = 0
  #lastRequestSeq = 0
  #lastResponseSeq = 0

  constructor(day: number) {
    this.day = day
  }

  get used(): number {
    return this.#granted - this.#returned - this.available
  }

  /** What was used of this very lease. */
  get usedSinceCreated(): number {
    return this.used - this.#usedByEarlierLeases
  }

  /** Does the store have yet to hear of what was used since? */
  get hasUnreportedUse(): boolean {
    return this.used !== this.#reportedUse
  }

  /** Credits that were lent, and that the store has not heard of. */
  get overdraft(): number {
    return Math.max(0, this.#granted - this.#recordedGrants)
  }

  /** Nothing is in hand, the store knows all, and no ask is open. */
  get isSettled(): boolean {
    return this.available === 0 && !this.hasUnreportedUse && this.#lastResponseSeq === this.#lastRequestSeq
  }

  /** Takes credits out of the hand; the next ask returns them. */
  release(credits: number): void {
    this.available -= credits
    this.#returned += credits
  }

  /** Puts credits in the hand that the store has not granted; it hears of them with the next ask, and counts them as leased. */
  overdraw(credits: number): void {
    this.#granted += credits
    this.available += credits
  }

  /** What ask number `seq` says about this process. */
  beginRequest(seq: number): LeaseCounters | undefined {
    this.#lastRequestSeq = seq
    return this.#isSynced ? { granted: this.#granted, returned: this.#returned, used: this.used } : undefined
  }

  /** Takes over what the store has on record after ask number `seq`. A late or doubled answer costs one more ask. */
  applyResponse(seq: number, { granted, returned, used }: LeaseCounters): void {
    if (!this.#isSynced) this.#restoreEarlierUse(returned, used)
    this.available += Math.max(0, granted - this.#granted)
    this.#granted = Math.max(this.#granted, granted)
    this.#lastResponseSeq = seq
    this.#reportedUse = used
    this.#recordedGrants = granted
  }

  #restoreEarlierUse(returned: number, used: number): void {
    this.#isSynced = true
    this.#returned += returned
    this.#usedByEarlierLeases = used
    // What was granted before and is not in this lease has been returned or used.
    this.#granted += returned + used
  }
}
