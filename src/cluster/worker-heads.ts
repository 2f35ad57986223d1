import { Cancellation } from '../plugin/call.ts'
import type { Target } from '../plugin/call.ts'
import {
  CurrentChainState,
  WorkerTags,
  RecentBlocks,
  TrackingStack,
  fetchBlock,
  headTimingFor,
  maxRefreshMs,
  maxRecentBlocks,
  openUpstreamRequester,
} from '../services/chain-heads/index.ts'
import type { BlockId, FinalityTag, Heads, HeadsOptions, TagState, TrackOptions } from '../services/chain-heads/index.ts'
import { getOrCreate } from '../util/memoize.ts'
import { singleFlight, withTimeoutOr } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { ackTimeoutMs, toRevealedTarget } from './worker-messages.ts'
import type { NetworkMessage, UpstreamsToTrack, WorkerMessage } from './worker-messages.ts'
import { KnownTransactions } from './known-transactions.ts'
import { WorkerFeeds } from './shared-feeds.ts'

/** The primary is informed this often, at most, that calls come in. */
const activityIntervalMs = 1_000
/** A caller waits no longer for the primary, or for the acknowledgments of other workers. */
const primaryTimeoutMs = 50
/** After this time a call begins the next sync, so that later calls need not wait for it. */
const syncIntervalMs = ackTimeoutMs / 2
/** While the primary is busy, calls wait rather than ask the nodes. */
const syncTimeoutMs = 250

export interface WorkerHeadsOptions extends Pick<HeadsOptions, 'chainId' | 'blockTime' | 'upstreamClient' | 'clock'> {
  readonly network: string
  send(message: WorkerMessage): void
}

