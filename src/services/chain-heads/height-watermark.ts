import type { Clock } from '../clock.ts'

/** Polls in a row that must agree before a node is judged. */
export const minAgreeingPolls = 3

/** In ms: a provider's nodes behind one URL are so far apart at most, and each may answer a poll. */
const maxReplicaSkewMs = 3_000

/** Polls in a row that must agree before the height that callers are told goes back. */
export const agreeingPollsFor = (pollIntervalMs: number): number => Math.max(minAgreeingPolls, Math.ceil(maxReplicaSkewMs / pollIntervalMs))

/** What one node's polls say about the height. */
export interface HeightVote {
  /** Undefined while the node has not told of a block. */
  readonly height: number | undefined
  /** Answered polls in a row below the height that callers were told. */
  readonly lowPolls: number
  /** It has not answered for so long that it has no say. */
  readonly isSilent: boolean
}

/**
 * Counts in a row how often a node is below the height that callers were told. What it tells unasked counts no more
 * often than polls would: a node that leaves a branch may tell at once of each block of the new one.
 */
export class LowPollCounter {
  readonly #clock: Clock
  readonly #pollIntervalMs: number
  #count = 0
  #lastLowAt = -Infinity

  /** `interval`: ms between polls. */
  constructor(clock: Clock, pollIntervalMs: number) {
    this.#clock = clock
    this.#pollIntervalMs = pollIntervalMs
  }

  get count(): number {
    return this.#count
  }

  record(isLow: boolean, isNotification: boolean): void {
    const now = this.#clock.monotonic()
    if (isLow && isNotification && now - this.#lastLowAt < this.#pollIntervalMs) return
    this.#count = isLow ? this.#count + 1 : 0
    if (isLow) this.#lastLowAt = now
  }
}

/**
 * The height that callers are told: it never goes back because one node is behind another. It does when each node that
 * still answers has been below it for some polls in a row: a chain that was reset must not freeze it for ever.
 */
export class HeightWatermark {
  readonly #minAgreeingPolls: number
  #value = 0

  /** Polls in a row that must agree before it goes back. */
  constructor(minAgreeingPolls: number) {
    this.#minAgreeingPolls = minAgreeingPolls
  }

  get value(): number {
    return this.#value
  }

  raise(number: number): void {
    this.#value = Math.max(this.#value, number)
  }

  /** True when it has gone back. Where all are silent nobody says that it should. */
  lowerIfAgreed(votes: readonly HeightVote[]): boolean {
    const active = votes.filter(voice => !voice.isSilent)
    return active.length > 0 && active.every(voice => voice.lowPolls >= this.#minAgreeingPolls) && this.lowerTo(active)
  }

  /** Becomes the greatest that any of them tells; true when it has gone back. */
  lowerTo(votes: readonly Pick<HeightVote, 'height'>[]): boolean {
    const highest = votes.reduce((max, { height = 0 }) => Math.max(max, height), 0)
    const isLower = highest < this.#value
    this.#value = highest
    return isLower
  }
}
