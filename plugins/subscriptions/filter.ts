import { randomBytes } from 'node:crypto'
import type { Json } from '../../src/plugin/plugin.ts'
import type { LogFilter } from './log-filter.ts'

/** What a filter is about: new blocks, pending transactions, or logs. */
export type FilterTopic =
  | { readonly kind: 'newHeads' | 'newPendingTransactions' | 'fullPendingTransactions'; readonly filter?: never }
  /** `request` is the filter object, as eth_getLogs takes it. */
  | { readonly kind: 'logs'; readonly filter: LogFilter; readonly request: Json }

/** Changes that a filter holds until they are polled: as many results as a query may have. */
const maxChanges = 10_000
const maxChars = 8 << 20

export interface FilterOptions {
  /** The process that keeps the filter: the id begins with its name. */
  readonly peer: string
  readonly topic: FilterTopic
  readonly account: string
  /** In monotonic ms. */
  readonly usedAt: number
  /** The filter holds so many characters more, or fewer, than before. */
  onResize(filter: Filter, change: number): void
}

/** One filter of an account: the changes since it was last polled. */
export class Filter {
  readonly id: string
  readonly topic: FilterTopic
  readonly account: string
  /** In monotonic ms. */
  usedAt: number
  readonly #onResize: FilterOptions['onResize']
  #changes: string[] = []
  #chars = 0

  constructor({ peer, topic, account, usedAt, onResize }: FilterOptions) {
    this.id = `0x${peer}${randomBytes(8).toString('hex')}`
    this.topic = topic
    this.account = account
    this.usedAt = usedAt
    this.#onResize = onResize
  }

  /** Characters of the changes. */
  get size(): number {
    return this.#chars
  }

  get isOverfull(): boolean {
    return this.#changes.length > maxChanges || this.#chars > maxChars
  }

  /** JSON texts with one character per byte (latin1). */
  append(changes: readonly string[]): void {
    const charsBefore = this.#chars
    for (const change of changes) {
      this.#changes.push(change)
      this.#chars += change.length
    }
    this.#onResize(this, this.#chars - charsBefore)
  }

  /** The changes since the last time, as the text of a JSON array. */
  take(): { readonly text: string; readonly count: number } {
    const [changes, chars] = [this.#changes, this.#chars]
    this.#changes = []
    this.#chars = 0
    this.#onResize(this, -chars)
    return { text: `[${changes.join(',')}]`, count: changes.length }
  }
}

/** The name of the process that keeps the filter with this id; undefined for an id that no filter has. */
export const ownerOf = (id: string): string | undefined => (/^0x[0-9a-f]{32}$/.test(id) ? id.slice(2, 18) : undefined)
