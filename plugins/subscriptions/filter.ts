import { randomBytes } from 'node:crypto'
import type { BlockId, ChainUpdate, Json, LinkedBlock } from '../../src/plugin/plugin.ts'
import type { LogFilter } from './log-filter.ts'

/** What a filter is about: new blocks, pending transactions, or logs. */
export type FilterTopic =
  | { readonly kind: 'newHeads' | 'newPendingTransactions' | 'fullPendingTransactions'; readonly filter?: never }
  /** `request` is the filter object, as eth_getLogs takes it. */
  | { readonly kind: 'logs'; readonly filter: LogFilter; readonly request: Json }

/** Changes that a filter holds until they are polled: as many results as a query may have. */
const maxChanges = 10_000
const maxChars = 8 << 20

interface FilterOptions {
  /** See newFilterId(). */
  readonly id: string
  readonly topic: FilterTopic
  readonly account: string
  /** In monotonic ms. */
  readonly usedAt: number
  /** The newest block before the filter. Without it, the filter is not stored. */
  readonly base?: BlockId | undefined
  /** Another process has kept the filter, which begins with resume(). */
  readonly resumed?: { readonly firstBlock: number; readonly position: BlockId; readonly writtenAt: number } | undefined
  /** The filter holds so many characters more, or fewer, than before. */
  onResize(filter: Filter, change: number): void
}

/** What has come while no process kept a filter. */
export interface ResumedChanges {
  readonly changes: readonly string[]
  /** The changes are those up to this block. */
  readonly position: BlockId
  /** See Filter. A reorg may have gone below it. */
  readonly firstBlock: number
}

/** The changes of one poll, until they are delivered. */
interface TakenChanges {
  readonly changes: readonly string[]
  readonly chars: number
  /** The filter's own, once the changes and all that were taken before are delivered. */
  readonly position: BlockId | undefined
  readonly firstBlock: number
  isDelivered: boolean
}

/** One filter of an account: the changes since it was last polled. */
export class Filter {
  readonly id: string
  readonly topic: FilterTopic
  readonly account: string
  /** Of the position: blocks up to this one were before the filter. */
  firstBlock: number
  /** When the record was written from which this process goes on with the filter. */
  readonly resumedFrom: number | undefined
  /** In monotonic ms. */
  usedAt: number
  /** Changes up to this block have been delivered. */
  position: BlockId | undefined
  /** The next `firstBlock`: a reorg may have gone below it, and has not been delivered. */
  #nextFirstBlock: number
  /** Changes up to this block were delivered at resume(). */
  #resumedAt: BlockId | undefined
  /** What comes until resume(). */
  #waiting:
    | { readonly updates: ChainUpdate[]; readonly changes: { readonly texts: readonly string[]; readonly block: BlockId }[] }
    | undefined
  /** The feed has brought a block that is news to the filter. */
  #isFollowing = false
  readonly #onResize: FilterOptions['onResize']
  #changes: string[] = []
  /** Of all changes, those that are taken included. */
  #chars = 0
  /** By polls that are being answered, in their order. */
  readonly #taken: TakenChanges[] = []

  constructor({ id, topic, account, usedAt, base, resumed, onResize }: FilterOptions) {
    this.id = id
    this.topic = topic
    this.account = account
    this.usedAt = usedAt
    this.resumedFrom = resumed?.writtenAt
    this.firstBlock = this.#nextFirstBlock = resumed?.firstBlock ?? base?.number ?? 0
    this.position = resumed?.position ?? base
    this.#waiting = resumed && { updates: [], changes: [] }
    this.#onResize = onResize
  }

  /**
   * Of a filter that another process has kept: these changes have come up to the position, and those that the feed has brought meanwhile
   * follow. False when they do not follow.
   */
  resume({ changes, position, firstBlock }: ResumedChanges): boolean {
    const waiting = this.#waiting
    this.#waiting = undefined
    this.#resumedAt = this.position = position
    this.firstBlock = this.#nextFirstBlock = firstBlock
    this.append(changes)
    if (waiting?.updates.every(update => this.follow(update)) === false) return false
    for (const { texts, block } of waiting?.changes ?? []) this.append(texts, block)
    return true
  }

  /** Until resume(). */
  get isResuming(): boolean {
    return this.#waiting !== undefined
  }

