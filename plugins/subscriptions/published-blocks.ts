import type { BlockId, LinkedBlock } from '../../src/plugin/internal.ts'

interface PublishedBlocksOptions<Block> {
  /** Most blocks that are kept, and most bytes that they take. */
  readonly maxBlocks: number
  readonly maxBytes: number
  bytesOf(block: Block): number
}

/** However long they are. */
const minBlocks = 8
/** Of blocks that were removed, and not published. */
const maxRemovedParents = 64

/** What leads from one block to the newest one. */
export interface BranchChange<Block> {
  /** The newest block at or below the first one that is still on the chain. */
  readonly base: BlockId
  /** The newest first. */
  readonly removed: readonly Block[]
  /** The oldest first. */
  readonly added: readonly Block[]
}

/** The newest blocks that a feed has published, and those that it has removed since. */
export class PublishedBlocks<Block extends LinkedBlock> {
  readonly #options: PublishedBlocksOptions<Block>
  readonly #blocks = new Map<string, Block>()
  #bytes = 0
  /** By hash of a block from before the first one that was published, which a reorg has removed since. Not every node knows such a block. */
  readonly #removedParents = new Map<string, BlockId>()
  #newestDropped = -1
  #tip: BlockId | undefined
  #start: BlockId | undefined

  constructor(options: PublishedBlocksOptions<Block>) {
    this.#options = options
  }

  /** The newest block of the upstreams, fetched since the feed has started. */
  startAt(block: BlockId): void {
    if (this.#tip === undefined) this.#start = block
  }

  add(block: Block): void {
    this.#delete(block.hash)
    this.#blocks.set(block.hash, block)
    this.#tip = block
    const { maxBlocks, maxBytes, bytesOf } = this.#options
    this.#bytes += bytesOf(block)
    for (const oldest of this.#blocks.values()) {
      if (this.#blocks.size <= minBlocks || (this.#blocks.size <= maxBlocks && this.#bytes <= maxBytes)) return
      this.#newestDropped = Math.max(this.#newestDropped, oldest.number)
      this.#delete(oldest.hash)
    }
  }

  /** `unknown`: the block was published, and is not kept any more. Undefined: it was never published. */
  remove(block: LinkedBlock): Block | 'unknown' | undefined {
    this.#tip = parentOf(block)
    const published = this.#blocks.get(block.hash)
    if (published !== undefined) return published
    if (block.number <= this.#newestDropped) return 'unknown'
    if (this.#removedParents.size < maxRemovedParents) this.#removedParents.set(block.hash, parentOf(block))
    return undefined
  }

  /** Undefined when the blocks that are kept do not lead from there to the newest one. Of removed blocks up to `firstBlock` nothing is needed but their parents. */
  since(position: BlockId, firstBlock = -1): BranchChange<Block> | undefined {
    let [base, newer] = [position, this.#tip ?? this.#start]
    const [removed, added]: [Block[], Block[]] = [[], []]
    while (newer !== undefined && newer.hash !== base.hash) {
      const isAdded: boolean = newer.number >= base.number
      const block: Block | undefined = this.#blocks.get(isAdded ? newer.hash : base.hash)
      if (block === undefined) {
        const parent = isAdded || base.number > firstBlock ? undefined : this.#removedParents.get(base.hash)
        if (parent === undefined) return undefined
        base = parent
        continue
      }
      if (isAdded) newer = parentOf(block)
      else base = parentOf(block)
      const changed = isAdded ? added : removed
      changed.push(block)
    }
    return newer && { base, removed, added: added.reverse() }
  }

  clear(): void {
    this.#blocks.clear()
    this.#removedParents.clear()
    this.#bytes = 0
    this.#newestDropped = -1
    this.#tip = this.#start = undefined
  }

  #delete(hash: string): void {
    const block = this.#blocks.get(hash)
    if (block === undefined) return
    this.#blocks.delete(hash)
    this.#bytes -= this.#options.bytesOf(block)
  }
}

const parentOf = ({ number, parentHash }: LinkedBlock): BlockId => ({ number: number - 1, hash: parentHash })
