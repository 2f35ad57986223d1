import { maxRecentBlocks } from './recent-blocks.ts'
import type { ChainUpdate, FeedBlock, LinkedBlock } from './block-feed.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { BlockHeader } from './upstream-requests.ts'

interface HeaderFollowerOptions {
  /** The newest block of the best upstream; undefined while none has one. */
  head(): BlockHeader | undefined
  /** The height that callers are given. */
  reportedHeight(): number
  /** Resolves when every worker has the reported height: its callers are not answered from before a block that is published. */
  whenHeightShared(): MaybePromise<unknown>
  /** From whichever upstream returns it. */
  fetchBlock(hash: string): Promise<BlockHeader | undefined>
  publish(update: ChainUpdate): void
  /** Blocks would be missing. */
  end(): void
}

/** Blocks from before the start, so that a reorg is known to reach back to them. */
const minKnownBlocks = 16

/**
 * Follows the head of the network block by block, from the last block that it has published.
 *
 * - A head on another branch first removes the blocks that the branch does not have.
 * - A lower head means that an upstream is behind, or has taken over from another. It removes blocks only when the reported height
 *   has gone back, so that no upstream has them any more.
 * - While an ancestor of the head cannot be fetched, nothing is published. The next head tries again.
 * - More than `maxRecentBlocks` missing blocks end the feed, and so does a head below all blocks that are known.
 */
export class HeaderFollower {
  readonly #options: HeaderFollowerOptions
  /** The newest blocks that were published, each the parent of the next, after some older ones; empty while stopped. */
  #published: BlockHeader[] = []
  #isAdvancing = false

  constructor(options: HeaderFollowerOptions) {
    this.#options = options
  }

  /** The blocks after this one are published. */
  start(base: BlockHeader): void {
    this.#published = [base]
    void this.#fetchAncestors(this.#published)
  }

  stop(): void {
    this.#published = []
  }

  /** The head may have changed. */
  async advance(): Promise<void> {
    if (this.#isAdvancing) return
    this.#isAdvancing = true
    try {
      while (await this.#follow(this.#options.head()));
    } finally {
      this.#isAdvancing = false
    }
  }

  /** Resolves with true when the head has been reached, and may be another meanwhile. */
  async #follow(head: BlockHeader | undefined): Promise<boolean> {
    const tip = this.#published.at(-1)
    if (head === undefined || tip === undefined || head.hash === tip.hash) return false
    if (head.number < tip.number && this.#options.reportedHeight() >= tip.number) return false
    const published = this.#published
    const branch = await this.#branchTo(head, tip)
    await this.#options.whenHeightShared()
    if (branch === undefined || published !== this.#published) return false
    if (branch === 'tooLong') {
      this.#options.end()
      return false
    }
    this.#publish(branch, (branch[0] ?? head).number - (branch.length > 0 ? 1 : 0))
    return true
  }

  /** The blocks from a child of a published block up to the head, the oldest first. Undefined: one of them cannot be fetched now. */
  async #branchTo(head: BlockHeader, tip: BlockHeader): Promise<readonly BlockHeader[] | 'tooLong' | undefined> {
    if (this.#has(head.number, head.hash)) return []
    const lowestNumber = this.#published[0]?.number ?? 0
    if (head.number < lowestNumber || head.number > tip.number + maxRecentBlocks) return 'tooLong'
    const branch = [head]
    for (let oldest = head; oldest.number > lowestNumber && !this.#has(oldest.number - 1, oldest.parentHash); branch.push(oldest)) {
      const parent = await this.#options.fetchBlock(oldest.parentHash)
      if (parent?.number !== oldest.number - 1) return undefined
      oldest = parent
    }
    return branch.reverse()
  }

  async #fetchAncestors(published: BlockHeader[]): Promise<void> {
    for (let [oldest] = published; oldest !== undefined && oldest.number > 0 && published.length < minKnownBlocks; oldest = published[0]) {
      const parent = await this.#options.fetchBlock(oldest.parentHash)
      if (parent === undefined || published !== this.#published || published[0] !== oldest) return
      published.unshift(parent)
    }
  }

  #has(number: number, hash: string): boolean {
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
