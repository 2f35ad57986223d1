import { LRUCache } from 'lru-cache'
import { toHexQuantity } from '../../util/json.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Metrics } from '../metrics.ts'
import type { HeadSelection } from './network-head.ts'
import type { RecentBlocks } from './recent-blocks.ts'
import type { BlockHeader } from './upstream-requests.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

interface CanonicalChainOptions {
  readonly log: Log
  readonly metrics: Metrics<'network'>
  readonly selection: HeadSelection
  /** Empty; kept up to date here. */
  readonly recentBlocks: RecentBlocks
  /** Blocks that were finalized are so no longer. */
  onFinalityReverted(): void
}

/** The recent blocks up to the head, and the newest finalized block: finds reorgs, and reverted finality. */
export class CanonicalChain {
  /** Blocks that were requested by hash. */
  readonly headers = new HeaderCache()
  readonly #options: CanonicalChainOptions
  readonly #ancestry: HeadAncestry
  readonly #reorgs: Counter
  #finalityVersion = 0
  #finalized: BlockHeader | undefined
  #isFollowing = false

  constructor(options: CanonicalChainOptions) {
    this.#options = options
    this.#ancestry = new HeadAncestry(options.recentBlocks, this.headers)
    this.#reorgs = options.metrics.counter(metricDefinitions.reorgs, {})
  }

  /** The upstreams whose heads are plausible, the best first. */
  get upstreams(): readonly UpstreamTracker[] {
    return this.#options.selection.bestFirst
  }

  /** How often finalized blocks were reverted. */
  get finalityVersion(): number {
    return this.#finalityVersion
  }

  /** The newest finalized block of any upstream. */
  get finalized(): BlockHeader | undefined {
    return this.#finalized
  }

  /** The highest block that one of them has returned. */
  get newestBlock(): BlockHeader | undefined {
    return this.#options.selection.newestBlock?.block
  }

