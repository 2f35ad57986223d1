import { Cancellation } from '../plugin/call.ts'
import type { Target } from '../plugin/call.ts'
import {
  CurrentChainState,
  WorkerTags,
  finalityTags,
  TrackingStack,
  fetchBlock,
  openUpstreamRequester,
} from '../services/chain-heads/index.ts'
import type { BlockId, FinalityTag, Heads, HeadsOptions, TrackOptions } from '../services/chain-heads/index.ts'
import { singleFlight, thenMaybe } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { isReply } from '../util/channel.ts'
import { WorkerFeeds } from './shared-feeds.ts'
import { WorkerReports } from './shared-reports.ts'
import { ackTimeoutMs, toRevealedTarget } from './worker-messages.ts'
import type { NetworkChannel, Reports, ToWorker, UpstreamsToTrack } from './worker-messages.ts'

/** The primary is informed this often, at most, that calls come in. */
const activityIntervalMs = 1_000
/** After this time a call begins the next sync, so that later calls need not wait for it. */
const syncIntervalMs = ackTimeoutMs / 2
/** While the primary is busy, calls wait rather than ask the nodes. */
const syncTimeoutMs = 250

interface WorkerHeadsOptions extends NetworkChannel, Pick<HeadsOptions, 'chainId' | 'blockTime' | 'devNode' | 'upstreamClient' | 'nodes'> {
  /** Called when no pipeline has these heads any more. */
  close(): void
}

/** The heads of one network in a worker: what the primary, which tracks the upstreams, has sent. */
export class WorkerHeads extends CurrentChainState implements Heads {
  readonly tags: WorkerTags
  readonly feeds: WorkerFeeds
  readonly reports: WorkerReports
  readonly close: () => void
  transactionVersion = 0
  readonly #options: WorkerHeadsOptions
  readonly #trackings = new TrackingStack(
    ({ targets, maxLag }, all) => {
      const { chainId, blockTime, devNode = false } = this.#options
      const upstreams = { chainId, blockTime, devNode, ...(maxLag !== undefined && { maxLag }), targets: all.map(toRevealedTarget) }
      this.#track(targets, upstreams)
    },
    () => this.#track([]),
  )
  targets: readonly Target[] = []
  /** Ends what sends the drained nodes to the primary; undefined while nothing is tracked. */
  #stopDrained: (() => void) | undefined
  #lastActivityAt = -Infinity
  /** When the last sync began that the primary has answered. */
  #syncedAt = -Infinity

  constructor(options: WorkerHeadsOptions) {
    super(options)
    this.#options = options
    this.close = options.close
    this.feeds = new WorkerFeeds(options)
    this.reports = new WorkerReports({ ...options, onChange: (reports, previous) => this.#handleReports(reports, previous) })
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

  #track(targets: readonly Target[], upstreams?: UpstreamsToTrack): void {
    const { network, primary, nodes } = this.#options
    this.targets = targets
    primary.send('track', { network, ...(upstreams && { upstreams }) })
    this.#stopDrained?.()
    this.#stopDrained = upstreams && nodes?.onDrained(() => this.#sendDrained())
    if (upstreams !== undefined) this.#sendDrained()
  }

  /** Nothing while it is not known: the primary may have from other workers what this one cannot read. */
  #sendDrained(): void {
    const { network, primary, nodes } = this.#options
    if (nodes?.isDrainedKnown === true) primary.send('drained', { network, names: [...nodes.drained] })
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
    const { network, clock, primary } = this.#options
    const startedAt = clock.monotonic()
    const isAnswered = isReply(await primary.call('sync', { network }, syncTimeoutMs))
    if (isAnswered) this.#syncedAt = startedAt
    return isAnswered
  })

  recordActivity(): void {
    const now = this.#options.clock.monotonic()
    if (this.targets.length > 0 && now - this.#syncedAt >= syncIntervalMs) void this.#requestSync()
    if (now - this.#lastActivityAt < activityIntervalMs) return
    this.#lastActivityAt = now
    const { network, primary } = this.#options
    primary.send('activity', { network })
  }

  /** A caller is given a height that every worker has: its next call may come to any of them. */
  reportHeight(upstream: string, height: number, hash?: string): MaybePromise<number> {
    const { reportedHeight } = this.state
    if (this.targets.length === 0 || this.#options.devNode === true || this.exclusionOf(upstream) === 'chain') return height
    this.recordReportedBlock(height, hash)
    if (height > reportedHeight) return this.#reportBlock('latest', upstream, height, () => this.state.reportedHeight || height)
    return thenMaybe(this.reports.whenShared('height'), () => reportedHeight)
  }

  async recordTransaction(): Promise<void> {
    this.transactionVersion += 1
    if (this.targets.length > 0) await this.reports.reportTransaction()
  }

  pollLagging(): void {
    const { network, primary } = this.#options
    primary.send('pollLagging', { network })
  }

  verifyFinalized(block: BlockId): Promise<boolean> {
    const target = this.targets.find(({ name }) => this.snapshot.isCurrent(name) && this.#options.nodes?.drained.has(name) !== true)
    const signal = new Cancellation()
    return this.isFinalized(
      block,
      async number => target && fetchBlock(openUpstreamRequester(this.#options.upstreamClient, target, signal), number),
    )
  }

  /** From the primary. */
  accept({ state, recentBlocks }: ToWorker['snapshot']['value']): void {
    if (recentBlocks !== undefined) this.recentBlocks.apply(recentBlocks)
    // The height of a snapshot may not have been acknowledged.
    this.update({ ...state, reportedHeight: this.reports.height })
  }

  /** The caller is answered when every worker knows. */
  async #reportTag(upstream: string, tag: FinalityTag, block: number): Promise<void> {
    const isKnown = block <= (this.tags.heightOf(upstream, tag) ?? -1) && block <= (this.tags.reported(tag) ?? -1)
    if (this.targets.length === 0 || this.#options.devNode === true) return
    if (isKnown) await this.reports.whenShared('tags')
    else await this.#reportBlock(tag, upstream, block, () => 0)
  }

  #reportBlock(subject: 'latest' | FinalityTag, upstream: string, block: number, fallback: () => number): Promise<number> {
    return this.reports.reportBlock({ subject, upstream, fingerprint: this.fingerprintOfNamed(upstream), block }, fallback)
  }

  #handleReports({ height, tags, transactions }: Reports, previous: Reports): void {
    this.setReportedHeight(height)
    this.tags.state = tags
    if (transactions !== previous.transactions) this.transactionVersion += 1
    if (finalityTags.some(tag => tags.reported[tag] !== previous.tags.reported[tag])) this.startHeadVersion()
  }
}
