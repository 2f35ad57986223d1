import { randomBytes } from 'node:crypto'
import type { Json } from '../../src/plugin/plugin.ts'
import type { LogFilter } from './log-filter.ts'

/** What a filter is about: new blocks, or logs. */
export type FilterTopic =
  | { readonly kind: 'newHeads'; readonly filter?: never }
  /** `request` is the filter object, as eth_getLogs takes it. */
  | { readonly kind: 'logs'; readonly filter: LogFilter; readonly request: Json }

/** Changes that a filter holds until they are polled: as many results as a query may have. */
const maxChanges = 10_000
const maxChars = 8 << 20

/** One filter of an account: the changes since it was last polled. */
export class Filter {
  readonly id: string
  readonly topic: FilterTopic
  readonly account: string
  /** In monotonic ms. */
  usedAt: number
  #changes: string[] = []
  #chars = 0

  /** Its id begins with the name of the process that keeps it. */
  constructor(peer: string, topic: FilterTopic, account: string, usedAt: number) {
    this.id = `0x${peer}${randomBytes(8).toString('hex')}`
    this.topic = topic
    this.account = account
    this.usedAt = usedAt
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
    if (this.isOverfull) return
    for (const change of changes) {
      this.#changes.push(change)
      this.#chars += change.length
    }
  }

  /** The changes since the last time, as the text of a JSON array. */
  take(): { readonly text: string; readonly count: number } {
    const changes = this.#changes
    this.#changes = []
    this.#chars = 0
    return { text: `[${changes.join(',')}]`, count: changes.length }
  }
}

/** The name of the process that keeps the filter with this id; undefined for an id that no filter has. */
export const ownerOf = (id: string): string | undefined => (/^0x[0-9a-f]{32}$/.test(id) ? id.slice(2, 18) : undefined)
