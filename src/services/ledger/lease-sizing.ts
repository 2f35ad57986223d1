/** How large a lease is to be: grows with the rate at which the account spends. */
export class LeaseSizing {
  #creditsPerMs = 0
  #usedAtLastSample = 0
  #sampledAt = -Infinity
  #maxCost = 0

  /** A call of this cost had to wait for a lease. */
  recordWaitingCall(cost: number): void {
    this.#maxCost = Math.max(this.#maxCost, cost)
  }

  /** Takes the rate since the last sample, which counts as much as all samples before. `used` is that of the lease. */
  sampleUse(used: number, now: number): void {
    const elapsedMs = Math.max(now - this.#sampledAt, minSampleMs)
    this.#creditsPerMs = (this.#creditsPerMs + Math.max(0, used - this.#usedAtLastSample) / elapsedMs) / 2
    this.#usedAtLastSample = used
    this.#sampledAt = now
  }

  /** The account has been idle. */
  resetRate(): void {
    this.#creditsPerMs = 0
  }

  /** The credits that `horizonMs` use up, or that the waiting calls cost; at most 1 % of the day's limit, or one call. */
  targetSize(limit: number, horizonMs: number, waitingCost: number): number {
    const maxSize = Math.max(Math.floor(limit / 100), this.#maxCost)
    return Math.min(maxSize, Math.max(minCallsPerLease * this.#maxCost, waitingCost, Math.ceil(this.#creditsPerMs * horizonMs)))
  }
}

/** While the rate is unknown: most accounts that begin to call go on. */
const minCallsPerLease = 8

/** A burst right after a response says little about the rate: its credits are spread over at least this time. */
const minSampleMs = 100
