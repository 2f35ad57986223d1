const bucketCount = 10

/** Counts in the last `windowMs`; expires them one bucket at a time. */
export class SlidingWindowCounter {
  readonly #bucketMs: number
  readonly #counts = new Array<number>(bucketCount).fill(0)
  #sum = 0
  #lastBucket = 0

  constructor(windowMs: number) {
    this.#bucketMs = windowMs / bucketCount
  }

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
    const bucket = Math.floor(now / this.#bucketMs)
    for (let i = Math.max(this.#lastBucket + 1, bucket - bucketCount + 1); i <= bucket; i++) {
      this.#sum -= this.#counts[i % bucketCount]!
      this.#counts[i % bucketCount] = 0
    }
    this.#lastBucket = bucket
  }
}
