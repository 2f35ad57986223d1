import type { Block } from './block.ts'
import type { Followed } from './followed.ts'
import { Line } from './line.ts'

/** Blocks that are remembered: on most networks enough to reach back to the finalized one. */
export const remembered = 512

/** Most ancestors that are fetched to find where a new head leaves the line. */
const reach = 64

/** What following a new head came to. `lost`: where it leaves the blocks known before was not found. */
export type Step = { readonly kind: 'grown' | 'lost' } | { readonly kind: 'fork'; readonly depth: number }

/** The line of blocks that ends in the head, and what of it is final. */
export class Ancestry {
  readonly line = new Line(remembered)

  /** Makes the block the tip of the line; asks the node that told of it for ancestors that are missing. */
  async follow(block: Block, node: Followed): Promise<Step> {
    const line = this.line
    if (line.has(block)) return this.#cutTo(block.number, [])
    if (line.tip < 0 || block.number > line.tip + reach) return this.#restart([block])
    const fresh = await this.#fetchAncestors(block, node)
    const oldest = fresh[0] ?? block
    return line.holdsParentOf(oldest) ? this.#cutTo(oldest.number - 1, fresh) : this.#restart(fresh)
  }

  /** Does the line prove that the older of two blocks is an ancestor of the newer, or the same? */
  links(older: Block, newer: Block): boolean {
    return older.number <= newer.number && this.line.has(older) && this.line.has(newer)
  }

  forget(): void {
    this.line.restart([])
  }

  /** The block and its ancestors down to a child of the line, oldest first; fewer when the node does not tell. */
  async #fetchAncestors(block: Block, node: Followed): Promise<readonly Block[]> {
    const line = this.line
    const fresh = [block]
    let oldest = block
    while (fresh.length < reach && oldest.number > line.lowest && !line.holdsParentOf(oldest)) {
      const parent = await node.fetch(oldest.parentHash)
      if (parent === undefined || parent.number !== oldest.number - 1) break
      fresh.unshift(parent)
      oldest = parent
    }
    return fresh
  }

  #cutTo(fork: number, fresh: readonly Block[]): Step {
    const depth = this.line.tip - fork
    this.line.cut(fork)
    this.line.extend(fresh)
    return depth > 0 ? { kind: 'fork', depth } : { kind: 'grown' }
  }

  #restart(blocks: readonly Block[]): Step {
    const isFirst = this.line.tip < 0
    this.line.restart(blocks)
    return { kind: isFirst ? 'grown' : 'lost' }
  }
}
