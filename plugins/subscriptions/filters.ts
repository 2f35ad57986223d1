import { randomBytes } from 'node:crypto'
import { sleep, StoreError, verifications } from '../../src/plugin/internal.ts'
import type { BlockId, FeedBlock, LinkedBlock, Verification } from '../../src/plugin/internal.ts'
import { isJsonObject, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Services } from '../../src/plugin/plugin.ts'
import type { BlockLogs } from './block-logs.ts'
import { FilterPoll } from './filter-poll.ts'
import { parseLogFilter } from './log-filter.ts'
import type { LogFilter } from './log-filter.ts'
import { fetchHead, fetchMissedChanges } from './missed-changes.ts'
import type { Fetch, FilterChanges } from './missed-changes.ts'
import type { BranchChange, PublishedBlocks } from './published-blocks.ts'
import type { RecentEvents } from './recent-events.ts'
import type { RetainedFeed } from './retained-feed.ts'
import { maxUnusedMs, maxValuesPerAccount, UsedFilters } from './used-filters.ts'
import type { FilterValues } from './used-filters.ts'

/** What a filter is about: new blocks, pending transactions, or logs. */
export type FilterTopic =
  | { readonly kind: 'newHeads' | 'newPendingTransactions' | 'fullPendingTransactions'; readonly filter?: never }
  /** `request` is the filter object, as eth_getLogs takes it. */
  | { readonly kind: 'logs'; readonly filter: LogFilter; readonly request: Json }

type FilterKind = FilterTopic['kind']

/** One filter of an account: a cursor in what the feed of its kind publishes. */
interface Filter {
  readonly id: string
  readonly account: string
  readonly topic: FilterTopic
  /** Blocks up to this one were before the filter: their logs are not taken back. */
  readonly firstBlock: number
  /** Changes up to this block have been sent; of pending transactions, so many events. */
  readonly position: BlockId
  /** Where the filter was before an answer that is being delivered: there again when that fails. */
  readonly undelivered?: UndeliveredCursor
  /** Absent for a filter of pending transactions, which ends with its process. */
  readonly record?: FilterRecord
}

/** Where a filter is. */
type Cursor = Pick<Filter, 'position' | 'firstBlock'>

interface UndeliveredCursor extends Cursor {
  /** The process that delivers the answer. */
  readonly process: string
}

type FilterRecord = NonNullable<Awaited<ReturnType<Services['filterRecords']['find']>>>

/** Of an account. */
interface FilterRequest {
  readonly id: string
  readonly account: string
}

interface FilterAnswer {
  /** The text of a JSON array. */
  readonly text: string
  readonly count: number
  readonly verified: FilterChanges['verified']
  /** To be called once: what is not delivered comes again with the next poll. */
  onSettled(isDelivered: boolean): void
}

interface FiltersOptions extends Pick<Services, 'clock' | 'log' | 'filterRecords' | 'metrics' | 'network' | 'events'> {
  readonly filterValues: FilterValues
  readonly feeds: Readonly<Record<FilterKind, RetainedFeed>>
  /** What the feeds have published. */
  readonly published: {
    readonly newHeads: PublishedBlocks<LinkedBlock>
    readonly logs: PublishedBlocks<FeedBlock>
    readonly newPendingTransactions: RecentEvents
    readonly fullPendingTransactions: RecentEvents
  }
  logsOf(block: FeedBlock): BlockLogs
}

/** The store reports its failures itself. Anything else is a bug, and thrown. */
const toUnavailable = (error: unknown): Failure => {
  if (error instanceof StoreError) return feedUnavailable
  throw error
}

const feedUnavailable = refuse('unavailable', { retryAfter: 1, source: 'gateway' })

/** The expiry of a record is written anew when so much of it has passed: most polls without news write nothing. */
const refreshIntervalMs = 30_000

/** How long a poll waits while another process delivers an answer. An answer of which the store says nothing by then was not delivered. */
const maxDeliveryWaitMs = 1_000
/** Doubled with each look. */
const minDeliveryPollIntervalMs = 10

/** Of one answer: as many results as a query may have. The next poll goes on from there. */
const maxChanges = 10_000
const maxChars = 8 << 20

/** The filters of one network. Any process that uses the store answers a poll: from what it has published itself, else from the upstreams. */
export class Filters {
  readonly #options: FiltersOptions
  readonly #used: UsedFilters
  /** Filters of pending transactions, by id. */
  readonly #pending = new Map<string, Filter>()
  /** By account and id: the last poll, until it is settled. */
  readonly #polls = new Map<string, FilterPoll<Filter>>()
  readonly #writes = new Set<Promise<unknown>>()
  readonly #process = randomBytes(8).toString('hex')
  #isClosed = false

