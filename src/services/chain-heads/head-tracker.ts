import type { Target } from '../../plugin/call.ts'
import { withTimeoutOr } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { isoTime } from '../../util/dates.ts'
import { CanonicalChain } from './canonical-chain.ts'
import { ChainLog } from './chain-log.ts'
import { CurrentChainState } from './current-chain-state.ts'
import { ChainFeeds } from './feeds/chain-feeds.ts'
import { HeadPlausibility } from './head-plausibility.ts'
import type { HeadsOptions, Heads, HeadsStatus, LastHead, TrackOptions } from './heads-types.ts'
import { HeadSelection, recordHeights } from './network-head.ts'
import { PollSchedule, maxRefreshMs } from './poll-schedule.ts'
import { openPacing } from './pacing.ts'
import type { BlockId } from './recent-blocks.ts'
import { ReportedHeight } from './reported-height.ts'
import { TagTracker } from './reported-tags.ts'
import { TrackedUpstreams, TrackingStack } from './tracked-upstreams.ts'
import type { Tracking } from './tracked-upstreams.ts'
import type { SeenHead } from './upstream-blocks.ts'
import { UpstreamExclusions, upstreamStateOf } from './upstream-exclusions.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

/**
 * Tracks the upstreams of one network, and derives the network's head, its finalized block, the reported height and the
 * exclusions of upstreams.
 *
 * - Upstreams are polled while calls come in, every `pollIntervalMs`: half a block time, from 250 ms to 5 s. Polling stops
 *   30 s after the last call. An upstream with a working newHeads subscription is not polled.
 * - The head is the highest plausible head. It may go back; the reported height (see ReportedHeight) does not. On a development node there is none.
 * - The chain ID of an upstream is checked before its first call, and requested every 10 s while the upstream does not answer, even when no call comes in.
 * - Before the first poll nothing is finalized, every upstream is current, and no upstream is excluded.
 * - If no upstream answers, the last reported height stays. The head goes after three failed polls of each upstream.
 * - The upstreams of all pipelines are tracked (see TrackingStack). Responses to the requests of those that are no longer tracked do not count.
 */
