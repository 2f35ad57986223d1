import { nextFlight, sleep } from '../../../util/async.ts'
import type { Clock, Timer } from '../../clock.ts'
import type { CanonicalChain } from '../canonical-chain.ts'
import { maxRecentBlocks } from '../recent-blocks.ts'
import type { BlockId } from '../recent-blocks.ts'
import type { ReportedHeight } from '../reported-height.ts'
import type { BlockHeader } from '../upstream-requests.ts'
import type { ChainUpdate, FeedBlock, FeedSource, LinkedBlock } from './block-feed.ts'

/** What a feed needs of the process that tracks the upstreams. */
export interface FeedSourceOptions {
  readonly clock: Clock
  readonly chain: Pick<CanonicalChain, 'headers' | 'newestBlock' | 'upstreams'>
  readonly reportedHeight: Pick<ReportedHeight, 'height' | 'sharedHeight'>
  readonly tracker: {
    /** Polls the upstreams; resolves, and soon, when they have answered. */
    refresh(isCatchUp: true): Promise<void>
    /** The upstreams are polled for another 30 s. */
    recordActivity(): void
  }
}

interface HeaderSourceOptions extends FeedSourceOptions {
  publish(update: ChainUpdate): void
  /** Blocks would be missing. */
  end(): void
}

/** While a feed runs, upstreams are polled, though no calls come in. */
export const activityIntervalMs = 10_000
/** A feed that has no head by then does not start. */
export const startTimeoutMs = 2_000
const startRetryIntervalMs = 100

/** Blocks, with those from before the start, that are known soon: nodes may forget them when a reorg replaces them. */
const minKnownBlocks = 16

/**
 * Follows the head of the network block by block, from the last block that it has published.
 *
 * - A head on another branch first removes the blocks that the branch does not have.
 * - A lower head means that an upstream is behind, or has taken over from another. It removes blocks only when the reported height
 *   has gone back, so that no upstream has them any more.
 * - While an ancestor of the head cannot be fetched, nothing is published. The next head tries again.
 * - A head on a branch that leaves the chain below all blocks that are known: the older blocks of both branches are fetched.
 * - More than `maxRecentBlocks` missing or removed blocks end the feed, and so does a branch whose begin cannot be found, as no upstream
 *   returns the older blocks of the branch that was left.
 */
export class HeaderSource implements FeedSource {
  readonly #options: HeaderSourceOptions
  /** The newest blocks that were published, each the parent of the next, after some older ones; empty while stopped. */
  #published: BlockHeader[] = []
  #activityTimer: Timer | undefined
  #startCount = 0

  constructor(options: HeaderSourceOptions) {
    this.#options = options
  }

  /** Begins with the newest block of a poll: what an upstream reported before may be old, as it is polled only while calls come in. */
  async start(onStarted: () => void): Promise<boolean> {
    const { clock, chain, tracker } = this.#options
    const start = (this.#startCount += 1)
    const headsReceived = () => chain.upstreams.reduce((sum, upstream) => sum + upstream.headsReceived, 0)
    const [receivedBefore, deadline] = [headsReceived(), clock.monotonic() + startTimeoutMs]
    this.#activityTimer = clock.every(activityIntervalMs, () => tracker.recordActivity())
    for (;;) {
      await tracker.refresh(true)
      tracker.recordActivity()
      const base = chain.newestBlock
      if (start !== this.#startCount) return false
      // A height that an upstream has answered to a caller is no event for those who come later.
      const isNewest = base?.number === chain.upstreams[0]?.height
      if (base !== undefined && isNewest && headsReceived() > receivedBefore) {
        this.#published = [base]
        void this.#fetchAncestors(this.#published)
        onStarted()
        return true
      }
      if (clock.monotonic() >= deadline) return false
      await sleep(clock, startRetryIntervalMs)
    }
  }

  stop(): void {
    this.#startCount += 1
    this.#activityTimer?.cancel()
    this.#published = []
  }

  async sync(onSynced: () => void): Promise<void> {
    await this.#sync()
    onSynced()
  }

  readonly #sync = nextFlight(async () => {
    await this.#options.tracker.refresh(true)
    await this.advance()
  })

