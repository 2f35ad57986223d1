import { LRUCache } from 'lru-cache'
import type { BlockHeader } from './upstream-requests.ts'

/** An upstream that returns blocks by their hash. */
export interface BlockSource {
  fetchBlock(hash: string): Promise<BlockHeader | undefined>
}

/** Headers of 2 KB each. */
const maxHeaders = 512

/** Blocks by hash, so that each is requested once, whoever needs it. */
export class HeaderCache {
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
