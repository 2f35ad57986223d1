import type { BlockHeader } from './block-header.ts'

/** What becomes of a line: what stands above the block `after` goes, or all of it, and these hashes come. */
export interface RecentBlocksChange {
  readonly isReset: boolean
  readonly keepThrough: number
  readonly hashes: readonly string[]
}

/** The change that does to a line of at most `most` blocks what the two do, the older first. */
export const mergeChanges = (older: RecentBlocksChange, newer: RecentBlocksChange, maxBlocks: number): RecentBlocksChange => {
  if (newer.isReset || (newer.keepThrough <= older.keepThrough && !older.isReset)) return newer
  const hashes = [...older.hashes.slice(0, Math.max(0, newer.keepThrough - older.keepThrough)), ...newer.hashes]
  const excess = hashes.length - maxBlocks
  return excess < 0 ? { ...older, hashes } : { isReset: true, keepThrough: older.keepThrough + excess, hashes: hashes.slice(excess) }
}

type RecentBlock = Pick<BlockHeader, 'number' | 'hash'>

/** The newest blocks as one line of parents: each is the parent of the next. What came before is not known. */
export class RecentBlocks {
  readonly #maxBlocks: number
  readonly #hashByNumber = new Map<number, string>()
  readonly #numberByHash = new Map<string, number>()
  #lowestNumber = 0
  #highestNumber = -1

  /** `most` blocks are remembered. */
  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks
  }

  /** The number of the newest block; -1 while none is known. */
  get highestNumber(): number {
    return this.#highestNumber
  }

  get lowestNumber(): number {
    return this.#lowestNumber
  }

  hashAt(number: number): string | undefined {
    return this.#hashByNumber.get(number)
  }

  has({ number, hash }: RecentBlock): boolean {
    return this.#hashByNumber.get(number) === hash
  }

  /** Does the block's parent stand in the line? */
  hasParentOf({ number, parentHash }: BlockHeader): boolean {
    return this.#hashByNumber.get(number - 1) === parentHash
  }

  /** Is the block with this hash an ancestor of the final one, or that itself? */
  isFinal(hash: string, finalized: RecentBlock): boolean {
    const number = this.#numberByHash.get(hash)
    return number !== undefined && number <= finalized.number && this.has(finalized)
  }

  /** What makes this line of the other one, which changes with it; undefined when they are the same. */
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

  /** Forgets everything above the block with this number. */
  truncateTo(number: number): void {
    while (this.#highestNumber > number && this.#hashByNumber.size > 0) this.#remove(this.#highestNumber--)
    if (this.#hashByNumber.size === 0) this.#highestNumber = -1
  }

  /** Begins anew with these blocks, each the parent of the next. */
  reset(blocks: readonly RecentBlock[]): void {
    this.#hashByNumber.clear()
    this.#numberByHash.clear()
    this.#lowestNumber = blocks[0]?.number ?? 0
    this.#highestNumber = -1
    this.append(blocks)
  }

  /** Adds blocks at the tip, each the parent of the next, the first a child of the tip. */
  append(blocks: readonly RecentBlock[]): void {
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
