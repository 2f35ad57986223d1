import type { Clock } from '../../src/plugin.ts'

/** The share of the calls of a window, and the least number, of attempts beyond the first (Envoy's retry budget). */
const share = 0.2
const least = 3
/** In ms. */
const window = 10_000
const slices = 10

/**
 * Attempts beyond a call's first, bounded so that a storm cannot double the load. What shows a storm is attempts that
 * fail: one that is answered gives its place back, and those for which there is none wait for it. So all calls move to
 * a healthy node, and few to one that fails as well.
 */
export class Budget {
  readonly #clock: Clock
  readonly #calls: Tally
  readonly #failed: Tally
  readonly #waiting: ((may: boolean) => void)[] = []
  #running = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#calls = new Tally()
    this.#failed = new Tally()
  }

  /** A call begins. */
  count(): void {
    this.#calls.add(this.#now)
  }

  /** May it be tried once more? If so, finish() must follow. */
  start(): boolean | Promise<boolean> {
    if (this.#hasPlace) return this.#take()
    // With none under way no place can come back.
    return this.#running > 0 && new Promise<boolean>(resolve => this.#waiting.push(resolve))
  }

  /** The same at once: for what is not needed, only faster. */
  startNow(): boolean {
    return this.#hasPlace && this.#waiting.length === 0 && this.#take()
  }

  finish(failed: boolean): void {
    this.#running -= 1
    if (failed) this.#failed.add(this.#now)
    while (this.#waiting.length > 0 && this.#hasPlace) this.#waiting.shift()?.(this.#take())
    if (this.#running === 0) for (const refuse of this.#waiting.splice(0)) refuse(false)
  }

  get #hasPlace(): boolean {
    const most = Math.max(least, share * this.#calls.sum(this.#now))
    return this.#running + this.#failed.sum(this.#now) + 1 <= most
  }

  get #now(): number {
    return this.#clock.monotonic()
  }

  #take(): true {
    this.#running += 1
    return true
  }
}

/** Counts over the last window, forgetting a slice at a time. */
class Tally {
  readonly #counts = new Array<number>(slices).fill(0)
  #sum = 0
  #last = 0

  add(now: number): void {
    this.#forget(now)
    this.#counts[this.#last % slices]! += 1
    this.#sum += 1
  }

  sum(now: number): number {
    this.#forget(now)
    return this.#sum
  }

  #forget(now: number): void {
    const slice = Math.floor(now / (window / slices))
    for (let at = Math.max(this.#last + 1, slice - slices + 1); at <= slice; at++) {
      this.#sum -= this.#counts[at % slices]!
      this.#counts[at % slices] = 0
    }
    this.#last = slice
  }
}
