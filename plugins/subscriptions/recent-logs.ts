import type { BlockId } from '../../src/plugin/plugin.ts'
import type { BlockLogs } from './block-logs.ts'

/** Most blocks, and most characters of logs, that are kept to take them back after a reorg. */
const maxBlocks = 128
const maxChars = 32 << 20
/** However long their logs are. */
const minBlocks = 8

/** The logs of the newest blocks that were published, so that a reorg can take them back. */
export class RecentLogs {
  readonly #blocks = new Map<string, BlockLogs>()
  #chars = 0
  #newestDropped = -1

  add(block: BlockLogs): void {
    this.#blocks.set(block.hash, block)
    this.#chars += block.size
    for (const oldest of this.#blocks.values()) {
      if (this.#blocks.size <= minBlocks || (this.#blocks.size <= maxBlocks && this.#chars <= maxChars)) return
      this.#newestDropped = Math.max(this.#newestDropped, oldest.number)
      this.#delete(oldest)
    }
  }

  /** `unknown`: the block was published, and is not kept any more. Undefined: it was never published. */
  remove({ number, hash }: BlockId): BlockLogs | 'unknown' | undefined {
    const block = this.#blocks.get(hash)
    if (block !== undefined) this.#delete(block)
    return block ?? (number <= this.#newestDropped ? 'unknown' : undefined)
  }

  clear(): void {
    this.#blocks.clear()
    this.#chars = 0
    this.#newestDropped = -1
  }

  #delete(block: BlockLogs): void {
    this.#blocks.delete(block.hash)
    this.#chars -= block.size
  }
}
