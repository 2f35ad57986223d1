import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { Ancestry } from './ancestry.ts'
import type { Step } from './ancestry.ts'
import type { Block } from './block.ts'
import type { Followed } from './followed.ts'
import type { Line } from './line.ts'

export interface ChainTerms {
  readonly log: Log
  readonly metrics: Metrics
  /** What was called final is so no longer. */
  onUndone(): void
}

/** The newest blocks as a line, and what of them is final. */
export class Chain {
  readonly #terms: ChainTerms
  readonly #ancestry = new Ancestry()
  readonly #reorganisations: { add(): void }
  #era = 0
  #final: Block | undefined
  #isTracing = false

  constructor(terms: ChainTerms) {
    this.#terms = terms
    this.#reorganisations = terms.metrics.counter('tollgate_reorganisations_total', 'Reorganisations seen.')
  }

  get line(): Line {
    return this.#ancestry.line
  }

  /** How often final blocks were undone. */
  get era(): number {
    return this.#era
  }

  /** The newest block that a node called final. */
  get final(): Block | undefined {
    return this.#final
  }

  /** Follows the head of the best node through its ancestors; heads that come meanwhile are followed after it. */
  async trace(best: () => Followed | undefined): Promise<void> {
    if (this.#isTracing) return
    this.#isTracing = true
    try {
      for (let done: Block | undefined; ; ) {
        const node = best()
        if (node?.block === undefined || node.block.hash === done?.hash) break
        done = node.block
        await this.#report(await this.#ancestry.follow(done, node), node, done)
      }
    } finally {
      this.#isTracing = false
    }
  }

  /** Does the block stand in the line, or where that does not reach, on the chain of the node? */
  async holds({ number, hash }: Block, node: Followed): Promise<boolean> {
    if (hash === this.#final?.hash) return true
    const known = this.line.hashAt(number) ?? (await node.fetch(`0x${number.toString(16)}`))?.hash
    return known === hash
  }

  /** A node calls another block final. That the one before still stands follows from the line, or the node is asked. */
  async learnFinal(fresh: Block, node: Followed): Promise<void> {
    const known = this.#final
    if (known === undefined || fresh.number > known.number) this.#final = fresh
    if (known === undefined || fresh.hash === known.hash) return
    if (this.#ancestry.links(known, fresh) || this.#ancestry.links(fresh, known)) return
    if ((node.height ?? 0) >= known.number) await this.#proveFinal(node, known)
  }

  /** Nothing is known to be final any more: `node` showed, or is, the reason. */
  undo({ name: upstream }: Followed, words: string): void {
    this.#terms.log.warn({ upstream, block: this.#final?.number }, words)
    this.#era += 1
    this.#final = undefined
    this.#ancestry.forget()
    this.#terms.onUndone()
  }

  async #report(step: Step, node: Followed, { number }: Block): Promise<void> {
    if (step.kind === 'fork') {
      this.#reorganisations.add()
      this.#terms.log.info({ upstream: node.name, head: number, depth: step.depth }, 'reorganisation')
    }
    const final = this.#final
    if (final === undefined) return
    // The line tells whether the final block stands in it; where it does not reach, the node is asked.
    const hash = this.line.hashAt(final.number)
    const mayBeUndone = hash === undefined ? step.kind === 'lost' || number < final.number : hash !== final.hash
    if (mayBeUndone) await this.#proveFinal(node, final)
  }

  async #proveFinal(node: Followed, known: Block): Promise<void> {
    const now = await node.fetch(`0x${known.number.toString(16)}`)
    if (now?.hash !== known.hash) this.undo(node, 'final blocks were undone')
  }
}
