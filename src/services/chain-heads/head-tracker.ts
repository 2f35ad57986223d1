import type { Target } from '../../plugin/call.ts'
import { Cancellation } from '../../plugin/cancellation.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { HeadPlausibility } from './head-plausibility.ts'
import type { BlockHeader } from './block-header.ts'
import { CanonicalChain } from './canonical-chain.ts'
import { UpstreamTracker } from './upstream-tracker.ts'
import { verifyFinalizedBlock } from './verify-finalized.ts'
import { CurrentChainState } from './current-chain-state.ts'
import type { RecentBlocks } from './recent-blocks.ts'
import type { HeightBroadcast } from './height-broadcast-types.ts'
import { HeadSelection } from './head-selection.ts'
import { pollIntervalMsFor, PollSchedule } from './poll-schedule.ts'
import type { UpstreamState, ChainState } from './chain-state.ts'
import { ReportedHeight } from './reported-height.ts'
import { UpstreamExclusions } from './upstream-exclusions.ts'
import type { TrackOptions, Heads, HeadsStatus, BlockId, ChainSnapshot } from './chain-snapshot.ts'

/** What heads need to know their network by. */
export interface HeadsOptions {
  readonly chainId: number
  /** Usual time between blocks, in ms. */
  readonly blockTime: number
  readonly upstreamClient: UpstreamClient
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics<'network'>
  /** Others who tell callers heights of this network. */
  readonly heightBroadcasts?: readonly HeightBroadcast[]
  /** Called with what is known, and the newest blocks, whenever that may have changed. */
  readonly onChange?: (state: ChainState, recentBlocks: RecentBlocks) => void
}

/** Heads of nodes that this process asks itself. */
export interface TrackedHeads extends Heads {
  /** Resolves once each node that is followed now has been asked for its chain, and within a second. */
  readonly chainIdsChecked: Promise<void>
}

export const openHeads = (options: HeadsOptions): TrackedHeads => new HeadTracker(options)

/** In ms, for which a start waits for nodes to tell their chain. */
const chainIdTimeoutMs = 1000

class HeadTracker implements TrackedHeads {
  readonly pollIntervalMs: number
  readonly #options: HeadsOptions
  readonly #chain: CanonicalChain
  readonly #current: CurrentChainState
  readonly #exclusions: UpstreamExclusions
  readonly #plausibility: HeadPlausibility
  readonly #selection: HeadSelection
  readonly #reportedHeight: ReportedHeight
  readonly #schedule: PollSchedule
  #chainIdsChecked: Promise<void> = Promise.resolve()
  #upstreams: readonly UpstreamTracker[] = []
  #maxLagBlocks = 0
  #stopTracking = () => {}

