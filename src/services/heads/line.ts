import type { Block } from './block.ts'

/** What becomes of a line: what stands above the block `after` goes, or all of it, and these hashes come. */
export interface LineChange {
  readonly isNew: boolean
  readonly after: number
  readonly hashes: readonly string[]
}

/** The change that does to a line of at most `most` blocks what the two do, the older first. */
export const joinChanges = (older: LineChange, newer: LineChange, most: number): LineChange => {
  if (newer.isNew || (newer.after <= older.after && !older.isNew)) return newer
  const hashes = [...older.hashes.slice(0, Math.max(0, newer.after - older.after)), ...newer.hashes]
  const spare = hashes.length - most
  return spare < 0 ? { ...older, hashes } : { isNew: true, after: older.after + spare, hashes: hashes.slice(spare) }
}

type Link = Pick<Block, 'number' | 'hash'>

/** The newest blocks as one line of parents: each is the parent of the next. What came before is not known. */
export class Line {
  readonly #most: number
  readonly #hashes = new Map<number, string>()
  readonly #numbers = new Map<string, number>()
  #lowest = 0
  #tip = -1

  /** `most` blocks are remembered. */
  constructor(most: number) {
    this.#most = most
  }

  /** The number of the newest block; -1 while none is known. */
  get tip(): number {
    return this.#tip
  }

  get lowest(): number {
    return this.#lowest
  }

  hashAt(number: number): string | undefined {
    return this.#hashes.get(number)
  }

  has({ number, hash }: Link): boolean {
    return this.#hashes.get(number) === hash
  }

  /** Does the block's parent stand in the line? */
  holdsParentOf({ number, parentHash }: Block): boolean {
    return this.#hashes.get(number - 1) === parentHash
  }

  /** Is the block with this hash an ancestor of the final one, or that itself? */
  isFinal(hash: string, final: Link): boolean {
    const number = this.#numbers.get(hash)
    return number !== undefined && number <= final.number && this.has(final)
  }

  /** What makes this line of the other one, which changes with it; undefined when they are the same. */
  updateOf(other: Line): LineChange | undefined {
    let after = this.#tip
    while (after >= this.#lowest && other.hashAt(after) !== this.#hashes.get(after)) after -= 1
    const isNew = after < this.#lowest
    if (after === this.#tip && other.tip === after) return undefined
    const hashes: string[] = []
    for (let number = after + 1; number <= this.#tip; number++) hashes.push(this.#hashes.get(number) ?? '')
    return { isNew, after, hashes }
  }

  change({ isNew, after, hashes }: LineChange): void {
    const links = hashes.map((hash, i) => ({ number: after + 1 + i, hash }))
    if (isNew) return this.restart(links)
    this.cut(after)
    this.extend(links)
  }

  /** Forgets everything above the block with this number. */
  cut(number: number): void {
    while (this.#tip > number && this.#hashes.size > 0) this.#forget(this.#tip--)
    if (this.#hashes.size === 0) this.#tip = -1
  }

  /** Begins anew with these blocks, each the parent of the next. */
  restart(blocks: readonly Link[]): void {
    this.#hashes.clear()
    this.#numbers.clear()
    this.#lowest = blocks[0]?.number ?? 0
    this.#tip = -1
    this.extend(blocks)
  }

  /** Adds blocks at the tip, each the parent of the next, the first a child of the tip. */
  extend(blocks: readonly Link[]): void {
    for (const { number, hash } of blocks) {
      this.#hashes.set(number, hash)
      this.#numbers.set(hash, number)
      this.#tip = number
    }
    while (this.#hashes.size > this.#most) this.#forget(this.#lowest++)
  }

  #forget(number: number): void {
    this.#numbers.delete(this.#hashes.get(number) ?? '')
    this.#hashes.delete(number)
  }
}
