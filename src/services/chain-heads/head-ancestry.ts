import type { BlockHeader } from './block-header.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'
import { RecentBlocks } from './recent-blocks.ts'

/** Blocks that are remembered: on most networks enough to reach back to the finalized one. */
export const maxRecentBlocks = 512

/** Most ancestors that are fetched to find where a new head leaves the line. */
const maxFetchedAncestors = 64

/** What following a new head came to. `lost`: where it leaves the blocks known before was not found. */
export type ChainUpdate = { readonly kind: 'grown' | 'lost' } | { readonly kind: 'fork'; readonly depth: number }

/** The line of blocks that ends in the head, and what of it is final. */
export class HeadAncestry {
  readonly recentBlocks = new RecentBlocks(maxRecentBlocks)

  /** Makes the block the tip of the line; asks the node that told of it for ancestors that are missing. */
  async advanceTo(block: BlockHeader, upstream: UpstreamTracker): Promise<ChainUpdate> {
    const recentBlocks = this.recentBlocks
    if (recentBlocks.has(block)) return this.#replaceAbove(block.number, [])
    if (recentBlocks.highestNumber < 0 || block.number > recentBlocks.highestNumber + maxFetchedAncestors) return this.#restart([block])
    const newBlocks = await this.#fetchAncestors(block, upstream)
    const oldest = newBlocks[0] ?? block
    return recentBlocks.hasParentOf(oldest) ? this.#replaceAbove(oldest.number - 1, newBlocks) : this.#restart(newBlocks)
  }

  /** Does the line prove that the older of two blocks is an ancestor of the newer, or the same? */
  isAncestor(older: BlockHeader, newer: BlockHeader): boolean {
    return older.number <= newer.number && this.recentBlocks.has(older) && this.recentBlocks.has(newer)
  }

  reset(): void {
    this.recentBlocks.reset([])
  }

  /** The block and its ancestors down to a child of the line, oldest first; fewer when the node does not tell. */
  async #fetchAncestors(block: BlockHeader, upstream: UpstreamTracker): Promise<readonly BlockHeader[]> {
    const recentBlocks = this.recentBlocks
    const newBlocks = [block]
    let oldest = block
    while (newBlocks.length < maxFetchedAncestors && oldest.number > recentBlocks.lowestNumber && !recentBlocks.hasParentOf(oldest)) {
      const parent = await upstream.fetchBlock(oldest.parentHash)
      if (parent === undefined || parent.number !== oldest.number - 1) break
      newBlocks.unshift(parent)
      oldest = parent
    }
    return newBlocks
  }

  #replaceAbove(forkNumber: number, newBlocks: readonly BlockHeader[]): ChainUpdate {
    const depth = this.recentBlocks.highestNumber - forkNumber
    this.recentBlocks.truncateTo(forkNumber)
    this.recentBlocks.append(newBlocks)
    return depth > 0 ? { kind: 'fork', depth } : { kind: 'grown' }
  }

  #restart(blocks: readonly BlockHeader[]): ChainUpdate {
    const isFirst = this.recentBlocks.highestNumber < 0
    this.recentBlocks.reset(blocks)
    return { kind: isFirst ? 'grown' : 'lost' }
  }
}
