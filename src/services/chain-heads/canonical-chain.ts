import { isFailure } from '../../plugin/reply.ts'
import { nextFlight } from '../../util/async.ts'
import { toHexQuantity } from '../../util/json.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Metrics } from '../metrics.ts'
import type { ChainAdvance, ChainLog } from './chain-log.ts'
import type { HeadSelection } from './network-head.ts'
import type { RecentBlocks } from './recent-blocks.ts'
import { parseBlockReply } from './upstream-requests.ts'
import type { BlockHeader } from './upstream-requests.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

interface CanonicalChainOptions {
  readonly log: Log
  readonly metrics: Metrics<'network'>
  readonly selection: HeadSelection
  readonly chainLog: ChainLog
  readonly recentBlocks: RecentBlocks
  /** Blocks that were finalized are so no longer. */
  onFinalityReverted(): void
}

/** The newest block that upstreams have returned, and the newest finalized one: finds reorgs, and reverted finality. */
export class CanonicalChain {
  readonly #options: CanonicalChainOptions
  readonly #reorgs: Counter
  #finalityVersion = 0
  #finalized: BlockHeader | undefined
  /** The upstream that was asked whether the finalized block is still canonical has failed. */
  #isFinalizedInDoubt = false

  constructor(options: CanonicalChainOptions) {
    this.#options = options
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
  readonly followHead = nextFlight(async () => {
    for (let followed: BlockHeader | undefined; ; ) {
      const newest = this.#options.selection.newestBlock
      if (newest === undefined || newest.block.hash === followed?.hash) return
      const { block, upstream } = newest
      followed = block
      const others = this.upstreams.filter(each => each !== upstream)
      await this.#handleAdvance(await this.#options.chainLog.advanceTo(block, [upstream, ...others]), upstream, block)
    }
  })

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
    const { recentBlocks } = this.#options
    if (recentBlocks.has(previous) && recentBlocks.has(finalized)) return // one is an ancestor of the other
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
    this.#options.onFinalityReverted()
  }

  async #handleAdvance(advance: ChainAdvance, upstream: UpstreamTracker, { number }: BlockHeader): Promise<void> {
    if (advance.kind === 'reorg') {
      this.#reorgs.add()
      this.#options.log.info({ upstream: upstream.name, head: number, depth: advance.depth }, 'chain reorg')
    }
    const finalized = this.#finalized
    if (finalized === undefined) return
    // The recent blocks prove whether the finalized block is canonical. Where they do not reach, or are not those of the head, a request decides.
    const isUnconnected = advance.kind === 'none' || advance.kind === 'restarted'
    const hash = advance.kind === 'none' ? undefined : this.#options.recentBlocks.hashAt(finalized.number)
    const mayBeReverted =
      hash === undefined ? isUnconnected || this.#isFinalizedInDoubt || number < finalized.number : hash !== finalized.hash
    if (mayBeReverted) await this.#verifyFinalized(upstream, finalized)
  }

  async #verifyFinalized(upstream: UpstreamTracker, finalized: BlockHeader): Promise<void> {
    const reply = await upstream.request('eth_getBlockByNumber', toHexQuantity(finalized.number), false)
    this.#isFinalizedInDoubt = isFailure(reply) && reply.fault !== 'caller'
    if (this.#isFinalizedInDoubt) return
    if (parseBlockReply(reply)?.hash !== finalized.hash) this.#revertFinality(upstream, 'finalized blocks were reverted')
  }
}
