import type { Clock } from '../../src/plugin/plugin.ts'

/** The share of the calls of a window, and the least number, of attempts beyond the first (Envoy's retry budget). */
const maxRetryRatio = 0.2
const minRetries = 3
/** In ms. */
const windowMs = 10_000
const sliceCount = 10

/**
 * Attempts beyond a call's first, bounded so that a storm cannot double the load. What shows a storm is attempts that
 * fail: one that is answered gives its place back, and those for which there is none wait for it. So all calls move to
 * a healthy node, and few to one that fails as well.
 */
export class RetryBudget {
  readonly #clock: Clock
  readonly #callCount: SlidingWindowCounter
  readonly #failedRetryCount: SlidingWindowCounter
  readonly #waiting: ((may: boolean) => void)[] = []
  #running = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#callCount = new SlidingWindowCounter()
    this.#failedRetryCount = new SlidingWindowCounter()
  }

  /** A call begins. */
  recordCall(): void {
    this.#callCount.add(this.#now)
  }

  /** May it be tried once more? If so, finish() must follow. */
  reserve(): boolean | Promise<boolean> {
    if (this.#isAvailable) return this.#reserveNow()
    // With none under way no place can come back.
    return this.#running > 0 && new Promise<boolean>(resolve => this.#waiting.push(resolve))
  }

  /** The same at once: for what is not needed, only faster. */
  tryReserve(): boolean {
    return this.#isAvailable && this.#waiting.length === 0 && this.#reserveNow()
  }

  release(failed: boolean): void {
    this.#running -= 1
    if (failed) this.#failedRetryCount.add(this.#now)
    while (this.#waiting.length > 0 && this.#isAvailable) this.#waiting.shift()?.(this.#reserveNow())
    if (this.#running === 0) for (const refuse of this.#waiting.splice(0)) refuse(false)
  }

  get #isAvailable(): boolean {
    const maxRetries = Math.max(minRetries, maxRetryRatio * this.#callCount.sum(this.#now))
    return this.#running + this.#failedRetryCount.sum(this.#now) + 1 <= maxRetries
  }

  get #now(): number {
    return this.#clock.monotonic()
  }

  #reserveNow(): true {
    this.#running += 1
    return true
  }
}

/** Counts over the last window, forgetting a slice at a time. */
class SlidingWindowCounter {
  readonly #counts = new Array<number>(sliceCount).fill(0)
  #sum = 0
  #lastSlice = 0

  add(now: number): void {
    this.#expire(now)
    this.#counts[this.#lastSlice % sliceCount]! += 1
    this.#sum += 1
  }

  sum(now: number): number {
    this.#expire(now)
    return this.#sum
  }

  #expire(now: number): void {
    const slice = Math.floor(now / (windowMs / sliceCount))
    for (let at = Math.max(this.#lastSlice + 1, slice - sliceCount + 1); at <= slice; at++) {
      this.#sum -= this.#counts[at % sliceCount]!
      this.#counts[at % sliceCount] = 0
    }
    this.#lastSlice = slice
  }
}
