import { ascii } from './grammar.ts'

/** Most members of an item, unless ScanLimits.maxMembers is given. */
export const defaultMaxMembers = 32

/** The top-level value, or one element of a top-level array. Offsets are bytes of the whole text, ends excluded. */
export interface IndexedItem {
  readonly start: number
  readonly end: number
  /** In order, duplicates too; undefined when the item is not an object. */
  readonly members: readonly IndexedMember[] | undefined
}

export interface IndexedMember {
  /** The name without its quotes; its escapes are not resolved. */
  readonly nameStart: number
  readonly nameEnd: number
  readonly start: number
  readonly end: number
  /** How many values are directly in this one, if it is an array or an object. */
  readonly childCount: number
}

/** Where the members of a top-level object are, or those of each object in a top-level array. */
export class TopLevelIndex {
  /** The top-level value is an array, and the items are its elements. */
  isArray = false
  /** The depth of the members of items: 1, or 2 in a top-level array. */
  memberDepth = 1
  readonly #items: OpenItem[] = []
  /** The items found so far. */
  readonly items: readonly IndexedItem[] = this.#items
  readonly #maxItems: number
  readonly #maxMembers: number
  #nameStart = 0
  #nameEnd = 0
  #valueStart = 0
  #childCount = 0

  constructor(maxItems: number, maxMembers: number) {
    this.#maxItems = maxItems
    this.#maxMembers = maxMembers
  }

  /** The member whose value has begun and not ended, of the last item; its `end` is 0. */
  get openMember(): IndexedMember | undefined {
    const last = this.#items.at(-1)?.members?.at(-1)
    const isOpen = this.#valueStart > this.#nameEnd && this.#nameEnd > 0 && (last === undefined || last.start < this.#valueStart)
    return isOpen
      ? { nameStart: this.#nameStart, nameEnd: this.#nameEnd, start: this.#valueStart, end: 0, childCount: this.#childCount }
      : undefined
  }

  /** A value begins in `depth` arrays and objects; values deeper than `memberDepth + 1` need not be reported. */
  startValue(byte: number, depth: number, offset: number): 'elements' | undefined {
    if (depth === 0 && byte === ascii.openArray) {
      this.isArray = true
      this.memberDepth = 2
    } else if (depth === this.memberDepth - 1) {
      if (this.#items.length === this.#maxItems) return 'elements'
      this.#items.push({ start: offset, end: 0, members: byte === ascii.openObject ? [] : undefined })
    } else if (depth === this.memberDepth) {
      this.#valueStart = offset
      this.#childCount = 0
    } else this.#childCount++
    return undefined
  }

  /** So many values began at `memberDepth + 1`. */
  addChildren(count: number): void {
    this.#childCount += count
  }

  /** A name at `memberDepth`. */
  setName(start: number, end: number): void {
    this.#nameStart = start
    this.#nameEnd = end
  }

  /** A value ended in `depth` arrays and objects; values deeper than `memberDepth` need not be reported. */
  end(depth: number, offset: number): 'members' | undefined {
    const item = this.#items[this.#items.length - 1]
    if (item === undefined || depth < this.memberDepth - 1) return undefined
    if (depth < this.memberDepth) item.end = offset
    else if (item.members?.length === this.#maxMembers) return 'members'
    else
      item.members?.push({
        nameStart: this.#nameStart,
        nameEnd: this.#nameEnd,
        start: this.#valueStart,
        end: offset,
        childCount: this.#childCount,
      })
    return undefined
  }
}

/** An item whose end is not known yet. */
interface OpenItem {
  start: number
  end: number
  readonly members: IndexedMember[] | undefined
}
