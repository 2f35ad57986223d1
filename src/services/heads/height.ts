/** Polls in a row that must agree before the height that callers are told goes back. */
export const patience = 3

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
 * The height that callers are told: it never goes back because one node is behind another. It does when each node that
 * still answers has been below it for `patience` polls in a row: a chain that was reset must not freeze it for ever.
 */
export class Height {
  #told = 0

  get told(): number {
    return this.#told
  }

  raise(number: number): number {
    this.#told = Math.max(this.#told, number)
    return this.#told
  }

  /** True when it has gone back. */
  settle(voices: readonly Voice[]): boolean {
    if (!voices.every(voice => voice.isSilent || voice.low >= patience)) return false
    const highest = voices.reduce((most, { height = 0 }) => Math.max(most, height), 0)
    const isLower = highest < this.#told
    this.#told = highest
    return isLower
  }
}
