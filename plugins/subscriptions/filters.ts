import { LRUCache } from 'lru-cache'
import { isJsonObject, metricDefinitions, refuse } from '../../src/plugin/plugin.ts'
import type { BlockId, ChainUpdate, Failure, Gauge, Json, Services, Timer } from '../../src/plugin/plugin.ts'
import type { FeedConsumer } from './feed-consumer.ts'
import { Filter, newFilterId, ownerOf } from './filter.ts'
import type { FilterTopic } from './filter.ts'
import { FilterMemory } from './filter-memory.ts'
import { maxValuesPerAccount } from './filter-values.ts'
import type { FilterValues } from './filter-values.ts'
import { parseLogFilter } from './log-filter.ts'
import { fetchMissedChanges } from './missed-changes.ts'
import type { Fetch } from './missed-changes.ts'
import { StoredFilters } from './stored-filters.ts'
import type { StoredFilter } from './stored-filters.ts'
import { mapKinds } from './subscription.ts'
import type { SubscriptionKind } from './subscription.ts'

/** A filter that is not used for so long is removed. */
const maxUnusedMs = 300_000
const sweepIntervalMs = 10_000
const maxNewOwners = 10_000

/** What a caller wants of a filter. It goes to the process that keeps the filter. */
export interface FilterRequest {
  readonly action: 'changes' | 'criteria' | 'uninstall'
  readonly id: string
  readonly account: string
}

/** The text of a JSON array; or, for `criteria`, the filter object. */
export type FilterAnswer = { readonly text: string; readonly count: number } | { readonly criteria: Json } | { readonly isRemoved: true }

export interface FiltersOptions extends Pick<Services, 'clock' | 'filterRecords' | 'metrics' | 'network' | 'peers'> {
  readonly filterValues: FilterValues
  /** The newest block that was published to filters. */
  tipOf(kind: SubscriptionKind): BlockId | undefined
  feedOf(kind: SubscriptionKind): Pick<FeedConsumer, 'retain' | 'release'>
}

/** The filters of one network that this process keeps, and the way to those that other workers keep. */
export class Filters {
  readonly #options: FiltersOptions
  readonly #gauge: Gauge
  readonly #byId = new Map<string, Filter>()
  readonly #byKind: Readonly<Record<SubscriptionKind, Set<Filter>>> = mapKinds(() => new Set())
  readonly #memory = new FilterMemory(filter => this.#remove(filter))
  readonly #onResize = (filter: Filter, change: number): void => this.#memory.resize(filter, change)
  readonly #stored: StoredFilters
  /** By filter: the worker that keeps it since the process of its id has ended. */
  readonly #newOwners = new LRUCache<string, string>({ max: maxNewOwners })
  #sweepTimer: Timer | undefined
  #isClosed = false

