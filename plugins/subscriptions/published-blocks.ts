import type { BlockId } from '../../src/plugin/plugin.ts'

const maxBlocks = 64

/** The newest blocks that were published, so that the newest is known after a reorg too. */
export class PublishedBlocks {
  readonly #blocks: BlockId[] = []

  /** Undefined before the first, and when more blocks were removed than are known. */
  get tip(): BlockId | undefined {
    return this.#blocks.at(-1)
  }

  add({ number, hash }: BlockId): void {
    this.#blocks.push({ number, hash })
    if (this.#blocks.length > maxBlocks) this.#blocks.shift()
  }

  remove({ hash }: BlockId): void {
    if (this.tip?.hash === hash) this.#blocks.pop()
    else this.clear()
  }

  clear(): void {
    this.#blocks.length = 0
  }
}
