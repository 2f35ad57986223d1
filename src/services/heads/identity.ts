import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'
import type { Clock } from '../clock.ts'
import { readQuantity } from './block.ts'

export interface IdentityTerms {
  readonly chainId: number
  readonly clock: Clock
  /** ms between questions. */
  readonly rarely: number
  /** Asks eth_chainId. */
  ask(): Promise<Reply>
}

/** In ms, at most, until a node of another chain is asked again: it does nothing else until somebody has mended it. */
const soon = 10_000

/** Which chain a node is on: asked at first, after a connection came back, and now and then: it may restart unnoticed. */
export class Identity {
  readonly #terms: IdentityTerms
  #chain: number | undefined
  #isKnown = false
  #asking: Promise<void> | undefined
  #due = 0

  constructor(terms: IdentityTerms) {
    this.#terms = terms
  }

  /** The id that it gave; undefined as long as it did not. */
  get chain(): number | undefined {
    return this.#chain
  }

  /** Has it been proved to be on our chain? */
  get isOurs(): boolean {
    return this.#chain === this.#terms.chainId
  }

  /** Is it on another chain than ours? */
  get isElsewhere(): boolean {
    return this.#chain !== undefined && !this.isOurs
  }

  /** Another node may be there by now: it is asked again at the next check. */
  forget(): void {
    this.#isKnown = false
  }

  /** Asks, where there is reason to. Whoever checks meanwhile waits for the same answer. */
  check(): Promise<void> {
    this.#asking ??= this.#check().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #check(): Promise<void> {
    const { clock, rarely, ask } = this.#terms
    const now = clock.monotonic()
    if (this.#isKnown && now < this.#due) return
    this.#isKnown = true
    const reply = await ask()
    if (isFailure(reply) && reply.fault !== 'caller') return this.forget()
    const chain = readQuantity(reply)
    // Whoever was on another chain is there until it names ours: an error, a limit say, is no word on that.
    if (chain !== undefined || !this.isElsewhere) this.#chain = chain
    this.#due = now + (this.isElsewhere ? Math.min(soon, rarely) : rarely)
  }
}
