import { ascii } from './grammar.ts'

/** The top-level value, or one element of a top-level array. Offsets are bytes of the whole text, ends excluded. */
export interface Item {
  readonly start: number
  readonly end: number
  /** In order, duplicates too; undefined when the item is not an object. */
  readonly members: readonly Member[] | undefined
}

export interface Member {
  /** The name without its quotes; escapes stand in it as they came. */
  readonly nameStart: number
  readonly nameEnd: number
  readonly start: number
  readonly end: number
  /** How many values stand directly in this one, if it is an array or an object. */
  readonly count: number
}

/** Most members of an item, unless more are allowed. */
export const maxMembers = 32

/** Where the parts of a JSON-RPC message stand: what requests and answers of nodes have in common, and no more. */
export class Outline {
  /** The top-level value is an array, and the items are its elements. */
  isArray = false
  /** The depth at which members of items stand: 1, or 2 in a top-level array. */
  level = 1
  readonly #items: Draft[] = []
  readonly #maxItems: number
  readonly #maxMembers: number
  #nameStart = 0
  #nameEnd = 0
  #start = 0
  #count = 0

  constructor(maxItems: number, members = maxMembers) {
    this.#maxItems = maxItems
    this.#maxMembers = members
  }

  /** What was found so far. */
  get items(): readonly Item[] {
    return this.#items
  }

  /** A value begins in `depth` arrays and objects; those deeper than `level + 1` need not be told. */
  begin(byte: number, depth: number, offset: number): 'elements' | undefined {
    if (depth === 0 && byte === ascii.openArray) {
      this.isArray = true
      this.level = 2
    } else if (depth === this.level - 1) {
      if (this.#items.length === this.#maxItems) return 'elements'
      this.#items.push({ start: offset, end: 0, members: byte === ascii.openObject ? [] : undefined })
    } else if (depth === this.level) {
      this.#start = offset
      this.#count = 0
    } else this.#count++
    return undefined
  }

  /** A name at `level`. */
  name(start: number, end: number): void {
    this.#nameStart = start
    this.#nameEnd = end
  }

  /** A value ended in `depth` arrays and objects; those deeper than `level` need not be told. */
  end(depth: number, offset: number): 'members' | undefined {
    const item = this.#items[this.#items.length - 1]
    if (item === undefined || depth < this.level - 1) return undefined
    if (depth < this.level) item.end = offset
    else if (item.members?.length === this.#maxMembers) return 'members'
    else
      item.members?.push({
        nameStart: this.#nameStart,
        nameEnd: this.#nameEnd,
        start: this.#start,
        end: offset,
        count: this.#count,
      })
    return undefined
  }
}

/** An item whose end is still to be found. */
interface Draft {
  start: number
  end: number
  readonly members: Member[] | undefined
}