  constructor(options: FiltersOptions) {
    this.#options = options
    this.#used = new UsedFilters({ ...options, onUnused: id => this.#pending.delete(id) })
  }

  /** The filter brings each change after this. Resolves with its id. */
  async create(topic: FilterTopic, account: string, maxPerAccount: number, fetch: Fetch): Promise<string | Failure> {
    if (this.#isClosed) return feedUnavailable
    if (this.#used.countOf(account) >= maxPerAccount)
      return refuse('tooManySubscriptions', { message: `too many filters: at most ${maxPerAccount} of one account` })
    if (!this.#options.filterValues.fits(account, topic.filter))
      return refuse('tooManySubscriptions', {
        message: `too many filters: at most ${maxValuesPerAccount} addresses, topics and hashes of one account`,
      })
    const id = `0x${randomBytes(16).toString('hex')}`
    this.#used.record(id, account, topic.filter)
    let isCreated = false
    try {
      const position = await this.#startOf(topic, fetch)
      if (position === undefined) return feedUnavailable
      await this.#put({ id, account, topic, firstBlock: position.number, position })
      isCreated = true
      return id
    } catch (error) {
      return toUnavailable(error)
    } finally {
      if (!isCreated) this.#used.delete(id)
    }
  }

  /** What has come since the last answer that was delivered. Undefined when the account has no such filter. */
  async changes(request: FilterRequest, fetch: Fetch): Promise<FilterAnswer | Failure | undefined> {
    const key = `${request.account} ${request.id}`
    const last = this.#polls.get(key)
    const previous = last?.isSettled === true ? undefined : last
    const whenStored = previous === last ? undefined : last?.isStored
    const prepared = this.#prepare(previous, whenStored, request, fetch)
    const poll = new FilterPoll<Filter>(prepared, previous, (ended, isStored) => {
      // Without it, the polls that have gone on from this answer do not count either.
      if (!isStored || this.#polls.get(key) === ended) this.#polls.delete(key)
    })
    this.#polls.set(key, poll)
    const endFailed = (): void => {
      if (previous === undefined) poll.end(false)
      else this.#track(previous.isStored.then(poll.end))
    }
    const answer = await prepared.catch((bug: unknown) => {
      endFailed()
      throw bug
    })
    if (answer === undefined) poll.end(false)
    else if ('error' in answer) endFailed()
    if (answer === undefined || 'error' in answer) return answer
    const { filter, sent, moved, changes, verified } = answer
    const store = async (): Promise<boolean> => {
      const isFollowing = (await previous?.isStored) ?? true
      return isFollowing && (moved === filter || (await this.#replace(sent, moved)))
    }
    const onSettled = (isDelivered: boolean): void => {
      poll.isSettled = true
      // What was not delivered stays where #markSent() has written it.
      if (!isDelivered) return poll.end(false)
      const endUnstored = (error: unknown): void => {
        poll.end(false)
        toUnavailable(error)
      }
      this.#track(store().then(poll.end, endUnstored))
    }
    return { text: `[${changes.join(',')}]`, count: changes.length, verified, onSettled }
  }

  /** The filter object of a filter of logs. Undefined when the account has no such filter. */
  async criteria({ id, account }: FilterRequest): Promise<{ readonly criteria: Json } | Failure | undefined> {
    try {
      const filter = await this.#find({ id, account })
      if (filter === undefined || filter.topic.kind !== 'logs') return undefined
      const refreshed = movedTo(filter, filter, this.#options.clock.now())
      if (refreshed !== filter) await this.#replace(filter, refreshed)
      return { criteria: filter.topic.request }
    } catch (error) {
      return toUnavailable(error)
    }
  }

  /** False when the account has no such filter. */
  async uninstall({ id, account }: FilterRequest): Promise<boolean | Failure> {
    try {
      const filter = await this.#find({ id, account })
      if (filter === undefined) return false
      this.#polls.delete(`${account} ${id}`)
      this.#used.delete(id)
      return this.#pending.delete(id) || (await this.#options.filterRecords.take(id)) !== undefined
    } catch (error) {
      return toUnavailable(error)
    }
  }

  /** As uninstall(), of a filter that nobody can use. Without the store it ends by itself. */
  discard(request: FilterRequest): void {
    this.#track(this.uninstall(request))
  }

  /** Resolves when what was delivered is stored. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#writes)
    this.#used.clear()
    this.#pending.clear()
  }

  /** Where a new filter begins; undefined when the upstreams do not say. */
  async #startOf({ kind }: FilterTopic, fetch: Fetch): Promise<BlockId | undefined> {
    const { feeds, published } = this.#options
    const isStarted = await feeds[kind].use()
    if (!isAboutBlocks(kind)) return isStarted ? { number: published[kind].count, hash: '' } : undefined
    const head = await fetchHead(fetch)
    if (isStarted && head !== undefined) published[kind].startAt(head)
    return head
  }

  async #prepare(previous: FilterPoll<Filter> | undefined, whenStored: Promise<boolean> | undefined, request: FilterRequest, fetch: Fetch) {
    // What is delivered now would not be stored.
    if (this.#isClosed) return feedUnavailable
    await whenStored
    const filter = (await previous?.next) ?? (await this.#findSettled(request).catch(toUnavailable))
    if (filter === undefined || 'error' in filter) return filter
    const missed = await this.#changesOf(filter, fetch)
    if (missed === 'unavailable') return feedUnavailable
    if (missed === 'unknown') return undefined
    const moved = movedTo(filter, missed, this.#options.clock.now())
    const isToBeMarked = previous === undefined && !isSameBlock(moved.position, filter.position)
    const sent = isToBeMarked ? await this.#markSent(filter, moved).catch(toUnavailable) : filter
    if ('error' in sent) return sent
    return { filter, sent, moved, changes: missed.changes, verified: missed.verified }
  }

  /**
   * Before an answer is sent, the store says so: its caller may poll another process next. The same filter for those of this process alone, and when
   * another process has been faster: then changes may come twice.
   */
  async #markSent(filter: Filter, { record, position, firstBlock }: Filter): Promise<Filter> {
    if (filter.record === undefined || record === undefined) return filter
    const undelivered = { process: this.#process, position: { ...filter.position }, firstBlock: filter.firstBlock }
    const value = { ...(isJsonObject(record.value) ? record.value : {}), undelivered }
    const sent = { ...filter, position, firstBlock, undelivered, record: { ...record, value } }
    return (await this.#replace(filter, sent)) ? sent : filter
  }

  /** Waits for another process that delivers an answer. */
  async #findSettled(request: FilterRequest): Promise<Filter | undefined> {
    const { clock } = this.#options
    const deadline = clock.monotonic() + maxDeliveryWaitMs
    for (let intervalMs = minDeliveryPollIntervalMs; ; intervalMs *= 2) {
      const filter = await this.#find(request)
      if (filter?.undelivered === undefined) return filter
      const { undelivered, ...sent } = filter
      // This process has settled its answers, but could not store one of them.
      const { process, position, firstBlock } = undelivered
      const leftMs = deadline - clock.monotonic()
      if (process === this.#process || leftMs <= 0) return { ...sent, position, firstBlock }
      await sleep(clock, Math.min(intervalMs, leftMs))
    }
  }

  async #changesOf(filter: Filter, fetch: Fetch): Promise<FilterChanges | 'unknown' | 'unavailable'> {
    const { topic, firstBlock, position } = filter
    const { feeds, published } = this.#options
    const isStarted = await feeds[topic.kind].use()
    if (!isAboutBlocks(topic.kind)) {
      const { texts, count } = published[topic.kind].since(position.number)
      return isStarted ? { changes: texts, firstBlock, position: { number: count, hash: '' } } : 'unavailable'
    }
    const ownChanges =
      topic.kind === 'logs'
        ? this.#logChanges(published.logs.since(position, firstBlock), topic.filter, firstBlock)
        : // Removed blocks are no changes.
          blockChanges(published.newHeads.since(position, position.number), firstBlock)
    if (ownChanges !== undefined) return ownChanges
    const request = topic.kind === 'logs' ? topic.request : undefined
    const missed = await fetchMissedChanges({ request, firstBlock, position }, fetch)
    if (isStarted && typeof missed === 'object') published[topic.kind].startAt(missed.position)
    return missed
  }

  #logChanges(change: BranchChange<FeedBlock> | undefined, filter: LogFilter, firstBlock: number): FilterChanges | undefined {
    const { logsOf, events } = this.#options
    const removed = change?.removed.filter(({ number }) => number > firstBlock) ?? []
    const takenBack = removed.flatMap(block => logsOf(block).matchRemoved(filter))
    if (change === undefined) return undefined
    const blocks = [...removed, ...change.added]
    const verified = blocks.length === 0 ? events.logsVerifiedBy() : weakestOf(blocks.map(block => block.verified))
    return { ...collect(change, firstBlock, takenBack, block => logsOf(block).match(filter)), verified }
  }

  async #find({ id, account }: FilterRequest): Promise<Filter | undefined> {
    const filter = this.#pending.get(id) ?? this.#read(await this.#options.filterRecords.find(id))
    if (filter?.account !== account) return undefined
    this.#used.record(id, account, filter.topic.filter)
    return filter
  }

  /** Undefined for a filter of another network, and when this version cannot read what is stored. */
  #read(record: FilterRecord | undefined): Filter | undefined {
    const {
      network,
      kind,
      request = null,
      firstBlock,
      position,
      undelivered,
    } = (isJsonObject(record?.value) ? record.value : {}) as unknown as StoredValue // written by #put() and #replace()
    if (record === undefined || network !== this.#options.network.name) return undefined
    const filter = kind === 'logs' ? parseLogFilter(request, 'eth_newFilter') : undefined
    if (filter !== undefined && 'error' in filter) return undefined
    const topic: FilterTopic = filter === undefined ? { kind: 'newHeads' } : { kind: 'logs', filter, request }
    return { id: record.id, account: record.account, topic, firstBlock, position, record, ...(undelivered && { undelivered }) }
  }

  async #put(filter: Filter): Promise<void> {
    const { id, account, topic, firstBlock, position } = filter
    if (!isAboutBlocks(topic.kind)) return void this.#pending.set(id, filter)
    const { filterRecords, network, clock } = this.#options
    const request = topic.kind === 'logs' ? topic.request : null
    const value = { network: network.name, kind: topic.kind, request, firstBlock, position: { ...position } }
    await filterRecords.put({ id, account, value, expires: expiryAt(clock.now()) })
  }

  /** False when it is not the filter any more: another process has delivered changes, or it has been removed. */
  async #replace({ id, record }: Filter, moved: Filter): Promise<boolean> {
    if (record !== undefined && moved.record !== undefined) return this.#options.filterRecords.replace(record, moved.record)
    if (!this.#pending.has(id)) return false
    this.#pending.set(id, moved)
    return true
  }

  /** No call waits for it any more. */
  #track(work: Promise<unknown>): void {
    const write = work.catch((bug: unknown) => this.#options.log.error({ err: bug }, 'filter could not be stored because of a bug'))
    this.#writes.add(write)
    void write.then(() => this.#writes.delete(write))
  }
}

interface StoredValue {
  readonly network: string
  readonly kind: 'newHeads' | 'logs'
  readonly request?: Json
  readonly firstBlock: number
  readonly position: BlockId
  readonly undelivered?: UndeliveredCursor
}

/** What all of them have been verified by, at least. */
export const weakestOf = (all: readonly (Verification | undefined)[]): Verification | undefined =>
  all.includes(undefined) ? undefined : verifications.findLast(each => all.includes(each))

const isAboutBlocks = (kind: FilterKind): kind is 'newHeads' | 'logs' => kind === 'newHeads' || kind === 'logs'

/** A filter ends at the latest so long after it was used for the last time, and not before `maxUnusedMs`. */
const expiryAt = (now: number): number => now + maxUnusedMs + refreshIntervalMs

const isSameBlock = (one: BlockId, other: BlockId): boolean => one.number === other.number && one.hash === other.hash

/** The same filter where nothing is to be written. */
const movedTo = (filter: Filter, { position, firstBlock }: Cursor, now: number): Filter => {
  const isMoved = !isSameBlock(position, filter.position)
  const { record } = filter
  if (record === undefined) return isMoved ? { ...filter, position } : filter
  if (!isMoved && record.expires >= now + maxUnusedMs) return filter
  const { undelivered, ...others } = isJsonObject(record.value) ? record.value : {}
  // It stays in the record where the filter has it: nobody has taken its changes up.
  const kept = filter.undelivered === undefined || undelivered === undefined ? {} : { undelivered }
  const value = { ...others, ...kept, firstBlock, position: { number: position.number, hash: position.hash } }
  return { ...filter, position, firstBlock, record: { ...record, value, expires: expiryAt(now) } }
}

/** Removed blocks are no changes of a block filter: those of the new branch follow. */
const blockChanges = (change: BranchChange<BlockId> | undefined, firstBlock: number): FilterChanges | undefined =>
  change && collect(change, firstBlock, [], ({ hash }) => [`"${hash}"`])

/** Up to the block with which the answer is full. */
const collect = <Block extends BlockId>(
  { base, added }: BranchChange<Block>,
  firstBlock: number,
  takenBack: readonly string[],
  textsOf: (block: Block) => readonly string[],
): FilterChanges => {
  const changes = [...takenBack]
  let position: BlockId = base
  let chars = 0
  for (const block of added) {
    for (const text of textsOf(block)) {
      changes.push(text)
      chars += text.length
    }
    position = block
    if (changes.length >= maxChanges || chars >= maxChars) break
  }
  return { changes, position, firstBlock: Math.min(firstBlock, base.number) }
}
