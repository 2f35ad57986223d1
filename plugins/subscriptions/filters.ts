import { metricDefinitions, refuse } from '../../src/plugin/plugin.ts'
import type { BlockId, ChainUpdate, Failure, Gauge, Services, Timer } from '../../src/plugin/plugin.ts'
import type { FeedConsumer } from './feed-consumer.ts'
import { Filter, newFilterId } from './filter.ts'
import type { FilterTopic } from './filter.ts'
import { FilterMemory, maxValuesPerAccount } from './filter-memory.ts'
import type { FilterValues } from './filter-memory.ts'
import { parseLogFilter } from './log-filter.ts'
import { fetchMissedChanges } from './missed-changes.ts'
import type { Fetch } from './missed-changes.ts'
import { RemoteFilters, feedUnavailable, missingFilter } from './remote-filters.ts'
import type { FilterAnswer, FilterRequest, SentAnswer } from './remote-filters.ts'
import { StoredFilters } from './stored-filters.ts'
import type { StoredFilter, WrittenFilter } from './stored-filters.ts'
import { mapKinds } from './subscription.ts'
import type { SubscriptionKind } from './subscription.ts'

/** A filter that is not used for so long is removed. */
const maxUnusedMs = 300_000
const sweepIntervalMs = 10_000

interface FiltersOptions extends Pick<Services, 'clock' | 'filterRecords' | 'metrics' | 'network' | 'peers'> {
  readonly filterValues: FilterValues
  /** The newest block that was published to filters. */
  tipOf(kind: SubscriptionKind): BlockId | undefined
  feedOf(kind: SubscriptionKind): Pick<FeedConsumer, 'retain' | 'release'>
}

/** The filters of one network that this process keeps. */
export class Filters {
  readonly #options: FiltersOptions
  readonly #gauge: Gauge
  readonly #byId = new Map<string, Filter>()
  readonly #byKind: Readonly<Record<SubscriptionKind, Set<Filter>>> = mapKinds(() => new Set())
  readonly #memory = new FilterMemory(filter => this.#remove(filter))
  readonly #onResize = (filter: Filter, change: number): void => this.#memory.resize(filter, change)
  readonly #stored: StoredFilters
  readonly #remote: RemoteFilters
  readonly #endServing: () => void
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
    this.#remote = new RemoteFilters({
      ...options,
      stored: this.#stored,
      resumedFrom: id => this.#byId.get(id)?.resumedFrom,
      answer: request => this.#answer(request),
      resume: (filter, fetch) => this.#resume(filter, fetch),
    })
    this.#endServing = options.peers.serve({
      // Of another process: a FilterRequest.
      answer: async request => (this.#isClosed ? undefined : this.#send(request as unknown as FilterRequest)),
      onUnsent: request => this.#removeUndelivered(request as unknown as FilterRequest),
    })
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
    // What is delivered now would not be stored: others would deliver it again, or find no filter.
    if (this.#isClosed) return feedUnavailable
    return this.#byId.has(request.id) ? this.#answer(request) : this.#remote.request(request, fetch)
  }

  /** It collects what comes while what was missed is fetched. */
  async #resume(stored: WrittenFilter, fetch: Fetch): Promise<FilterAnswer | Failure | undefined> {
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
    if (typeof missed === 'object' && !isRemoved && !this.#isClosed && filter.resume(missed)) {
      return this.#take(filter)
    }
    this.#remove(filter)
    if (this.#isClosed || (missed !== 'unknown' && !isRemoved)) await this.#stored.putBack(stored)
    else await this.#stored.take(stored.id)
    return missed === 'unknown' || isRemoved ? undefined : feedUnavailable
  }

  /** The feed of these filters brings an update. */
  observe(kind: SubscriptionKind, update: ChainUpdate): void {
    for (const filter of this.#byKind[kind]) {
      if (filter.follow(update)) continue
      // The upstreams are asked what has changed since the last block that was delivered.
      this.#stored.release(filter)
      this.#remove(filter)
    }
  }

  removeAll(kind: SubscriptionKind): void {
    for (const filter of this.#byKind[kind]) this.#remove(filter)
  }

  /** Other processes go on with the filters. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#endServing()
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
    if (action === 'changes') return this.#take(filter)
    if (!filter.isResuming) this.#stored.record(filter)
    return criteriaOf(filter)
  }

  #take(filter: Filter): FilterAnswer {
    const { settle, ...changes } = filter.take(this.#options.tipOf(filter.topic.kind))
    const onSettled = (isDelivered: boolean): void => {
      if (this.#byId.get(filter.id) !== filter) return
      if (!settle(isDelivered)) this.#remove(filter)
      else if (!filter.isResuming) this.#stored.record(filter)
    }
    return { ...changes, onSettled }
  }

  /** What is sent to another process counts as delivered: that process ends the filter when its caller does not get it. */
  #send(request: FilterRequest): SentAnswer | typeof missingFilter {
    const answer = this.#answer(request)
    if (answer === undefined || !('text' in answer)) return answer ?? missingFilter
    const { onSettled, ...sent } = answer
    onSettled(true)
    return sent
  }

  /** The caller has not got what the filter does not hold any more. */
  #removeUndelivered({ action, id, account }: FilterRequest): void {
    const filter = this.#byId.get(id)
    if (action === 'changes' && filter?.account === account) this.#remove(filter)
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

const criteriaOf = ({ topic }: Filter): FilterAnswer | undefined => (topic.kind === 'logs' ? { criteria: topic.request } : undefined)

/** Undefined when this version cannot read what is stored. */
const topicOf = ({ kind, request }: StoredFilter): FilterTopic | undefined => {
  if (kind === 'newHeads') return { kind }
  const filter = parseLogFilter(request, 'eth_newFilter')
  return 'error' in filter ? undefined : { kind, filter, request }
}
