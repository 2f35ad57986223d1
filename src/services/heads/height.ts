import type { Clock } from '../clock.ts'

/** Polls in a row that must agree before a node is judged. */
export const patience = 3

/** In ms: a provider's nodes behind one URL are so far apart at most, and each may answer a poll. */
const apart = 3_000

/** Polls in a row that must agree before the height that callers are told goes back. */
export const patienceOf = (interval: number): number => Math.max(patience, Math.ceil(apart / interval))

/** What one node's polls say about the height. */
export interface Voice {
  /** Undefined while the node has not told of a block. */
  readonly height: number | undefined
  /** Answered polls in a row below the height that callers were told. */
  readonly low: number
  /** It has not answered for so long that it has no say. */
  readonly isSilent: boolean
}

/**
 * Counts in a row how often a node is below the height that callers were told. What it tells unasked counts no more
 * often than polls would: a node that leaves a branch may tell at once of each block of the new one.
 */
export class Lows {
  readonly #clock: Clock
  readonly #interval: number
  #count = 0
  #last = -Infinity

  /** `interval`: ms between polls. */
  constructor(clock: Clock, interval: number) {
    this.#clock = clock
    this.#interval = interval
  }

  get count(): number {
    return this.#count
  }

  hear(isLow: boolean, isUnasked: boolean): void {
    const now = this.#clock.monotonic()
    if (isLow && isUnasked && now - this.#last < this.#interval) return
    this.#count = isLow ? this.#count + 1 : 0
    if (isLow) this.#last = now
  }
}

/**
 * The height that callers are told: it never goes back because one node is behind another. It does when each node that
 * still answers has been below it for some polls in a row: a chain that was reset must not freeze it for ever.
 */
export class Height {
  readonly #patience: number
  #told = 0

  /** Polls in a row that must agree before it goes back. */
  constructor(patience: number) {
    this.#patience = patience
  }

  get told(): number {
    return this.#told
  }

  raise(number: number): void {
    this.#told = Math.max(this.#told, number)
  }

  /** True when it has gone back. Where all are silent nobody says that it should. */
  settle(voices: readonly Voice[]): boolean {
    const heard = voices.filter(voice => !voice.isSilent)
    return heard.length > 0 && heard.every(voice => voice.low >= this.#patience) && this.drop(heard)
  }

  /** Becomes the greatest that any of them tells; true when it has gone back. */
  drop(voices: readonly Pick<Voice, 'height'>[]): boolean {
    const highest = voices.reduce((most, { height = 0 }) => Math.max(most, height), 0)
    const isLower = highest < this.#told
    this.#told = highest
    return isLower
  }
}
