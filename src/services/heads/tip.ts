import type { Clock } from '../clock.ts'
import type { Block } from './block.ts'
import { Lows } from './height.ts'
import type { Place } from './state.ts'

/** A failing node's head counts no longer after so many polls in a row. */
const maxFailures = 3

export interface TipTerms {
  readonly clock: Clock
  /** ms between polls. */
  readonly interval: number
  /** Polls in a row without an answer after which a node has no say in the height. */
  readonly silentAfter: number
  /** The height that callers were told. */
  told(): number
}

/** How high a node is, by what it told last: when it was polled, unasked, or in answers to callers. */
export class Tip {
  readonly #terms: TipTerms
  readonly #lows: Lows
  #head: Place | undefined
  #shown: Block | undefined
  #failures = 0
  #answers = 0
  /** The highest that callers were answered since the newest block was asked for. */
  #heard = 0

  constructor(terms: TipTerms) {
    this.#terms = terms
    this.#lows = new Lows(terms.clock, terms.interval)
  }

  get head(): Place | undefined {
    return this.#head
  }

  /** The newest block that it has shown, as long as it answers. */
  get shown(): Block | undefined {
    return this.#head === undefined ? undefined : this.#shown
  }

  /** The head with its parent, when the node has shown it. */
  get block(): Block | undefined {
    return this.#shown !== undefined && this.#shown.hash === this.#head?.hash ? this.#shown : undefined
  }

  /** How often it has shown its head. */
  get answers(): number {
    return this.#answers
  }

  /** How often in a row it was below the height that callers were told. */
  get low(): number {
    return this.#lows.count
  }

  get isSilent(): boolean {
    return this.#failures >= this.#terms.silentAfter
  }

  /** The next block that it shows is newer than anything it answered to callers until now. */
  expect(): void {
    this.#heard = 0
  }

  /** It shows its newest block. */
  show(block: Block, isUnasked: boolean): void {
    this.#failures = 0
    this.#answers += 1
    // A caller's answer overtook the poll.
    if (block.number < this.#heard) return
    this.#lows.hear(block.number < this.#terms.told(), isUnasked)
    this.#head = { number: block.number, hash: block.hash, ...(block.time !== undefined && { time: block.time }) }
    this.#shown = block
  }

  /** It did not show its newest block when it was asked for it. */
  fail(): void {
    this.#failures += 1
    if (this.#failures >= maxFailures) this.#head = undefined
  }

  /** An answer of the node to a caller said how high it is. */
  hear(number: number): void {
    this.#heard = Math.max(this.#heard, number)
    if (number >= this.#terms.told()) this.#lows.hear(false, true)
    if (this.#head === undefined || number > this.#head.number) this.#head = { number }
  }
}