/** The heads of one network in a worker: what the primary, which tracks the upstreams, has sent. */
export class WorkerHeads extends CurrentChainState implements Heads {
  readonly pollIntervalMs: number
  readonly tags: WorkerTags
  readonly feeds: WorkerFeeds
  readonly #options: WorkerHeadsOptions
  readonly #recentBlocks: RecentBlocks
  readonly #sharedHeightListeners = new Set<() => void>()
  /** Requests in flight, by height and upstream. */
  readonly #heightRequests = new Map<string, Promise<number>>()
  readonly #pendingReplies = new Map<number, (height: number) => void>()
  /** By id: to be called when every worker knows of the transaction. */
  readonly #pendingTransactions = new Map<number, () => void>()
  readonly #pendingSyncs = new Map<number, () => void>()
  readonly #trackings = new TrackingStack<{ readonly targets: readonly Target[]; readonly upstreams: UpstreamsToTrack }>(
    ({ targets, upstreams }) => this.#track(targets, { kind: 'track', network: this.#options.network, upstreams }),
    () => this.#track([], { kind: 'untrack', network: this.#options.network }),
  )
  protected targets: readonly Target[] = []
  #sharedHeight = 0
  #lastActivityAt = -Infinity
  #lastRequestId = 0
  readonly #transactions = new KnownTransactions(() => this.startHeadVersion())
  #tagsChangedAt = -Infinity
  /** When the last sync began that the primary has answered. */
  #syncedAt = -Infinity

  constructor(options: WorkerHeadsOptions) {
    const recentBlocks = new RecentBlocks(maxRecentBlocks)
    super(options.clock, recentBlocks, headTimingFor(options.blockTime))
    this.#recentBlocks = recentBlocks
    this.#options = options
    this.feeds = new WorkerFeeds(options)
    this.pollIntervalMs = headTimingFor(options.blockTime).pollIntervalMs
    this.tags = new WorkerTags(
      upstream => this.snapshot.finalizedBlockOf(upstream)?.number,
      (upstream, tag, block) => this.#reportTag(upstream, tag, block),
    )
  }

  track(targets: readonly Target[], { maxLag }: TrackOptions = {}): () => void {
    const { chainId, blockTime } = this.#options
    const upstreams = { chainId, blockTime, ...(maxLag !== undefined && { maxLag }), targets: targets.map(toRevealedTarget) }
    return this.#trackings.push({ targets, upstreams })
  }

  /** The primary has tracked other upstreams meanwhile. */
  readonly resume = (): void => this.#trackings.repeat()

  #track(targets: readonly Target[], message: WorkerMessage): void {
    this.targets = targets
    this.#options.send(message)
  }

  /**
   * This worker knows the height that callers had been given when the last sync began. The primary waits `ackTimeoutMs` for this
   * worker before callers get a greater one. So a worker that was stopped, or whose messages wait, notices that it may lag.
   */
  get mayLag(): boolean {
    return this.targets.length > 0 && this.#options.clock.monotonic() - this.#syncedAt >= ackTimeoutMs
  }

  async sync(): Promise<boolean> {
    const calledAt = this.#options.clock.monotonic()
    const isDone = () => this.#syncedAt >= calledAt || !this.mayLag
    // The request in flight may have begun before this call.
    return (await this.#requestSync()) && (isDone() || ((await this.#requestSync()) && isDone()))
  }

  readonly #requestSync = singleFlight(async (): Promise<boolean> => {
    const { network, clock, send } = this.#options
    const startedAt = clock.monotonic()
    const id = (this.#lastRequestId += 1)
    const answered = new Promise<true>(resolve => this.#pendingSyncs.set(id, () => resolve(true)))
    send({ kind: 'sync', network, id })
    const isAnswered = await withTimeoutOr(clock, syncTimeoutMs, answered, () => false)
    if (isAnswered) this.#syncedAt = startedAt
    this.#pendingSyncs.delete(id)
    return isAnswered
  })

  recordActivity(): void {
    const now = this.#options.clock.monotonic()
    if (this.targets.length > 0 && now - this.#syncedAt >= syncIntervalMs) void this.#requestSync()
    if (now - this.#lastActivityAt < activityIntervalMs) return
    this.#lastActivityAt = now
    this.#options.send({ kind: 'activity', network: this.#options.network })
  }

  /** A caller is given a height that every worker has: its next call may come to any of them. */
  reportHeight(upstream: string, height: number): MaybePromise<number> {
    const { reportedHeight } = this.state
    if (this.targets.length === 0 || this.exclusionReasonOf(upstream) === 'chain') return height
    if (height > reportedHeight) return this.#requestHeight(upstream, height)
    return reportedHeight <= this.#sharedHeight ? reportedHeight : this.#whenShared(reportedHeight)
  }

  get transactionVersion(): number {
    return this.#transactions.version
  }

  recordTransaction(changesNode = false): MaybePromise<void> {
    this.#transactions.record(changesNode)
    if (this.targets.length > 0) return this.#shareTransaction({ changesNode })
  }

  recordRewind(): MaybePromise<void> {
    this.#transactions.record()
    if (this.targets.length > 0) return this.#shareTransaction({ isRewind: true })
  }

  pollLagging(): void {
    this.#options.send({ kind: 'pollLagging', network: this.#options.network })
  }

  verifyFinalized(block: BlockId): Promise<boolean> {
    const target = this.targets.find(({ name }) => this.snapshot.isCurrent(name))
    const signal = new Cancellation()
    return this.isFinalized(
      block,
      async number => target && fetchBlock(openUpstreamRequester(this.#options.upstreamClient, target, signal), number),
    )
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    switch (message.kind) {
      case 'snapshot':
        if (message.recentBlocks !== undefined) this.#recentBlocks.apply(message.recentBlocks)
        return this.update(message.state)
      case 'height':
        this.setReportedHeight(message.height)
        return this.#options.send({ kind: 'heightAck', network: message.network, height: message.height })
      case 'sharedHeight':
        this.#sharedHeight = message.height
        return this.#sharedHeightListeners.forEach(listener => listener())
      case 'heightReported':
        return this.#pendingReplies.get(message.id)?.(message.height)
      case 'tags':
        return this.#setTags(message.state)
      case 'synced':
        this.#setTags(message.tags)
        if (message.height > this.state.reportedHeight) this.setReportedHeight(message.height)
        this.#transactions.setCounts(message)
        return this.#pendingSyncs.get(message.id)?.()
      case 'transaction':
        this.#transactions.setCounts(message)
        return this.#options.send({ kind: 'transactionAck', network: message.network, count: message.transactions })
      case 'transactionShared':
        for (const [id, resolve] of this.#pendingTransactions) if (id <= message.id) resolve()
    }
  }

  /** As with a transaction, the caller is answered when every worker knows: also a height that this worker has just received. */
  async #reportTag(upstream: string, tag: FinalityTag, block: number): Promise<void> {
    const { network, clock, send } = this.#options
    const isKnown = block <= (this.tags.heightOf(upstream, tag) ?? -1) && block <= (this.tags.reported(tag) ?? -1)
    if (this.targets.length === 0 || (isKnown && clock.monotonic() - this.#tagsChangedAt >= ackTimeoutMs)) return
    send({ kind: 'reportTag', network, upstream, tag, block })
    await this.recordTransaction()
  }

  #setTags(state: TagState): void {
    const isNew = JSON.stringify(state.reported) !== JSON.stringify(this.tags.state.reported)
    this.tags.state = state
    if (!isNew) return
    this.#tagsChangedAt = this.#options.clock.monotonic()
    this.startHeadVersion()
  }

  /** Calls with the same height from the same upstream share one request to the primary. */
  #requestHeight(upstream: string, height: number): Promise<number> {
    const requestKey = `${height} ${upstream}`
    return getOrCreate(this.#heightRequests, requestKey, () =>
      this.#requestFromPrimary(upstream, height).finally(() => this.#heightRequests.delete(requestKey)),
    )
  }

  async #requestFromPrimary(upstream: string, height: number): Promise<number> {
    const { network, clock, send } = this.#options
    const id = (this.#lastRequestId += 1)
    const reply = new Promise<number>(resolve => this.#pendingReplies.set(id, resolve))
    send({ kind: 'reportHeight', id, network, upstream, height })
    const granted = await withTimeoutOr(clock, primaryTimeoutMs, reply, () => this.state.reportedHeight || height)
    this.#pendingReplies.delete(id)
    return granted
  }

  async #shareTransaction({ changesNode = false, isRewind = false }): Promise<void> {
    const { network, clock, send } = this.#options
    const id = (this.#lastRequestId += 1)
    const shared = new Promise<void>(resolve => this.#pendingTransactions.set(id, resolve))
    send({ kind: 'transaction', network, id, changesNode, isRewind })
    await withTimeoutOr(clock, isRewind ? maxRefreshMs : primaryTimeoutMs, shared, () => undefined)
    this.#pendingTransactions.delete(id)
  }

  async #whenShared(reportedHeight: number): Promise<number> {
    let listener = () => {}
    const shared = new Promise<void>(resolve => {
      listener = () => {
        if (this.#sharedHeight >= reportedHeight) resolve()
      }
      this.#sharedHeightListeners.add(listener)
    })
    await withTimeoutOr(this.#options.clock, primaryTimeoutMs, shared, () => undefined)
    this.#sharedHeightListeners.delete(listener)
    return reportedHeight
  }
}
