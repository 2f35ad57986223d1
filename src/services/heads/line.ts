import type { Block } from './block.ts'

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

  numberOf(hash: string): number | undefined {
    return this.#numbers.get(hash)
  }

  has({ number, hash }: { readonly number: number, readonly hash: string }): boolean {
    return this.#hashes.get(number) === hash
  }

  /** Does the block's parent stand in the line? */
  holdsParentOf({ number, parentHash }: Block): boolean {
    return this.#hashes.get(number - 1) === parentHash
  }

  /** Forgets everything above the block with this number. */
  cut(number: number): void {
    while (this.#tip > number && this.#hashes.size > 0) this.#forget(this.#tip--)
    if (this.#hashes.size === 0) this.#tip = -1
  }

  /** Begins anew with these blocks, each the parent of the next. */
  restart(blocks: readonly Block[]): void {
    this.#hashes.clear()
    this.#numbers.clear()
    this.#lowest = blocks[0]?.number ?? 0
    this.#tip = -1
    this.extend(blocks)
  }

  /** Adds blocks at the tip, each the parent of the next, the first a child of the tip. */
  extend(blocks: readonly Block[]): void {
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
