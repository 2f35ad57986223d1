import type { BlockId, LinkedBlock } from '../../src/plugin/plugin.ts'

/** The newest block that was published, also after a reorg. */
export class PublishedTip {
  #block: BlockId | undefined

  /** Undefined before the first, and when all blocks are removed. */
  get block(): BlockId | undefined {
    return this.#block
  }

  add({ number, hash }: BlockId): void {
    this.#block = { number, hash }
  }

  /** The block may be from before the first that was published. */
  remove({ number, parentHash }: LinkedBlock): void {
    this.#block = number > 0 ? { number: number - 1, hash: parentHash } : undefined
  }

  clear(): void {
    this.#block = undefined
  }
}