  /** The head may have changed. Resolves when its blocks have been published, as far as they can be fetched. */
  readonly advance = nextFlight(async () => {
    while (await this.#follow(this.#options.chain.newestBlock));
  })

  /** Resolves with true when the head has been reached, and may be another meanwhile. */
  async #follow(head: BlockHeader | undefined): Promise<boolean> {
    const tip = this.#published.at(-1)
    if (head === undefined || tip === undefined || head.hash === tip.hash) return false
    if (head.number < tip.number && this.#options.reportedHeight.height >= tip.number) return false
    const published = this.#published
    const branch = await this.#branchTo(head, tip)
    // Every worker has the height first: no caller who has seen the block gets an older answer.
    await this.#options.reportedHeight.sharedHeight
    if (branch === undefined || published !== this.#published) return false
    if (branch === 'tooLong') {
      this.#options.end()
      return false
    }
    this.#publish(branch, head.number - branch.length)
    return true
  }

  /**
   * The blocks from a child of a published block, or from block 0, up to the head, the oldest first. Undefined: one of them cannot be fetched
   * now. `tooLong`: there are too many, or where the branch begins cannot be found.
   */
  async #branchTo(head: BlockHeader, tip: BlockHeader): Promise<readonly BlockHeader[] | 'tooLong' | undefined> {
    if (head.number > tip.number + maxRecentBlocks) return 'tooLong'
    const published = this.#published
    const branch: BlockHeader[] = []
    for (let next: BlockId = head; next.number >= 0 && published === this.#published; ) {
      if (!(await this.#reachDownTo(next.number))) return 'tooLong'
      if (this.#has(next)) break
      const block = branch.length === 0 ? head : await this.#fetch(next.hash)
      if (block?.number !== next.number) return undefined
      branch.push(block)
      next = { number: block.number - 1, hash: block.parentHash }
    }
    return branch.reverse()
  }

  async #fetchAncestors(published: BlockHeader[]): Promise<void> {
    while (published === this.#published && published.length < minKnownBlocks && (await this.#fetchOlder()));
  }

  /** Fetches the ancestors of the published blocks down to this height, where they are not known. False when that fails. */
  async #reachDownTo(number: number): Promise<boolean> {
    while ((this.#published[0]?.number ?? 0) > number)
      if (this.#published.length >= maxRecentBlocks || !(await this.#fetchOlder())) return false
    return true
  }

  /** False when no upstream returns the parent of the oldest block that is known. */
  async #fetchOlder(): Promise<boolean> {
    const published = this.#published
    const [oldest] = published
    const parent = oldest && oldest.number > 0 ? await this.#fetch(oldest.parentHash) : undefined
    // Another call may have fetched the parent meanwhile.
    if (parent !== undefined && published[0] === oldest) published.unshift(parent)
    return parent !== undefined
  }

  /** From whichever upstream returns it. */
  #fetch(hash: string): Promise<BlockHeader | undefined> {
    const { headers, upstreams } = this.#options.chain
    return headers.fetch(hash, upstreams)
  }

  #has({ number, hash }: BlockId): boolean {
    return this.#published[number - (this.#published[0]?.number ?? 0)]?.hash === hash
  }

  /** Replaces what was published above the fork. */
  #publish(branch: readonly BlockHeader[], forkNumber: number): void {
    const keptCount = forkNumber - (this.#published[0]?.number ?? 0) + 1
    const removed = this.#published.splice(keptCount).reverse()
    this.#published.push(...branch)
    this.#published.splice(0, this.#published.length - maxRecentBlocks)
    this.#options.publish({ removed: removed.map(toLinkedBlock), added: branch.map(toFeedBlock) })
  }
}

const toLinkedBlock = ({ number, hash, parentHash }: BlockHeader): LinkedBlock => ({ number, hash, parentHash })

const toFeedBlock = (header: BlockHeader): FeedBlock => ({
  ...toLinkedBlock(header),
  json: header.header,
  ...(header.timestampMs !== undefined && { timestampMs: header.timestampMs }),
})
