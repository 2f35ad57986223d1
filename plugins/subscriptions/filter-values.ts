import type { LogFilter } from './log-filter.ts'

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
