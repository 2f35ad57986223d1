import { Cancellation } from '../plugin/call.ts'
import type { Target } from '../plugin/call.ts'
import { CurrentChainState, WorkerTags, TrackingStack, fetchBlock, openUpstreamRequester } from '../services/chain-heads/index.ts'
import type { BlockId, FinalityTag, Heads, HeadsOptions, TagState, TrackOptions } from '../services/chain-heads/index.ts'
import { singleFlight } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { PendingReplies } from './channel.ts'
import { WorkerFeeds } from './shared-feeds.ts'
import { WorkerTransactions } from './shared-transactions.ts'
import { SharedHeight } from './worker-height-broadcast.ts'
import { ackTimeoutMs, toRevealedTarget } from './worker-messages.ts'
import type { NetworkChannel, NetworkMessage, WorkerMessage } from './worker-messages.ts'

/** The primary is informed this often, at most, that calls come in. */
const activityIntervalMs = 1_000
/** After this time a call begins the next sync, so that later calls need not wait for it. */
const syncIntervalMs = ackTimeoutMs / 2
/** While the primary is busy, calls wait rather than ask the nodes. */
const syncTimeoutMs = 250

export interface WorkerHeadsOptions extends NetworkChannel, Pick<HeadsOptions, 'chainId' | 'blockTime' | 'devNode' | 'upstreamClient'> {}

/** The heads of one network in a worker: what the primary, which tracks the upstreams, has sent. */
export class WorkerHeads extends CurrentChainState implements Heads {
  readonly tags: WorkerTags
  readonly feeds: WorkerFeeds
  readonly #options: WorkerHeadsOptions
  readonly #sharedHeight: SharedHeight
  readonly #transactions: WorkerTransactions
  readonly #syncReplies: PendingReplies<true>
  readonly #trackings = new TrackingStack(
    ({ targets, maxLag }, all) => {
      const { network, chainId, blockTime, devNode = false } = this.#options
      const upstreams = { chainId, blockTime, devNode, ...(maxLag !== undefined && { maxLag }), targets: all.map(toRevealedTarget) }
      this.#track(targets, { kind: 'track', network, upstreams })
    },
    () => this.#track([], { kind: 'untrack', network: this.#options.network }),
  )
  protected targets: readonly Target[] = []
  #lastActivityAt = -Infinity
  #tagsChangedAt = -Infinity
  /** When the last sync began that the primary has answered. */
  #syncedAt = -Infinity

  constructor(options: WorkerHeadsOptions) {
    super(options)
    this.#options = options
    this.feeds = new WorkerFeeds(options)
    this.#sharedHeight = new SharedHeight(options)
    this.#transactions = new WorkerTransactions(options)
    this.#syncReplies = new PendingReplies(options.clock)
    this.tags = new WorkerTags(
      upstream => this.snapshot.finalizedBlockOf(upstream)?.number,
      (upstream, tag, block) => this.#reportTag(upstream, tag, block),
    )
  }

  track(targets: readonly Target[], { maxLag }: TrackOptions = {}): () => void {
    return this.#trackings.push({ targets, maxLag })
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
    const isAnswered = await this.#syncReplies.request(
      syncTimeoutMs,
      id => send({ kind: 'sync', network, id }),
      () => false,
    )
    if (isAnswered) this.#syncedAt = startedAt
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
    if (this.targets.length === 0 || this.#options.devNode === true || this.exclusionReasonOf(upstream) === 'chain') return height
    if (height > reportedHeight) return this.#sharedHeight.request(upstream, height, () => this.state.reportedHeight || height)
    return this.#sharedHeight.whenShared(reportedHeight)
  }

  get transactionVersion(): number {
    return this.#transactions.version
  }

  recordTransaction(): MaybePromise<void> {
    this.#transactions.record()
    if (this.targets.length > 0) return this.#transactions.share()
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
    this.feeds.handleMessage(message)
    this.#sharedHeight.handleMessage(message)
    this.#transactions.handleMessage(message)
    switch (message.kind) {
      case 'snapshot':
        if (message.recentBlocks !== undefined) this.recentBlocks.apply(message.recentBlocks)
        return this.update(message.state)
      case 'height':
        this.setReportedHeight(message.height)
        return this.#options.send({ kind: 'heightAck', network: message.network, height: message.height })
      case 'tags':
        return this.#setTags(message.state)
      case 'synced':
        this.#setTags(message.tags)
        if (message.height > this.state.reportedHeight) this.setReportedHeight(message.height)
        return this.#syncReplies.resolve(message.id, true)
    }
  }

  /** As with a transaction, the caller is answered when every worker knows: also a height that this worker has just received. */
  async #reportTag(upstream: string, tag: FinalityTag, block: number): Promise<void> {
    const { network, clock, send } = this.#options
    const isKnown = block <= (this.tags.heightOf(upstream, tag) ?? -1) && block <= (this.tags.reported(tag) ?? -1)
    if (this.targets.length === 0 || this.#options.devNode === true || (isKnown && clock.monotonic() - this.#tagsChangedAt >= ackTimeoutMs))
      return
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
}
