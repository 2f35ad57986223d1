/** How many of the last calls are looked at, and after how many of them anew. */
const memory = 128
const step = 16

/** How long the last calls took. */
export class Pace {
  readonly #times: number[] = []
  #count = 0
  #p95: number | undefined
  /** The count at which it was last found. */
  #foundAt = 0

  add(ms: number): void {
    this.#times[this.#count % memory] = ms
    this.#count += 1
  }

  /** In ms: 95 % of them took less. Undefined while there are too few. Found when somebody asks: few networks hedge. */
  get p95(): number | undefined {
    const now = this.#count - (this.#count % step)
    if (now === this.#foundAt) return this.#p95
    this.#foundAt = now
    return (this.#p95 = this.#times.toSorted((a, b) => a - b)[Math.floor(this.#times.length * 0.95)])
  }
}