  constructor(options: HeadsOptions) {
    const { blockTime, clock, log, metrics, heightBroadcasts = [] } = options
    this.#options = options
    this.pollIntervalMs = pollIntervalMsFor(blockTime)
    this.#chain = new CanonicalChain({ log, metrics, onFinalityReverted: () => this.#discardAllFinalized() })
    this.#current = new CurrentChainState(this.#chain.recentBlocks)
    this.#exclusions = new UpstreamExclusions(log, metrics)
    this.#plausibility = new HeadPlausibility({ blockTime, clock })
    this.#selection = new HeadSelection(this.#plausibility)
    const peerHeightTtlMs = Math.max(10_000, 4 * blockTime)
    const reporters = () => this.#selection.plausible
    this.#reportedHeight = new ReportedHeight({
      clock,
      plausibility: this.#plausibility,
      pollIntervalMs: this.pollIntervalMs,
      heightBroadcasts,
      peerHeightTtlMs,
      reporters,
    })
    this.#schedule = new PollSchedule({
      clock,
      pollIntervalMs: this.pollIntervalMs,
      poll: () => this.#pollAll(),
      onIdle: () => this.#closeSubscriptions(),
    })
    for (const broadcast of heightBroadcasts) broadcast.subscribe((height, upstream) => this.#handleBroadcastHeight(height, upstream))
  }

  get snapshot(): ChainSnapshot {
    return this.#current.snapshot
  }

  get status(): HeadsStatus {
    return this.#current.status
  }

  get chainIdsChecked(): Promise<void> {
    return this.#chainIdsChecked
  }

  track(targets: readonly Target[], { maxLag }: TrackOptions = {}): () => void {
    const { blockTime } = this.#options
    const cancellation = new Cancellation()
    const shared = {
      ...this.#options,
      signal: cancellation,
      pollIntervalMs: this.pollIntervalMs,
      slowPollIntervalMs: Math.max(16 * blockTime, 30_000),
      maxSilentPolls: Math.ceil(60_000 / this.pollIntervalMs),
      random: Math.random,
      reportedHeight: () => this.#reportedHeight.height,
      isAgePlausible: this.#plausibility.isAgePlausible.bind(this.#plausibility),
      onHead: () => this.#handleHead(),
    }
    const upstreams = targets.map(target => new UpstreamTracker({ target, ...shared }))
    const stop = () => {
      cancellation.abort()
      upstreams.forEach(node => node.closeSubscription())
      if (this.#upstreams === upstreams) this.#schedule.stop()
    }
    this.#stopTracking()
    this.#stopTracking = stop
    this.#upstreams = upstreams
    this.#maxLagBlocks = maxLag ?? Math.max(5, Math.ceil(10_000 / blockTime))
    this.#plausibility.setSlack(3 * this.#maxLagBlocks)
    this.#evaluate()
    this.#chainIdsChecked = this.#checkChainIds(upstreams)
    return stop
  }

  recordActivity(): void {
    if (this.#upstreams.length > 0) this.#schedule.recordActivity()
  }

  orderUpstreams<N extends { readonly name: string }>(nodes: readonly N[], block?: number): readonly N[] {
    return this.#current.orderUpstreams(nodes, block)
  }

  reportHeight(upstream: string, height: number): number | Promise<number> {
    const reporter = this.#upstreams.find(({ name }) => name === upstream)
    if (this.#upstreams.length === 0 || reporter?.isWrongChain === true) return height
    const isHigher = height > this.#reportedHeight.height
    const others = this.#selection.plausible.filter(each => each !== reporter)
    if (isHigher && this.#plausibility.isImplausible({ number: height }, others, reporter)) return this.#reportedHeight.sharedHeight
    reporter?.observeHeight(height)
    this.#reportedHeight.raise(height)
    if (isHigher || height > (this.#selection.head?.number ?? 0)) this.#evaluate()
    return this.#reportedHeight.sharedHeight
  }

  verifyFinalized(block: BlockId): Promise<boolean> {
    return verifyFinalizedBlock(block, this.#current, async at => this.#selection.best?.fetchBlock(at))
  }

  #checkChainIds(upstreams: readonly UpstreamTracker[]): Promise<void> {
    const checked = Promise.all(upstreams.map(node => node.checkChainId().then(() => this.#evaluate())))
    return new Promise(resolve => {
      const timer = this.#options.clock.after(chainIdTimeoutMs, resolve)
      void checked.then(() => {
        timer.cancel()
        resolve()
      })
    })
  }

  #pollAll(): void {
    for (const node of this.#upstreams) {
      node.openSubscription()
      void this.#pollUpstream(node)
    }
  }

  #closeSubscriptions(): void {
    this.#upstreams.forEach(node => node.closeSubscription())
  }

  async #pollUpstream(upstream: UpstreamTracker): Promise<void> {
    await upstream.poll()
    this.#evaluate()
    if (this.#selection.implausible.size > 0) void upstream.checkAncestor().then(() => this.#evaluate())
    const isPlausible = !this.#selection.isImplausible(upstream)
    const [finalized] = await Promise.all([
      isPlausible ? upstream.pollFinalized(block => this.#isOnBestChain(block, upstream)) : undefined,
      this.#followHead(),
    ])
    if (finalized === undefined) return
    if (this.#selection.isImplausible(upstream)) return upstream.discardFinalized()
    await this.#chain.recordFinalized(finalized, upstream)
    this.#publish()
  }

  /** Is the block on the chain of the newest head? A node may call final what all others have left. */
  async #isOnBestChain(finalized: BlockHeader, upstream: UpstreamTracker): Promise<boolean> {
    const best = this.#selection.best
    return best === undefined || best === upstream || (await this.#chain.isCanonical(finalized, best))
  }

  #handleBroadcastHeight(height: number, upstream: string | undefined): number | Promise<number> {
    if (upstream !== undefined) return this.reportHeight(upstream, height)
    this.#reportedHeight.recordPeerHeight(height)
    this.#publish()
    return this.#reportedHeight.sharedHeight
  }

  /** A node has told something unasked. */
  #handleHead(): void {
    this.#evaluate()
    void this.#followHead()
  }

  async #followHead(): Promise<void> {
    await this.#chain.followHead(() => this.#selection.best)
    this.#publish()
  }

  #evaluate(): void {
    this.#selection.evaluate(this.#upstreams).forEach(node => this.#revertImplausible(node))
    const { head, implausible } = this.#selection
    this.#exclusions.evaluate(this.#upstreams, { head, maxLag: this.#maxLagBlocks, implausible })
    const previousHeight = this.#reportedHeight.lowerIfAgreed()
    if (previousHeight !== undefined)
      this.#options.log.warn({ height: this.#reportedHeight.height, told: previousHeight }, 'the chain has become shorter')
    if (head !== undefined) this.#reportedHeight.raise(head.number)
    this.#publish()
  }

  /** What it called final may have been believed already. */
  #revertImplausible(upstream: UpstreamTracker): void {
    const { finalized } = upstream
    upstream.discardFinalized()
    if (finalized !== undefined) this.#chain.revertFinality(upstream, 'what a node called final cannot be believed')
  }

  #discardAllFinalized(): void {
    this.#upstreams.forEach(node => node.discardFinalized())
    this.#publish()
  }

  #publish(): void {
    const [{ head }, { finalized, finalityVersion, recentBlocks }] = [this.#selection, this.#chain]
    const upstreams = this.#upstreams.map(node => this.#stateOf(node))
    this.#current.update({
      ...(head && { head }),
      ...(finalized && { finalized }),
      finalityVersion,
      reportedHeight: this.#reportedHeight.height,
      upstreams,
    })
    this.#options.onChange?.(this.#current.state, recentBlocks)
  }

  #stateOf(upstream: UpstreamTracker): UpstreamState {
    const { name, head, finalized, isSubscribed } = upstream
    const exclusion = this.#exclusions.get(name)
    const isFinalityPlausible = finalized !== undefined && !this.#selection.isImplausible(upstream)
    return { name, ...(head && { head }), ...(isFinalityPlausible && { finalized }), isSubscribed, ...(exclusion && { exclusion }) }
  }
}
