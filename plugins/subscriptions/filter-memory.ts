import { getOrCreate } from '../../src/plugin/plugin.ts'
import type { Filter } from './filter.ts'
import type { LogFilter } from './log-filter.ts'

/** Characters of the changes of all filters of one account, and of all accounts, of one network in this process. */
const maxAccountChars = 32 << 20
const maxTotalChars = 64 << 20

interface AccountFilters {
  /** In the order of their use. */
  readonly filters: Set<Filter>
  chars: number
}

/**
 * Bounds the memory of filters. An account that holds too much loses the filter that it used longest ago. When all accounts together
 * hold too much, the account that holds the most loses one: an account with less than an equal share loses nothing to others.
 */
export class FilterMemory {
  readonly #accounts = new Map<string, AccountFilters>()
  readonly #onEvicted: (filter: Filter) => void
  #totalChars = 0

  /** `onEvicted` calls delete(). */
  constructor(onEvicted: (filter: Filter) => void) {
    this.#onEvicted = onEvicted
  }

  countOf(account: string): number {
    return this.#accounts.get(account)?.filters.size ?? 0
  }

  add(filter: Filter): void {
    getOrCreate(this.#accounts, filter.account, newAccountFilters).filters.add(filter)
  }

  /** The filter is the last of its account that was used. */
  recordUse(filter: Filter): void {
    const filters = this.#accounts.get(filter.account)?.filters
    if (filters?.delete(filter) === true) filters.add(filter)
  }

  delete(filter: Filter): void {
    const account = this.#accounts.get(filter.account)
    if (account?.filters.delete(filter) !== true) return
    account.chars -= filter.size
    this.#totalChars -= filter.size
    if (account.filters.size === 0) this.#accounts.delete(filter.account)
  }

  /** What the filter holds has changed by so many characters. */
  resize(filter: Filter, change: number): void {
    const account = this.#accounts.get(filter.account)
    if (account?.filters.has(filter) !== true) return
    account.chars += change
    this.#totalChars += change
    if (filter.isOverfull) this.#onEvicted(filter)
    while (account.chars > maxAccountChars) this.#evictFrom(account)
    while (this.#totalChars > maxTotalChars) this.#evictFrom(this.#largestAccount())
  }

  #evictFrom({ filters }: AccountFilters): void {
    for (const filter of filters) if (filter.size > 0) return this.#onEvicted(filter)
  }

  #largestAccount(): AccountFilters {
    return [...this.#accounts.values()].reduce((largest, each) => (each.chars > largest.chars ? each : largest))
  }
}

const newAccountFilters = (): AccountFilters => ({ filters: new Set(), chars: 0 })

/** Each takes 0.2 KB: without a bound the subscriptions that an account may have would take 20 GB. */
export const maxValuesPerAccount = 100_000

/** How many addresses and topics the log filters of each account have: those of its subscriptions and of its filters, in this process. */
export class FilterValues {
  readonly #countByAccount = new Map<string, number>()

  fits(account: string, filter: LogFilter | undefined): boolean {
    return this.#countOf(account) + valueCountOf(filter) <= maxValuesPerAccount
  }

  add(account: string, filter: LogFilter | undefined): void {
    this.#set(account, this.#countOf(account) + valueCountOf(filter))
  }

  remove(account: string, filter: LogFilter | undefined): void {
    this.#set(account, this.#countOf(account) - valueCountOf(filter))
  }

  #countOf(account: string): number {
    return this.#countByAccount.get(account) ?? 0
  }

  #set(account: string, count: number): void {
    if (count > 0) this.#countByAccount.set(account, count)
    else this.#countByAccount.delete(account)
  }
}

const valueCountOf = (filter: LogFilter | undefined): number => filter?.criteria.reduce((sum, { values }) => sum + values.size, 0) ?? 0
