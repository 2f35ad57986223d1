/** How fast an account spends, and so how much of its day this process should hold. */
export class LeaseSizing {
  /** Credits per ms. */
  #creditsPerMs = 0
  #usedAtLastSample = 0
  #sampledAt = -Infinity
  #maxCost = 0

  /** A call of this cost had to wait. */
  recordWaitingCall(cost: number): void {
    this.#maxCost = Math.max(this.#maxCost, cost)
  }

  /** Takes note of what has been spent of the lease so far; what an older rate was counts half. */
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

  /** Credits to hold: what `horizon` ms use up or the calls that wait cost, but no more than 1 % of the day or one call. */
  targetSize(limit: number, horizonMs: number, waitingCost: number): number {
    const maxSize = Math.max(Math.floor(limit / 100), this.#maxCost)
    return Math.min(maxSize, Math.max(minCallsPerLease * this.#maxCost, waitingCost, Math.ceil(this.#creditsPerMs * horizonMs)))
  }
}

/** Calls to provide for before a rate is known: an account that begins goes on, more often than not. */
const minCallsPerLease = 8

/** A burst right after an answer says little about the rate: it is spread over so many ms. */
const minSampleMs = 100
