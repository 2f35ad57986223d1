/** The number of a block together with its hash: no other block has both. */
export interface BlockId {
  readonly number: number
  readonly hash: string
}

/** A block and its place on the chain. */
export interface LinkedBlock extends BlockId {
  readonly parentHash: string
}

/** The parent of the first block of a chain. */
const noParentHash = `0x${'0'.repeat(64)}`

/** Blocks that a process remembers: on most networks enough to reach back to the finalized block. */
export const maxRecentBlocks = 512

/** A change of RecentBlocks: the blocks above `keepThrough` go, or all blocks, and these hashes are appended. */
export interface RecentBlocksChange {
  readonly isReset: boolean
  readonly keepThrough: number
  readonly hashes: readonly string[]
}

/** One change that has the effect of both, the older first, on RecentBlocks of at most `maxBlocks`. */
export const mergeChanges = (older: RecentBlocksChange, newer: RecentBlocksChange, maxBlocks: number): RecentBlocksChange => {
  if (newer.isReset || (newer.keepThrough <= older.keepThrough && !older.isReset)) return newer
  const hashes = [...older.hashes.slice(0, Math.max(0, newer.keepThrough - older.keepThrough)), ...newer.hashes]
  const excessBlocks = hashes.length - maxBlocks
  if (excessBlocks < 0) return { ...older, hashes }
  return { isReset: true, keepThrough: older.keepThrough + excessBlocks, hashes: hashes.slice(excessBlocks) }
}

/** The newest blocks of the canonical chain, without a gap: each is the parent of the next. Older blocks are unknown. */
export class RecentBlocks {
  readonly #maxBlocks: number
  readonly #hashByNumber = new Map<number, string>()
  readonly #numberByHash = new Map<string, number>()
  #lowestNumber = 0
  #highestNumber = -1

  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks
  }

  /** The number of the newest block; -1 when there is none. */
  get highestNumber(): number {
    return this.#highestNumber
  }

  get lowestNumber(): number {
    return this.#lowestNumber
  }

  get isFull(): boolean {
    return this.#hashByNumber.size >= this.#maxBlocks
  }

  hashAt(number: number): string | undefined {
    return this.#hashByNumber.get(number)
  }

  has({ number, hash }: BlockId): boolean {
    return this.#hashByNumber.get(number) === hash
  }

  hasHash(hash: string): boolean {
    return this.#numberByHash.has(hash)
  }

  hasParentOf({ number, parentHash }: LinkedBlock): boolean {
    return this.#hashByNumber.get(number - 1) === parentHash
  }

  /** Is the block with this hash an ancestor of the finalized block, or that block, and at most as high as `maxNumber`? */
  isFinal(hash: string, finalized: BlockId, maxNumber: number): boolean {
    const number = this.#numberByHash.get(hash)
    return number !== undefined && number <= maxNumber && this.has(finalized)
  }

  /** The change that makes these blocks out of the others; undefined when both are the same. */
  changeFrom(other: RecentBlocks): RecentBlocksChange | undefined {
    let keepThrough = this.#highestNumber
    while (keepThrough >= this.#lowestNumber && other.hashAt(keepThrough) !== this.#hashByNumber.get(keepThrough)) keepThrough -= 1
    const isReset = keepThrough < this.#lowestNumber
    if (keepThrough === this.#highestNumber && other.highestNumber === keepThrough) return undefined
    const hashes: string[] = []
    for (let number = keepThrough + 1; number <= this.#highestNumber; number++) hashes.push(this.#hashByNumber.get(number) ?? '')
    return { isReset, keepThrough, hashes }
  }

  apply({ isReset, keepThrough, hashes }: RecentBlocksChange): void {
    const blocks = hashes.map((hash, i) => ({ number: keepThrough + 1 + i, hash }))
    if (isReset) return this.reset(blocks)
    this.truncateTo(keepThrough)
    this.append(blocks)
  }

  /** Removes the blocks above this number, and returns them, the newest first. */
  truncateTo(number: number): readonly LinkedBlock[] {
    const removed: LinkedBlock[] = []
    while (this.#highestNumber > number && this.#hashByNumber.size > 0) {
      const highest = this.#highestNumber--
      const [hash, parentHash] = [this.#hashByNumber.get(highest) ?? '', this.#hashByNumber.get(highest - 1) ?? noParentHash]
      removed.push({ number: highest, hash, parentHash })
      this.#remove(highest)
    }
    if (this.#hashByNumber.size === 0) this.#highestNumber = -1
    return removed
  }

  /** Adds the parent of this block. False when it is not the oldest one, or there are too many. */
  prependParentOf({ number, hash, parentHash }: LinkedBlock): boolean {
    if (this.isFull || number !== this.#lowestNumber || hash !== this.hashAt(number)) return false
    this.#lowestNumber = number - 1
    this.#hashByNumber.set(number - 1, parentHash)
    this.#numberByHash.set(parentHash, number - 1)
    return true
  }

  /** Replaces all blocks by these, each the parent of the next. */
  reset(blocks: readonly BlockId[]): void {
    this.#hashByNumber.clear()
    this.#numberByHash.clear()
    this.#lowestNumber = blocks[0]?.number ?? 0
    this.#highestNumber = -1
    this.append(blocks)
  }

  /** Appends blocks, each the parent of the next; the first is a child of the newest block. The oldest are dropped. */
  append(blocks: readonly BlockId[]): void {
    for (const { number, hash } of blocks) {
      this.#hashByNumber.set(number, hash)
      this.#numberByHash.set(hash, number)
      this.#highestNumber = number
    }
    while (this.#hashByNumber.size > this.#maxBlocks) this.#remove(this.#lowestNumber++)
  }

  #remove(number: number): void {
    this.#numberByHash.delete(this.#hashByNumber.get(number) ?? '')
    this.#hashByNumber.delete(number)
  }
}
