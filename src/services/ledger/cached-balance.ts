import { retryDelayMs } from './ledger-client.ts'

/** What the store said last of an account's day, or that it said nothing. Either is believed until it may be asked again. */
export class CachedBalance {
  #limit = 0
  #remaining = 0
  #validUntil = -Infinity
  #isStoreUnavailable = false
  #retryAt = -Infinity

  /** Credits of the day. */
  get limit(): number {
    return this.#limit
  }

  /** What the store had left, beside what this process holds. */
  get remaining(): number {
    return this.#remaining
  }

  /** The last ask was not answered. */
  get isStoreUnavailable(): boolean {
    return this.#isStoreUnavailable
  }

  /** It did not answer, and may not be asked again yet. */
  isBackingOff(now: number): boolean {
    return now < this.#retryAt
  }

  /** The store is still believed to have less than so many credits left. */
  isKnownInsufficient(credits: number, now: number): boolean {
    return now < this.#validUntil && credits > this.#remaining
  }

  /** The store answered, or did not. */
  recordAvailability(isAnswered: boolean, now: number): void {
    this.#isStoreUnavailable = !isAnswered
    if (!isAnswered) this.#retryAt = now + retryDelayMs
  }

  /** What it answered, of the day and the limit that hold now. */
  update(remaining: number, now: number): void {
    this.#remaining = remaining
    this.#validUntil = now + retryDelayMs
  }

  /** The plan has another limit. */
  changeLimit(limit: number): void {
    this.#remaining += limit - this.#limit
    this.#limit = limit
    this.#validUntil = -Infinity
  }

  /** Another day begins. */
  startDay(): void {
    this.#remaining = this.#limit
    this.#validUntil = -Infinity
  }
}
