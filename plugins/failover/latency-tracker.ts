/** How many of the last calls are looked at, and after how many of them anew. */
const maxSamples = 128
const samplesPerUpdate = 16

/** How long the last calls took. */
export class LatencyTracker {
  readonly #samplesMs: number[] = []
  #count = 0
  #p95: number | undefined
  /** The count at which it was last found. */
  #computedAtCount = 0

  record(ms: number): void {
    this.#samplesMs[this.#count % maxSamples] = ms
    this.#count += 1
  }

  /** In ms: 95 % of them took less. Undefined while there are too few. Found when somebody asks: few networks hedge. */
  get p95(): number | undefined {
    const roundedCount = this.#count - (this.#count % samplesPerUpdate)
    if (roundedCount === this.#computedAtCount) return this.#p95
    this.#computedAtCount = roundedCount
    return (this.#p95 = this.#samplesMs.toSorted((a, b) => a - b)[Math.floor(this.#samplesMs.length * 0.95)])
  }
}
