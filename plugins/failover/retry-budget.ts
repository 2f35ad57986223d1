import type { Clock } from '../../src/plugin/plugin.ts'

/** Retries are at most this ratio of the calls in the window, or the minimum if that is more (Envoy's retry budget). */
const maxRetryRatio = 0.2
const minRetries = 3
const windowMs = 10_000
const bucketCount = 10

/**
 * Bounds retries, so that an outage cannot double the load. A retry that succeeds returns its place, and retries without a
 * place wait for one: so all calls move to a healthy node, and few to a node that fails too.
 */
export class RetryBudget {
  readonly #clock: Clock
  readonly #callCount = new SlidingWindowCounter()
  readonly #failedRetryCount = new SlidingWindowCounter()
  readonly #waiting: ((isReserved: boolean) => void)[] = []
  #retriesInFlight = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  recordCall(): void {
    this.#callCount.add(this.#now)
  }

  /** Reserves a retry, which must be released; false when the budget is exhausted. */
  reserve(): boolean | Promise<boolean> {
    if (this.#isAvailable) return this.#reserveNow()
    // Only a retry in flight can return its place.
    return this.#retriesInFlight > 0 && new Promise<boolean>(resolve => this.#waiting.push(resolve))
  }

  /** Reserves a retry only if that is possible without waiting. */
  tryReserve(): boolean {
    return this.#isAvailable && this.#waiting.length === 0 && this.#reserveNow()
  }

  release(failed: boolean): void {
    this.#retriesInFlight -= 1
    if (failed) this.#failedRetryCount.add(this.#now)
    while (this.#waiting.length > 0 && this.#isAvailable) this.#waiting.shift()?.(this.#reserveNow())
    if (this.#retriesInFlight === 0) for (const settle of this.#waiting.splice(0)) settle(false)
  }

  get #isAvailable(): boolean {
    const maxRetries = Math.max(minRetries, maxRetryRatio * this.#callCount.sum(this.#now))
    return this.#retriesInFlight + this.#failedRetryCount.sum(this.#now) + 1 <= maxRetries
  }

  get #now(): number {
    return this.#clock.monotonic()
  }

  #reserveNow(): true {
    this.#retriesInFlight += 1
    return true
  }
}

/** Counts in the last `windowMs`; expires them one bucket at a time. */
class SlidingWindowCounter {
  readonly #counts = new Array<number>(bucketCount).fill(0)
  #sum = 0
  #lastBucket = 0

  add(now: number): void {
    this.#expire(now)
    this.#counts[this.#lastBucket % bucketCount]! += 1
    this.#sum += 1
  }

  sum(now: number): number {
    this.#expire(now)
    return this.#sum
  }

  #expire(now: number): void {
    const bucket = Math.floor(now / (windowMs / bucketCount))
    for (let i = Math.max(this.#lastBucket + 1, bucket - bucketCount + 1); i <= bucket; i++) {
      this.#sum -= this.#counts[i % bucketCount]!
      this.#counts[i % bucketCount] = 0
    }
    this.#lastBucket = bucket
  }
}
