import type { LeaseCounters } from '../../store/lease-accounting.ts'

/** The credits of one account's day that this process has leased. Granted = returned + used + available, always. */
export class Lease {
  readonly day: number
  /** Credits that can be spent without the store. A charge changes nothing else. */
  available = 0
  /** With fewer available credits the lease is renewed. */
  renewBelow = 0
  #granted = 0
  #returned = 0
  /** Until the store's first response nothing is known: the process may have had an earlier lease of the day, before a restart. */
  #isSynced = false
  #usedByEarlierLeases = 0
  #reportedUse = 0
  #recordedReturns = 0
  #recordedGrants = 0
  #lastRequestSeq = 0
  #lastResponseSeq = 0

  constructor(day: number) {
    this.day = day
  }

  get used(): number {
    return this.#granted - this.#returned - this.available
  }

  /** Without what earlier leases of the day used. */
  get usedSinceCreated(): number {
    return this.used - this.#usedByEarlierLeases
  }

  /** True while the store has a smaller or greater `used` on record. */
  get hasUnreportedUse(): boolean {
    return this.used !== this.#reportedUse
  }

  /** Credits that were overdrawn and are not on record in the store yet. */
  get overdraft(): number {
    return Math.max(0, this.#granted - this.#recordedGrants)
  }

  /** Everything is on record in the store, and no request is in flight. */
  get isReported(): boolean {
    return !this.hasUnreportedUse && this.#returned <= this.#recordedReturns && this.#lastResponseSeq === this.#lastRequestSeq
  }

  /** The same, and no credits are available. */
  get isSettled(): boolean {
    return this.available === 0 && this.isReported
  }

  /** Takes available credits away; the next request returns them to the store. */
  release(credits: number): void {
    this.available -= credits
    this.#returned += credits
  }

  /** Adds credits that the store has not granted. The next request reports them, and the store counts them as leased. */
  overdraw(credits: number): void {
    this.#granted += credits
    this.available += credits
  }

  /** The counters that request number `seq` reports. */
  beginRequest(seq: number): LeaseCounters | undefined {
    this.#lastRequestSeq = seq
    return this.#isSynced ? { granted: this.#granted, returned: this.#returned, used: this.used } : undefined
  }

  /** Takes over what the store recorded at request number `seq`. A late or duplicate response costs one more request. */
  applyResponse(seq: number, { granted, returned, used }: LeaseCounters): void {
    if (!this.#isSynced) this.#restoreEarlierUse(returned, used)
    this.available += Math.max(0, granted - this.#granted)
    this.#granted = Math.max(this.#granted, granted)
    this.#lastResponseSeq = seq
    this.#reportedUse = used
    this.#recordedReturns = returned
    this.#recordedGrants = granted
  }

  #restoreEarlierUse(returned: number, used: number): void {
    this.#isSynced = true
    this.#returned += returned
    this.#usedByEarlierLeases = used
    // Earlier grants that are not in this lease have been returned or used.
    this.#granted += returned + used
  }
}
