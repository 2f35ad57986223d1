/** How many of the last calls are looked at, and after how many of them anew. */
const memory = 128
const step = 16

/** How long the last calls took. */
export class Pace {
  readonly #times: number[] = []
  #count = 0
  #p95: number | undefined

  add(ms: number): void {
    this.#times[this.#count % memory] = ms
    this.#count += 1
    if (this.#count % step !== 0) return
    this.#p95 = this.#times.toSorted((a, b) => a - b)[Math.floor(this.#times.length * 0.95)]
  }

  /** In ms: 95 % of them took less. Undefined while there are too few. */
  get p95(): number | undefined {
    return this.#p95
  }
}
