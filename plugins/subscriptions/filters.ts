import { isJsonObject, metricDefinitions, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Gauge, Json, Services, Timer } from '../../src/plugin/plugin.ts'
import type { FeedConsumer } from './feed-consumer.ts'
import { Filter, ownerOf } from './filter.ts'
import type { FilterTopic } from './filter.ts'
import { FilterMemory } from './filter-memory.ts'
import { maxValuesPerAccount } from './filter-values.ts'
import type { FilterValues } from './filter-values.ts'
import { mapKinds } from './subscription.ts'
import type { SubscriptionKind } from './subscription.ts'

/** A filter that is not used for so long is removed. */
const maxUnusedMs = 300_000
const sweepIntervalMs = 10_000

/** What a caller wants of a filter. It goes to the process that keeps the filter. */
export interface FilterRequest {
  readonly action: 'changes' | 'criteria' | 'uninstall'
  readonly id: string
  readonly account: string
}

/** The text of a JSON array; or, for `criteria`, the filter object. */
export type FilterAnswer = { readonly text: string; readonly count: number } | { readonly criteria: Json } | { readonly isRemoved: true }

export interface FiltersOptions extends Pick<Services, 'clock' | 'peers' | 'metrics'> {
  readonly filterValues: FilterValues
  feedOf(kind: SubscriptionKind): Pick<FeedConsumer, 'retain' | 'release'>
}

/** The filters of one network that this process keeps, and the way to those that other workers keep. */
export class Filters {
  readonly #options: FiltersOptions
  readonly #gauge: Gauge
  readonly #byId = new Map<string, Filter>()
  readonly #byKind: Readonly<Record<SubscriptionKind, Set<Filter>>> = mapKinds(() => new Set())
  readonly #memory = new FilterMemory(filter => this.#remove(filter))
  #sweepTimer: Timer | undefined

  constructor(options: FiltersOptions) {
    this.#options = options
    this.#gauge = options.metrics.gauge(metricDefinitions.filters, {})
    options.peers.serve(async request => this.#answer(request as unknown as FilterRequest)) // another worker's request()
  }

  of(kind: SubscriptionKind): ReadonlySet<Filter> {
    return this.#byKind[kind]
  }

  /** The filter collects each change after this. */
  async create(topic: FilterTopic, account: string, maxPerAccount: number): Promise<string | Failure> {
    const { clock, peers, feedOf, filterValues } = this.#options
    if (this.#memory.countOf(account) >= maxPerAccount)
      return refuse('tooManySubscriptions', { message: `too many filters: at most ${maxPerAccount} of one account` })
    if (!filterValues.fits(account, topic.filter))
      return refuse('tooManySubscriptions', {
        message: `too many filters: at most ${maxValuesPerAccount} addresses and topics of one account`,
      })
    const filter = new Filter({
      peer: peers.name,
      topic,
      account,
      usedAt: clock.monotonic(),
      onResize: (resized, change) => this.#memory.resize(resized, change),
    })
    const started = feedOf(topic.kind).retain()
    this.#add(filter)
    if ((await started) && this.#byId.has(filter.id)) {
      this.#byKind[topic.kind].add(filter)
      return filter.id
    }
    this.#remove(filter)
    return refuse('unavailable', { retryAfter: 1, source: 'gateway' })
  }

  /** Undefined when the account has no such filter. */
  async request(request: FilterRequest): Promise<FilterAnswer | undefined> {
    const { peers } = this.#options
    const owner = ownerOf(request.id)
    if (owner === undefined) return undefined
    if (owner === peers.name) return this.#answer(request)
    const answer = await peers.request(owner, { ...request })
    return isJsonObject(answer) ? (answer as FilterAnswer) : undefined // from #answer() of another worker
  }

  removeAll(kind: SubscriptionKind): void {
    for (const filter of this.#byKind[kind]) this.#remove(filter)
  }

  #answer({ action, id, account }: FilterRequest): FilterAnswer | undefined {
    const filter = this.#byId.get(id)
    if (filter === undefined || filter.account !== account) return undefined
    filter.usedAt = this.#options.clock.monotonic()
    this.#memory.recordUse(filter)
    if (action === 'changes') return filter.take()
    if (action === 'criteria') return filter.topic.kind === 'logs' ? { criteria: filter.topic.request } : undefined
    this.#remove(filter)
    return { isRemoved: true }
  }

  #add(filter: Filter): void {
    this.#byId.set(filter.id, filter)
    this.#memory.add(filter)
    this.#options.filterValues.add(filter.account, filter.topic.filter)
    this.#sweepTimer ??= this.#options.clock.every(sweepIntervalMs, () => this.#sweep())
    this.#gauge.set(this.#byId.size)
  }

  #remove(filter: Filter): void {
    if (!this.#byId.delete(filter.id)) return
    this.#memory.delete(filter)
    this.#byKind[filter.topic.kind].delete(filter)
    this.#options.filterValues.remove(filter.account, filter.topic.filter)
    this.#options.feedOf(filter.topic.kind).release()
    this.#gauge.set(this.#byId.size)
    if (this.#byId.size > 0) return
    this.#sweepTimer?.cancel()
    this.#sweepTimer = undefined
  }

  #sweep(): void {
    const now = this.#options.clock.monotonic()
    for (const filter of this.#byId.values()) if (now - filter.usedAt >= maxUnusedMs) this.#remove(filter)
  }
}
