import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Metrics } from '../metrics.ts'
import { HeadAncestry } from './head-ancestry.ts'
import type { ChainUpdate } from './head-ancestry.ts'
import type { BlockHeader } from './block-header.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'
import type { RecentBlocks } from './recent-blocks.ts'

export interface CanonicalChainOptions {
  readonly log: Log
  readonly metrics: Metrics<'network'>
  /** What was called final is so no longer. */
  onFinalityReverted(): void
}

/** The newest blocks as a line, and what of them is final. */
export class CanonicalChain {
  readonly #options: CanonicalChainOptions
  readonly #ancestry = new HeadAncestry()
  readonly #reorgs: Counter
  #finalityVersion = 0
  #finalized: BlockHeader | undefined
  #isFollowing = false

  constructor(options: CanonicalChainOptions) {
    this.#options = options
    this.#reorgs = options.metrics.counter(metricDefinitions.reorgs, {})
  }

  get recentBlocks(): RecentBlocks {
    return this.#ancestry.recentBlocks
  }

  /** How often final blocks were undone. */
  get finalityVersion(): number {
    return this.#finalityVersion
  }

  /** The newest block that a node called final. */
  get finalized(): BlockHeader | undefined {
    return this.#finalized
  }

  /** Follows the head of the best node through its ancestors; heads that come meanwhile are followed after it. */
  async followHead(bestUpstream: () => UpstreamTracker | undefined): Promise<void> {
    if (this.#isFollowing) return
    this.#isFollowing = true
    try {
      for (let followed: BlockHeader | undefined; ; ) {
        const upstream = bestUpstream()
        if (upstream?.headBlock === undefined || upstream.headBlock.hash === followed?.hash) break
        followed = upstream.headBlock
        await this.#handleUpdate(await this.#ancestry.advanceTo(followed, upstream), upstream, followed)
      }
    } finally {
      this.#isFollowing = false
    }
  }

  /** Does the block stand in the line, or where that does not reach, on the chain of the node? */
  async isCanonical({ number, hash }: BlockHeader, upstream: UpstreamTracker): Promise<boolean> {
    if (hash === this.#finalized?.hash) return true
    const canonicalHash = this.recentBlocks.hashAt(number) ?? (await upstream.fetchBlock(`0x${number.toString(16)}`))?.hash
    return canonicalHash === hash
  }

  /** A node calls another block final. That the one before still stands follows from the line, or the node is asked. */
  async recordFinalized(finalized: BlockHeader, upstream: UpstreamTracker): Promise<void> {
    const previous = this.#finalized
    if (previous === undefined || finalized.number > previous.number) this.#finalized = finalized
    if (previous === undefined || finalized.hash === previous.hash) return
    if (this.#ancestry.isAncestor(previous, finalized) || this.#ancestry.isAncestor(finalized, previous)) return
    if ((upstream.height ?? 0) >= previous.number) await this.#verifyFinalized(upstream, previous)
  }

  /** Nothing is known to be final any more: `node` showed, or is, the reason. */
  revertFinality({ name: upstream }: UpstreamTracker, message: string): void {
    this.#options.log.warn({ upstream, block: this.#finalized?.number }, message)
    this.#finalityVersion += 1
    this.#finalized = undefined
    this.#ancestry.reset()
    this.#options.onFinalityReverted()
  }

  async #handleUpdate(update: ChainUpdate, upstream: UpstreamTracker, { number }: BlockHeader): Promise<void> {
    if (update.kind === 'fork') {
      this.#reorgs.add()
      this.#options.log.info({ upstream: upstream.name, head: number, depth: update.depth }, 'reorganisation')
    }
    const finalized = this.#finalized
    if (finalized === undefined) return
    // The line tells whether the final block stands in it; where it does not reach, the node is asked.
    const hash = this.recentBlocks.hashAt(finalized.number)
    const mayBeReverted = hash === undefined ? update.kind === 'lost' || number < finalized.number : hash !== finalized.hash
    if (mayBeReverted) await this.#verifyFinalized(upstream, finalized)
  }

  async #verifyFinalized(upstream: UpstreamTracker, finalized: BlockHeader): Promise<void> {
    const current = await upstream.fetchBlock(`0x${finalized.number.toString(16)}`)
    if (current?.hash !== finalized.hash) this.revertFinality(upstream, 'final blocks were undone')
  }
}