  /** Follows the newest block through its ancestors, then those that have come meanwhile. */
  async followHead(): Promise<void> {
    if (this.#isFollowing) return
    this.#isFollowing = true
    try {
      for (let followed: BlockHeader | undefined; ; ) {
        const newest = this.#options.selection.newestBlock
        if (newest === undefined || newest.block.hash === followed?.hash) break
        const { block, upstream } = newest
        followed = block
        await this.#handleUpdate(await this.#ancestry.advanceTo(block, upstream), upstream, block)
      }
    } finally {
      this.#isFollowing = false
    }
  }

  /** Resolves with the upstream's finalized block when that has changed. Nothing is requested while its head is implausible. */
  async pollFinalized(upstream: UpstreamTracker): Promise<BlockHeader | undefined> {
    if (this.#options.selection.isImplausible(upstream)) return undefined
    return upstream.pollFinalized(block => this.#isOnBestChain(block, upstream))
  }

  /** The upstream reports another finalized block: the previous one must still be canonical. */
  async recordFinalized(finalized: BlockHeader, upstream: UpstreamTracker): Promise<void> {
    if (this.#options.selection.isImplausible(upstream)) return upstream.discardFinalized()
    const previous = this.#finalized
    if (previous === undefined || finalized.number > previous.number) this.#finalized = finalized
    if (previous === undefined || finalized.hash === previous.hash) return
    if (this.#ancestry.isAncestor(previous, finalized) || this.#ancestry.isAncestor(finalized, previous)) return
    if ((upstream.height ?? 0) >= previous.number) await this.#verifyFinalized(upstream, previous)
  }

  /** The upstream's head has become implausible: its finalized block may have counted already. */
  discardFinalizedOf(upstream: UpstreamTracker): void {
    const { finalized } = upstream
    upstream.discardFinalized()
    if (finalized !== undefined) this.#revertFinality(upstream, 'finalized block discarded: the head of its upstream is implausible')
  }

  /** Is the block on the chain of the best head? An upstream may finalize a branch that the others have left. */
  async #isOnBestChain({ number, hash }: BlockHeader, upstream: UpstreamTracker): Promise<boolean> {
    const { best } = this.#options.selection
    if (best === undefined || best === upstream || hash === this.#finalized?.hash) return true
    const canonicalHash = this.#options.recentBlocks.hashAt(number) ?? (await best.fetchBlock(toHexQuantity(number)))?.hash
    return canonicalHash === hash
  }

  /** No block counts as finalized any more. `upstream` is where the reason was found. */
  #revertFinality({ name: upstream }: UpstreamTracker, message: string): void {
    this.#options.log.warn({ upstream, block: this.#finalized?.number }, message)
    this.#finalityVersion += 1
    this.#finalized = undefined
    this.#options.recentBlocks.reset([])
    this.#options.onFinalityReverted()
  }

  async #handleUpdate(update: HeadAdvance, upstream: UpstreamTracker, { number }: BlockHeader): Promise<void> {
    if (update.kind === 'reorg') {
      this.#reorgs.add()
      this.#options.log.info({ upstream: upstream.name, head: number, depth: update.depth }, 'chain reorg')
    }
    const finalized = this.#finalized
    if (finalized === undefined) return
    // The recent blocks prove whether the finalized block is canonical. Where they do not reach, a request decides.
    const hash = this.#options.recentBlocks.hashAt(finalized.number)
    const mayBeReverted = hash === undefined ? update.kind === 'disconnected' || number < finalized.number : hash !== finalized.hash
    if (mayBeReverted) await this.#verifyFinalized(upstream, finalized)
  }

  async #verifyFinalized(upstream: UpstreamTracker, finalized: BlockHeader): Promise<void> {
    const current = await upstream.fetchBlock(toHexQuantity(finalized.number))
    if (current?.hash !== finalized.hash) this.#revertFinality(upstream, 'finalized blocks were reverted')
  }
}

/** Ancestors of a new head that are fetched, at most, to find its fork point. */
const maxFetchedAncestors = 64

/**
 * What a new head does to the recent blocks. `disconnected`: no fork point was found, so the recent blocks start again with the new head.
 * `depth`: replaced blocks.
 */
type HeadAdvance = { readonly kind: 'extended' | 'disconnected' } | { readonly kind: 'reorg'; readonly depth: number }

/** Connects new heads to the recent blocks. */
class HeadAncestry {
  readonly #recentBlocks: RecentBlocks
  readonly #headers: HeaderCache

  constructor(recentBlocks: RecentBlocks, headers: HeaderCache) {
    this.#recentBlocks = recentBlocks
    this.#headers = headers
  }

  /** Makes the block the newest of the recent blocks. Missing ancestors are fetched from the upstream that reported it. */
  async advanceTo(block: BlockHeader, upstream: UpstreamTracker): Promise<HeadAdvance> {
    const recentBlocks = this.#recentBlocks
    if (recentBlocks.has(block)) return this.#replaceAbove(block.number, [])
    if (recentBlocks.highestNumber < 0 || block.number > recentBlocks.highestNumber + maxFetchedAncestors) return this.#restart([block])
    const newBlocks = await this.#fetchAncestors(block, upstream)
    const oldest = newBlocks[0] ?? block
    return recentBlocks.hasParentOf(oldest) ? this.#replaceAbove(oldest.number - 1, newBlocks) : this.#restart(newBlocks)
  }

  /** Do the recent blocks prove that the older block is an ancestor of the newer, or the same? */
  isAncestor(older: BlockHeader, newer: BlockHeader): boolean {
    return older.number <= newer.number && this.#recentBlocks.has(older) && this.#recentBlocks.has(newer)
  }

  /** The block and its ancestors down to a child of a recent block, oldest first; fewer when the upstream returns no more. */
  async #fetchAncestors(block: BlockHeader, upstream: UpstreamTracker): Promise<readonly BlockHeader[]> {
    const recentBlocks = this.#recentBlocks
    const newBlocks = [block]
    let oldest = block
    while (newBlocks.length < maxFetchedAncestors && oldest.number > recentBlocks.lowestNumber && !recentBlocks.hasParentOf(oldest)) {
      const parent = await this.#headers.fetch(oldest.parentHash, [upstream])
      if (parent === undefined || parent.number !== oldest.number - 1) break
      newBlocks.unshift(parent)
      oldest = parent
    }
    return newBlocks
  }

  #replaceAbove(forkNumber: number, newBlocks: readonly BlockHeader[]): HeadAdvance {
    const depth = this.#recentBlocks.highestNumber - forkNumber
    this.#recentBlocks.truncateTo(forkNumber)
    this.#recentBlocks.append(newBlocks)
    return depth > 0 ? { kind: 'reorg', depth } : { kind: 'extended' }
  }

  #restart(blocks: readonly BlockHeader[]): HeadAdvance {
    const isFirst = this.#recentBlocks.highestNumber < 0
    this.#recentBlocks.reset(blocks)
    return { kind: isFirst ? 'extended' : 'disconnected' }
  }
}

/** An upstream that returns blocks by their hash. */
interface BlockSource {
  fetchBlock(hash: string): Promise<BlockHeader | undefined>
}

/** Headers of 2 KB each. */
const maxHeaders = 512

/** Blocks by hash, so that each is requested once, whoever needs it. */
class HeaderCache {
  readonly #headers = new LRUCache<string, BlockHeader>({ max: maxHeaders })

  add(block: BlockHeader): void {
    this.#headers.set(block.hash, block)
  }

  /** From the first of the upstreams that returns it. */
  async fetch(hash: string, upstreams: readonly BlockSource[]): Promise<BlockHeader | undefined> {
    const cached = this.#headers.get(hash)
    if (cached !== undefined) return cached
    for (const upstream of upstreams) {
      const block = await upstream.fetchBlock(hash)
      if (block?.hash !== hash) continue
      this.add(block)
      return block
    }
    return undefined
  }
}
