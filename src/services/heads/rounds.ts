import type { Clock, Timer } from '../clock.ts'

/** Rounds end when no call has come for so long, in ms. */
const idle = 30_000

/** ms between rounds. */
export const intervalOf = (blockTime: number): number => Math.min(5000, Math.max(250, blockTime / 2))

export interface RoundsTerms {
  readonly clock: Clock
  readonly interval: number
  /** One round: all nodes are asked. */
  ask(): void
  /** Calls have ceased. */
  rest(): void
}

/** When nodes are polled: at once when the first call comes, and then for as long as calls come in. */
export class Rounds {
  readonly #terms: RoundsTerms
  #timer: Timer | undefined
  /** ms of rounds since the last call. */
  #quiet = 0

  constructor(terms: RoundsTerms) {
    this.#terms = terms
  }

  /** A call has come. */
  touch(): void {
    this.#quiet = 0
    if (this.#timer === undefined) this.#go()
  }

  /** Until the next call. */
  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #go(): void {
    const { clock, interval, ask, rest } = this.#terms
    this.#timer = undefined
    if (this.#quiet > idle) return rest()
    this.#quiet += interval
    this.#timer = clock.after(interval, () => this.#go())
    ask()
  }
}
