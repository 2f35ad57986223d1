import type { Clock } from '../clock.ts'
import type { Belief } from './belief.ts'
import type { Followed } from './followed.ts'
import { Height, patienceOf } from './height.ts'
import type { HeadNews } from './news.ts'

export interface ToldTerms {
  readonly clock: Clock
  readonly belief: Belief
  /** ms between polls. */
  readonly interval: number
  /** Those who hear of it. */
  readonly news: readonly HeadNews[]
  /** ms after which a height that others told says nothing about the chain any more. */
  readonly memory: number
  /** The nodes that are believed. */
  witnesses(): readonly Followed[]
}

/** The height that callers are told here, kept in step with those who tell it elsewhere. */
export class Told {
  readonly #terms: ToldTerms
  readonly #height: Height
  #spreading: Promise<void> | undefined
  /** What others told last. */
  #others: { readonly height: number; readonly at: number } | undefined

  constructor(terms: ToldTerms) {
    this.#terms = terms
    this.#height = new Height(patienceOf(terms.interval))
  }

  get height(): number {
    return this.#height.told
  }

  /** The height, once all who must know do. */
  get shared(): number | Promise<number> {
    const height = this.height
    return this.#spreading === undefined ? height : this.#spreading.then(() => height)
  }

  raise(height: number): void {
    if (height <= this.height) return
    this.#height.raise(height)
    const waits = this.#terms.news.flatMap(carrier => carrier.raise(height) ?? [])
    if (waits.length === 0) return
    const spreading = Promise.all(waits).then(() => {
      if (this.#spreading === spreading) this.#spreading = undefined
    })
    this.#spreading = spreading
  }

  /** Goes back when the witnesses agree on it, or on its being impossible; gives the height before, if so. */
  settle(): number | undefined {
    const [before, believed] = [this.height, this.#terms.witnesses()]
    const isImpossible = before > 0 && this.#terms.belief.isDoubted({ number: before }, believed)
    if (isImpossible) this.#others = undefined
    if (!(isImpossible ? this.#height.drop(believed) : this.#height.settle([...believed, ...this.#voices()]))) return undefined
    for (const carrier of this.#terms.news) carrier.lower(this.height)
    return before
  }

  /** Others tell their callers this height, of nodes that are not ours. */
  hear(height: number): void {
    if (this.#terms.belief.isDoubted({ number: height }, this.#terms.witnesses())) return
    this.#others = { height, at: this.#terms.clock.monotonic() }
    this.raise(height)
  }

  /** Others are one more voice, for as long as they may be taken to be there. */
  #voices() {
    const { clock, memory } = this.#terms
    const isThere = this.#others !== undefined && clock.monotonic() - this.#others.at < memory
    return isThere ? [{ height: this.#others?.height, low: 0, isSilent: false }] : []
  }
}
