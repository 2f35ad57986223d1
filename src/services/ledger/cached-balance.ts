/** The store's last response about an account's day, or that there was none. Either is valid until the store may be asked again. */
export class CachedBalance {
  /** Credits of the day. */
  limit = 0
  /** Credits that no process has leased. */
  remaining = 0
  /** The last request failed. */
  isStoreUnavailable = false
  /** When the store has responded. */
  updatedAt = -Infinity
  /** At most so many credits the other processes of the gateway would return, where they have not been asked. */
  #recallable = 0
  #retryAt = -Infinity

  /** The last request failed so recently that the store must not be asked again yet. */
  isBackingOff(now: number): boolean {
    return now < this.#retryAt
  }

  /** The store has fewer credits than these, as far as is known, and would not get them back. */
  isKnownInsufficient(credits: number, now: number): boolean {
    return now < this.updatedAt + retryDelayMs && credits > this.remaining + this.#recallable
  }

  recordAvailability(isAvailable: boolean, now: number): void {
    this.isStoreUnavailable = !isAvailable
    if (!isAvailable) this.#retryAt = now + retryDelayMs
  }

  /** A response about the current day and limit. */
  update(remaining: number, now: number, recallable: number): void {
    this.remaining = remaining
    this.#recallable = recallable
    this.updatedAt = now
  }

  /** The plan has another limit. */
  changeLimit(limit: number): void {
    this.remaining += limit - this.limit
    this.limit = limit
    this.updatedAt = -Infinity
  }

  startDay(): void {
    this.remaining = this.limit
    this.updatedAt = -Infinity
  }
}

/** After a failure, or after the store had too few credits. */
export const retryDelayMs = 250