  constructor(options: FiltersOptions) {
    this.#options = options
    this.#gauge = options.metrics.gauge(metricDefinitions.filters, {})
    this.#stored = new StoredFilters({
      ...options,
      owner: options.peers.name,
      maxUnusedMs,
      onTaken: filter => this.#remove(filter),
    })
    // Another worker's request().
    options.peers.serve(async request =>
      this.#isClosed ? undefined : (this.#answer(request as unknown as FilterRequest) ?? { isMissing: true }),
    )
  }

  of(kind: SubscriptionKind): ReadonlySet<Filter> {
    return this.#byKind[kind]
  }

  /** The filter collects each change after this. `base` is the newest block, for filters of blocks and logs. */
  async create(topic: FilterTopic, account: string, maxPerAccount: number, base?: BlockId): Promise<string | Failure> {
    const { clock, peers, filterValues } = this.#options
    if (this.#memory.countOf(account) >= maxPerAccount)
      return refuse('tooManySubscriptions', { message: `too many filters: at most ${maxPerAccount} of one account` })
    if (!filterValues.fits(account, topic.filter))
      return refuse('tooManySubscriptions', {
        message: `too many filters: at most ${maxValuesPerAccount} addresses and topics of one account`,
      })
    const filter = new Filter({ id: newFilterId(peers.name), topic, account, base, usedAt: clock.monotonic(), onResize: this.#onResize })
    if (!(await this.#start(filter))) return feedUnavailable
    this.#stored.record(filter)
    return filter.id
  }

  /** Undefined when the account has no such filter. */
  async request(request: FilterRequest, fetch: Fetch): Promise<FilterAnswer | Failure | undefined> {
    const { peers } = this.#options
    const owner = this.#newOwners.get(request.id) ?? ownerOf(request.id)
    if (owner === undefined) return undefined
    if (owner === peers.name || this.#byId.has(request.id)) return this.#answer(request)
    const answer = await this.#requestPeer(owner, request)
    return answer === undefined ? this.#requestLost(request, owner, fetch) : 'isMissing' in answer ? undefined : answer
  }

  /** Undefined when the process does not answer. */
  async #requestPeer(owner: string, request: FilterRequest): Promise<FilterAnswer | { readonly isMissing: true } | undefined> {
    const answer = await this.#options.peers.request(owner, { ...request })
    return isJsonObject(answer) ? (answer as FilterAnswer) : undefined // from #answer() of another worker
  }

  /** The process that keeps the filter has ended, or is one of another machine. */
  async #requestLost(request: FilterRequest, lost: string, fetch: Fetch, attemptsLeft = 2): Promise<FilterAnswer | Failure | undefined> {
    const { id, account, action } = request
    // Another call has had it resumed here.
    if (this.#byId.has(id)) return this.#answer(request)
    const found = await this.#stored.find(id, account)
    if (found === undefined) return undefined
    const { filter, owner } = found
    if (owner !== lost && owner !== '') {
      // Another worker has taken it over.
      const answer = await this.#requestPeer(owner, request)
      if (answer !== undefined) this.#newOwners.set(id, owner)
      if (answer !== undefined) return 'isMissing' in answer ? undefined : answer
    }
    if (action === 'criteria') return filter.kind === 'logs' ? { criteria: filter.request } : undefined
    if (!(await this.#stored.isDead(owner))) return undefined
    if (await this.#stored.take(id)) return action === 'uninstall' ? { isRemoved: true } : this.#resume(filter, fetch)
    // Another process has been faster.
    await this.#stored.wait()
    return attemptsLeft > 0 ? this.#requestLost(request, lost, fetch, attemptsLeft - 1) : undefined
  }

  /** It collects what comes while what was missed is fetched. */
  async #resume(stored: StoredFilter, fetch: Fetch): Promise<FilterAnswer | Failure | undefined> {
    const topic = topicOf(stored)
    if (topic === undefined) return undefined
    const filter = new Filter({ ...stored, topic, resumed: stored, usedAt: this.#options.clock.monotonic(), onResize: this.#onResize })
    return this.#stored.claim(stored, () => this.#resumeClaimed(filter, stored, fetch))
  }

  async #resumeClaimed(filter: Filter, stored: StoredFilter, fetch: Fetch): Promise<FilterAnswer | Failure | undefined> {
    const { kind } = filter.topic
    const isStarted = await this.#start(filter)
    // What was published before the filter has started must be among what is fetched.
    const publishedHeight = this.#options.tipOf(kind)?.number ?? 0
    const fetched = isStarted ? await fetchMissedChanges(stored, fetch) : 'unavailable'
    const missed = typeof fetched === 'object' && fetched.position.number < publishedHeight ? 'unavailable' : fetched
    const isRemoved = isStarted && !this.#byId.has(filter.id)
    if (typeof missed === 'object' && !isRemoved && filter.resume(missed.changes, missed.position)) {
      const answer = filter.take(this.#options.tipOf(kind))
      this.#stored.record(filter)
      return answer
    }
    this.#remove(filter)
    if (this.#isClosed || (missed === 'unavailable' && !isRemoved)) await this.#stored.putBack(stored)
    else await this.#stored.take(stored.id)
    return missed === 'unavailable' ? feedUnavailable : undefined
  }

  /** The feed of these filters brings an update. */
  observe(kind: SubscriptionKind, update: ChainUpdate): void {
    for (const filter of this.#byKind[kind]) if (!filter.follow(update)) this.#remove(filter)
  }

  removeAll(kind: SubscriptionKind): void {
    for (const filter of this.#byKind[kind]) this.#remove(filter)
  }

  /** Other processes go on with the filters. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#stored.close()
    for (const filter of this.#byId.values()) this.#remove(filter)
  }

  #answer({ action, id, account }: FilterRequest): FilterAnswer | undefined {
    const filter = this.#byId.get(id)
    if (filter === undefined || filter.account !== account) return undefined
    filter.usedAt = this.#options.clock.monotonic()
    this.#memory.recordUse(filter)
    if (action === 'uninstall') {
      this.#remove(filter)
      return { isRemoved: true }
    }
    const answer = action === 'changes' ? filter.take(this.#options.tipOf(filter.topic.kind)) : criteriaOf(filter)
    if (!filter.isResuming) this.#stored.record(filter)
    return answer
  }

  /** False when the feed does not start, or the filter has been removed meanwhile. */
  async #start(filter: Filter): Promise<boolean> {
    const { kind } = filter.topic
    const started = this.#options.feedOf(kind).retain()
    this.#add(filter)
    if ((await started) && this.#byId.has(filter.id)) {
      this.#byKind[kind].add(filter)
      return true
    }
    this.#remove(filter)
    return false
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
    this.#stored.remove(filter)
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

const feedUnavailable = refuse('unavailable', { retryAfter: 1, source: 'gateway' })

const criteriaOf = ({ topic }: Filter): FilterAnswer | undefined => (topic.kind === 'logs' ? { criteria: topic.request } : undefined)

/** Undefined when this version cannot read what is stored. */
const topicOf = ({ kind, request }: StoredFilter): FilterTopic | undefined => {
  if (kind === 'newHeads') return { kind }
  const filter = parseLogFilter(request, 'eth_newFilter')
  return 'error' in filter ? undefined : { kind, filter, request }
}