export class HeadTracker extends CurrentChainState implements Heads {
  readonly mayLag = false
  readonly sync = (): Promise<boolean> => Promise.resolve(true)
  readonly tags: TagTracker
  readonly feeds: ChainFeeds
  readonly recordActivity: () => void
  transactionVersion = 0
  readonly #options: HeadsOptions
  readonly #plausibility: HeadPlausibility
  readonly #selection: HeadSelection
  readonly #exclusions: UpstreamExclusions
  readonly #chain: CanonicalChain
  readonly #reportedHeight: ReportedHeight
  readonly #schedule: PollSchedule<UpstreamTracker>
  #maxLagBlocks = 0
  /** Ends the subscriptions to what other processes report. Undefined while nothing is tracked. */
  #unsubscribe: (() => void) | undefined
  readonly #tracked: TrackedUpstreams
  targets: readonly Target[] = []
  readonly #trackings = new TrackingStack(
    (latest, targets) => this.#follow(latest, targets),
    () => {
      this.targets = []
      this.#tracked.replace([])
      this.#schedule.stop()
      this.#unsubscribe?.()
      this.#unsubscribe = undefined
    },
  )

  constructor(options: HeadsOptions) {
    super(options)
    const { blockTime, clock, log, metrics, heightBroadcasts = [], pacing = openPacing() } = options
    this.#options = options
    this.#plausibility = new HeadPlausibility({ blockTime, clock })
    this.#selection = new HeadSelection(this.#plausibility, name => this.#isDrained(name))
    this.#exclusions = new UpstreamExclusions(options)
    const chainLog = new ChainLog({
      clock,
      recentBlocks: this.recentBlocks,
      reportedHeight: () => this.#reportedHeight.height,
    })
    this.#chain = new CanonicalChain({
      log,
      metrics,
      chainLog,
      recentBlocks: this.recentBlocks,
      selection: this.#selection,
      onFinalityReverted: () => this.#discardAllFinalized(),
    })
    this.#reportedHeight = new ReportedHeight({
      ...options,
      ...this.timing,
      plausibility: this.#plausibility,
      heightBroadcasts,
      reporters: () => this.#selection.plausible,
    })
    this.tags = this.#createTagTracker(options)
    this.#tracked = new TrackedUpstreams({
      ...options,
      ...this.timing,
      random: Math.random,
      checkInTurn: pacing.checkInTurn,
      isAgePlausible: this.#plausibility.isAgePlausible.bind(this.#plausibility),
      isDrained: name => this.#isDrained(name),
      onChange: () => {
        this.#evaluate()
        void this.#followHead()
      },
    })
    this.#schedule = new PollSchedule({
      clock,
      pollIntervalMs: this.pollIntervalMs,
      firstIntervalMs: pacing.nextPollPhase() * this.pollIntervalMs,
      upstreams: () => this.#upstreams,
      poll: this.#pollUpstream.bind(this),
    })
    this.recordActivity = this.#schedule.recordActivity
    this.feeds = new ChainFeeds({
      ...options,
      ...this.timing,
      chain: this.#chain,
      chainLog,
      reportedHeight: this.#reportedHeight,
      isDrained: name => this.#isDrained(name),
      tracker: this,
    })
  }

  recordTransaction(): void {
    this.transactionVersion += 1
  }

  get #upstreams(): readonly UpstreamTracker[] {
    return this.#tracked.all
  }

  override get status(): HeadsStatus {
    const { head, upstreams, ...status } = super.status
    const now = this.#options.clock.now()
    const seen = newestSeenHead(this.#selection.plausible.flatMap(({ lastSeenHead }) => lastSeenHead ?? []))
    const isIdle = seen === undefined || now - seen.checkedAt > this.timing.idleAfterMs
    const isStalled = seen !== undefined && !isIdle && seen.checkedAt - seen.since > this.timing.stalledAfterMs
    return {
      ...(head !== undefined && { head }),
      ...status,
      ...(seen && { lastHead: toLastHead(seen) }),
      ...(isStalled && head !== undefined && this.#options.devNode !== true && { stalled: true as const }),
      ...(isIdle && { idle: true as const }),
      upstreams: upstreams.map(upstream => ({ ...upstream, ...this.#detailsOf(upstream.name) })),
    }
  }

  #detailsOf(name: string): Pick<HeadsStatus['upstreams'][number], 'lastHead' | 'unusableSince' | 'client'> {
    const upstream = this.#upstreams.find(each => each.name === name)
    const since = [this.#exclusions.sinceOf(name), upstream?.pollReport.failingSince].filter(time => time !== undefined)
    return {
      ...(since.length > 0 && { unusableSince: isoTime(Math.min(...since)) }),
      ...(upstream?.lastSeenHead && { lastHead: toLastHead(upstream.lastSeenHead) }),
      ...(upstream?.software.client !== undefined && { client: upstream.software.client }),
    }
  }

  track(targets: readonly Target[], { maxLag }: TrackOptions = {}): () => void {
    return this.#trackings.push({ targets, maxLag })
  }

  /** But for a catch-up: somebody looks at the upstreams. */
  async refresh(isCatchUp = false): Promise<void> {
    await this.#schedule.refresh(isCatchUp)
    if (!isCatchUp) await this.#askClients()
  }

  /** What the upstreams on the chain run, where that is not known. */
  async #askClients(): Promise<void> {
    const asked = this.#upstreams.filter(({ name, chain }) => chain.isExpectedChain && !this.#isDrained(name))
    const answers = Promise.all(asked.map(({ software }) => software.ask()))
    await withTimeoutOr(this.#options.clock, maxRefreshMs, answers, () => undefined)
  }

  reportHeight(upstream: string, height: number, hash?: string): MaybePromise<number> {
    const reporter = this.#upstreams.find(({ name }) => name === upstream)
    if (this.#upstreams.length === 0 || this.#options.devNode === true || reporter?.chain.isWrongChain === true) return height
    if (this.#reportedHeight.isImplausible(height, reporter)) return this.#reportedHeight.sharedHeight
    this.recordReportedBlock(height, hash)
    const isHigher = height > this.#reportedHeight.height
    reporter?.observeHeight(height)
    this.#reportedHeight.raise(height)
    if (isHigher || height > (this.#selection.head?.number ?? 0)) this.#evaluate()
    return this.#reportedHeight.sharedHeight
  }

  pollLagging(): void {
    this.#schedule.catchUp(({ name }) => !this.#isDrained(name) && !this.hasBlock(name))
  }

  verifyFinalized(block: BlockId): Promise<boolean> {
    return this.isFinalized(block, async number => this.#selection.best?.fetchBlock(number))
  }

  #follow({ targets: ofLatest, maxLag = this.timing.defaultMaxLagBlocks }: Tracking, targets: readonly Target[]): void {
    this.#unsubscribe ??= this.#subscribe()
    this.targets = ofLatest
    const added = this.#tracked.replace(targets)
    this.tags.forget(added.map(({ name }) => name))
    this.#maxLagBlocks = maxLag
    this.#plausibility.setMaxLag(maxLag)
    this.#evaluate()
    for (const upstream of added) void upstream.chain.verifyInTurn()
    this.#schedule.start(added)
  }

  #subscribe(): () => void {
    const onDrained = this.#options.nodes?.onDrained(() => this.#handleDrained())
    const unsubscribes = [
      this.#reportedHeight.subscribe(this.#handlePeerHeight.bind(this)),
      this.tags.subscribe(),
      ...(onDrained === undefined ? [] : [onDrained]),
    ]
    return () => unsubscribes.forEach(unsubscribe => unsubscribe())
  }

  #isDrained(upstream: string): boolean {
    return this.#options.nodes?.drained.has(upstream) === true
  }

  #handleDrained(): void {
    for (const upstream of this.#upstreams) if (this.#isDrained(upstream.name)) upstream.closeSubscription()
    this.#evaluate()
    void this.#followHead()
  }

  #createTagTracker({ blockTime, devNode = false, tagBroadcasts = {}, onTags }: HeadsOptions): TagTracker {
    return new TagTracker({
      blockTime,
      devNode,
      broadcasts: tagBroadcasts,
      upstreams: () => this.#selection.plausible,
      reportedHeight: () => this.#reportedHeight.height,
      finalizedOf: upstream => this.snapshot.finalizedBlockOf(upstream)?.number,
      onChange: state => {
        this.startHeadVersion()
        onTags?.(state)
      },
    })
  }

  /** For a catch-up the others are enough: operators see how far a drained node is by its other polls. */
  async #pollUpstream(upstream: UpstreamTracker, isCatchUp: boolean): Promise<void> {
    if (isCatchUp && this.#isDrained(upstream.name)) return
    await upstream.poll(isCatchUp)
    this.#evaluate()
    if (this.#isDrained(upstream.name)) return
    if (this.#selection.implausible.size > 0) void upstream.checkAncestor().then(() => this.#evaluate())
    const [finalized] = await Promise.all([this.#chain.pollFinalized(upstream), this.#followHead()])
    if (finalized === undefined) return
    await this.#chain.recordFinalized(finalized, upstream)
    this.#publish()
  }

  #handlePeerHeight(height: number): void {
    this.#reportedHeight.recordPeerHeight(height)
    this.#publish()
  }

  async #followHead(): Promise<void> {
    await this.#chain.followHead()
    this.#publish()
    void this.feeds.advance()
  }

  #evaluate(): void {
    for (const upstream of this.#selection.evaluate(this.#upstreams)) this.#chain.discardFinalizedOf(upstream)
    const { head, implausible } = this.#selection
    for (const upstream of this.#upstreams) upstream.pollReport.recordHead(upstream.head)
    this.#exclusions.evaluate(this.#upstreams, { head, maxLagBlocks: this.#maxLagBlocks, implausible })
    this.#reportedHeight.evaluate()
    this.tags.cap(this.#reportedHeight.height)
    if (head !== undefined) this.#reportedHeight.raise(head.number)
    this.#publish()
  }

  #discardAllFinalized(): void {
    this.tags.reset()
    for (const upstream of this.#upstreams) upstream.discardFinalized()
    this.#publish()
  }

  #publish(): void {
    const [{ head }, { finalized, finalityVersion }] = [this.#selection, this.#chain]
    this.update({
      ...(head && { head }),
      ...(finalized && { finalized }),
      finalityVersion,
      reportedHeight: this.#reportedHeight.height,
      upstreams: this.#upstreams.map(upstream => upstreamStateOf(upstream, this.#selection, this.#exclusions)),
    })
    recordHeights(this.#options.metrics, this.state)
    this.#options.onChange?.(this.state, this.recentBlocks)
  }
}

/** The highest block of all of them: since the first of them has had it. */
const newestSeenHead = (seen: readonly SeenHead[]): SeenHead | undefined => {
  if (seen.length === 0) return undefined
  const number = Math.max(...seen.map(each => each.number))
  const since = Math.min(...seen.filter(each => each.number === number).map(each => each.since))
  return { number, since, checkedAt: Math.max(...seen.map(({ checkedAt }) => checkedAt)) }
}

const toLastHead = ({ number, since, checkedAt }: SeenHead): LastHead => ({
  number,
  since: isoTime(since),
  checkedAt: isoTime(checkedAt),
})