  /** The feed brings this update. False when what was delivered at resume() is not part of the feed: the filter would leave out changes. */
  follow(update: ChainUpdate): boolean {
    if (this.#waiting !== undefined) return this.#waiting.updates.push(update) > 0
    const { removed, added } = update
    const [resumedAt, [first]] = [this.#resumedAt, added]
    if (first !== undefined && this.#isBeforeFilter(first)) this.#nextFirstBlock = first.number - 1
    if (resumedAt !== undefined) {
      if (removed.some(block => !this.#isNew(block)) || added.some(block => isOnAnotherBranch(block, resumedAt))) return false
      if (!this.#isFollowing && first !== undefined && first.number > resumedAt.number + 1) return false
    }
    this.#isFollowing ||= added.some(block => this.#isNew(block))
    return true
  }

  /** The filter gets the changes of this block, though it is not above the block at which the filter began. */
  #isBeforeFilter(block: BlockId): boolean {
    if (this.position === undefined && !this.#isFollowing) return true
    return block.number <= this.#nextFirstBlock && this.#isNew(block)
  }

  #isNew({ number }: BlockId): boolean {
    return this.#resumedAt === undefined || number > this.#resumedAt.number
  }

  /** Characters of the changes. */
  get size(): number {
    return this.#chars
  }

  get isOverfull(): boolean {
    return this.#changes.length > maxChanges || this.#chars > maxChars
  }

  /** JSON texts with one character per byte (latin1), of a block if they are of one. */
  append(changes: readonly string[], block?: BlockId): void {
    if (block !== undefined && this.#waiting !== undefined) return void this.#waiting.changes.push({ texts: changes, block })
    if (block !== undefined && !this.#isNew(block)) return
    const charsBefore = this.#chars
    for (const change of changes) {
      this.#changes.push(change)
      this.#chars += change.length
    }
    this.#onResize(this, this.#chars - charsBefore)
  }

  /**
   * The changes since the last time, as the text of a JSON array. `tip` is the newest block that was published to the filter. They are
   * the filter's until `settle` says that they were delivered. If they were not, they come again with the next poll, before what has come since.
   * `settle` returns false when the filter cannot go on: a later poll has been answered, or too much has come since.
   */
  take(tip: BlockId | undefined): { readonly text: string; readonly count: number; settle(isDelivered: boolean): boolean } {
    const changes = this.#changes
    this.#changes = []
    const chars = changes.reduce((sum, { length }) => sum + length, 0)
    // What the feed has announced, and not published yet, may be below what was delivered at resume().
    const isAtTip = this.#isFollowing && tip !== undefined
    const { position = this.position, firstBlock = this.firstBlock } = this.#taken.at(-1) ?? {}
    const taken = {
      changes,
      chars,
      position: isAtTip ? (this.#isNew(tip) ? tip : this.#resumedAt) : position,
      firstBlock: isAtTip ? this.#nextFirstBlock : firstBlock,
      isDelivered: false,
    }
    this.#taken.push(taken)
    const settle = (isDelivered: boolean) => (isDelivered ? this.#recordDelivery(taken) : this.#putBack(taken))
    return { text: `[${changes.join(',')}]`, count: changes.length, settle }
  }

  #recordDelivery(taken: TakenChanges): true {
    taken.isDelivered = true
    for (let first = this.#taken[0]; first?.isDelivered === true; first = this.#taken[0]) {
      this.position = first.position
      this.firstBlock = first.firstBlock
      this.#taken.shift()
    }
    this.#chars -= taken.chars
    this.#onResize(this, -taken.chars)
    return true
  }

  #putBack(taken: TakenChanges): boolean {
    if (this.#taken.at(-1) !== taken) return false
    this.#taken.pop()
    this.#changes = [...taken.changes, ...this.#changes]
    return !this.isOverfull
  }
}

/** Its block at the height of the other is another. The feed may not reach up to that height when the other has been fetched. */
const isOnAnotherBranch = ({ number, hash, parentHash }: LinkedBlock, other: BlockId): boolean =>
  (number === other.number && hash !== other.hash) || (number === other.number + 1 && parentHash !== other.hash)

/** It begins with the name of the process that keeps the filter. */
export const newFilterId = (peer: string): string => `0x${peer}${randomBytes(8).toString('hex')}`

/** The name of the process that keeps the filter with this id; undefined for an id that no filter has. */
export const ownerOfFilter = (id: string): string | undefined => (/^0x[0-9a-f]{32}$/.test(id) ? id.slice(2, 18) : undefined)
