import { metricDefinitions } from '../../src/plugin/internal.ts'
import type { Gauge, Services, Timer } from '../../src/plugin/plugin.ts'

/** A filter that is not used for so long ends. */
export const maxUnusedMs = 300_000
const sweepIntervalMs = 10_000

/** Each takes 0.2 KB: without a bound the subscriptions that an account may have would take 20 GB. */
export const maxValuesPerAccount = 100_000

interface CountedFilter {
  readonly valueCount: number
}

/** How many addresses, topics and hashes the filters of each account have: those of its subscriptions and of its filters, in this process. */
export class FilterValues {
  readonly #countByAccount = new Map<string, number>()

  fits(account: string, filter: CountedFilter | undefined): boolean {
    return this.#countOf(account) + (filter?.valueCount ?? 0) <= maxValuesPerAccount
  }

  add(account: string, filter: CountedFilter | undefined): void {
    this.#set(account, this.#countOf(account) + (filter?.valueCount ?? 0))
  }

  remove(account: string, filter: CountedFilter | undefined): void {
    this.#set(account, this.#countOf(account) - (filter?.valueCount ?? 0))
  }

  #countOf(account: string): number {
    return this.#countByAccount.get(account) ?? 0
  }

  #set(account: string, count: number): void {
    if (count > 0) this.#countByAccount.set(account, count)
    else this.#countByAccount.delete(account)
  }
}

interface UsedFilter {
  readonly account: string
  readonly filter: CountedFilter | undefined
  /** In monotonic ms. */
  readonly usedAt: number
}

interface UsedFiltersOptions extends Pick<Services, 'clock' | 'metrics'> {
  readonly filterValues: FilterValues
  onUnused(id: string): void
}

/** The filters that were created or polled through this process in the last 5 minutes: what the limits of an account count. */
export class UsedFilters {
  readonly #options: UsedFiltersOptions
  readonly #gauge: Gauge
  /** By id; the one that was used longest ago is the first. */
  readonly #used = new Map<string, UsedFilter>()
  readonly #countByAccount = new Map<string, number>()
  #timer: Timer | undefined

  constructor(options: UsedFiltersOptions) {
    this.#options = options
    this.#gauge = options.metrics.gauge(metricDefinitions.subscriptions, { kind: 'filter' })
  }

  countOf(account: string): number {
    return this.#countByAccount.get(account) ?? 0
  }

  record(id: string, account: string, filter: CountedFilter | undefined): void {
    this.delete(id)
    this.#used.set(id, { account, filter, usedAt: this.#options.clock.monotonic() })
    this.#countByAccount.set(account, this.countOf(account) + 1)
    this.#options.filterValues.add(account, filter)
    this.#timer ??= this.#options.clock.every(sweepIntervalMs, () => this.#sweep())
    this.#gauge.set(this.#used.size)
  }

  delete(id: string): void {
    const used = this.#used.get(id)
    if (used === undefined) return
    const { account, filter } = used
    this.#used.delete(id)
    this.#options.filterValues.remove(account, filter)
    const count = this.countOf(account) - 1
    if (count > 0) this.#countByAccount.set(account, count)
    else this.#countByAccount.delete(account)
    this.#gauge.set(this.#used.size)
  }

  clear(): void {
    for (const id of this.#used.keys()) this.delete(id)
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #sweep(): void {
    const oldest = this.#options.clock.monotonic() - maxUnusedMs
    for (const [id, { usedAt }] of this.#used) {
      if (usedAt > oldest) return
      this.delete(id)
      this.#options.onUnused(id)
    }
    this.clear()
  }
}
