import { HeadTracker, RecentBlocks, maxRecentBlocks, openPacing, tagBroadcastsOf } from '../services/chain-heads/index.ts'
import type { ChainState, HeadsOptions, HeadsPacing, HeadsStatus, HeightBroadcastsOf } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { withLabels } from '../services/metrics.ts'
import type { Metrics } from '../services/metrics.ts'
import type { UpstreamClient } from '../services/upstream-client/index.ts'
import type { Handlers } from '../util/channel.ts'
import { FeedBroadcast } from './shared-feeds.ts'
import { ReportBroadcast } from './shared-reports.ts'
import { toTarget } from './worker-messages.ts'
import type { Report, Reports, ToPrimary, UpstreamsToTrack, WorkerChannel } from './worker-messages.ts'

export interface SharedHeadsOptions {
  readonly upstreamClient: UpstreamClient
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly heightBroadcastsOf: HeightBroadcastsOf
  /** Is the network in the configuration that serves? */
  isServed(network: string): boolean
  /** As the method table of the network says that serves. */
  errorCategoryOf(network: string): HeadsOptions['errorCategory']
}

/**
 * The heads of every network, tracked once by the primary and shared with its workers: several workers cost the upstreams as
 * many polls as one worker.
 *
 * - A network is tracked from the first worker's `track` message until `stop()`, or until the last worker untracks a network that is no longer
 *   served. Of one that is served, what was reported to callers stays known while no worker tracks it.
 * - The first snapshot of a network is sent when one of its upstreams may get calls, or when none answers as it should. Later
 *   snapshots are sent with each change. A new worker gets the newest snapshot at once.
 * - What is reported is given to callers of any worker only when every worker has acknowledged it (see ReportBroadcast).
 * - The upstreams of all workers are tracked: one that reports other upstreams, because its configuration file has changed, leaves those that
 *   the calls of the others go to. The reported height stays.
 */
export class SharedHeads {
  readonly #options: SharedHeadsOptions
  readonly #pacing = openPacing()
  readonly #networks = new Map<string, SharedNetworkHeads>()

  constructor(options: SharedHeadsOptions) {
    this.#options = options
  }

  /** What `/readyz?verbose` reports about the network; undefined before a worker tracks it. */
  statusOf(network: string): HeadsStatus | undefined {
    return this.#networks.get(network)?.heads.status
  }

  /** As HeadsSource.refresh(). */
  async refresh(): Promise<void> {
    await Promise.all(Array.from(this.#networks.values(), ({ heads }) => heads.refresh()))
  }

  /** Of what a worker sends about networks. Nothing is replied about one that no worker tracks. */
  handlersOf(worker: WorkerChannel): Omit<Handlers<ToPrimary>, 'ready' | 'startFailed' | 'configuration' | 'takeTokens' | 'recallCredits'> {
    const of = ({ network }: { readonly network: string }) => this.#networks.get(network)
    return {
      track: ({ network, upstreams }) =>
        upstreams === undefined ? this.#untrack(worker, network) : this.#track(worker, network, upstreams).addWorker(worker),
      drained: message => of(message)?.setDrained(message.names),
      activity: message => of(message)?.heads.recordActivity(),
      pollLagging: message => of(message)?.heads.pollLagging(),
      sync: (message, reply) => of(message)?.reportBroadcast.sync(worker, reply),
      report: (message, reply) => void of(message)?.report(message).then(reply),
      startFeed: (message, reply) => void of(message)?.feedBroadcast.startFeed(worker, message, reply),
      stopFeed: message => of(message)?.feedBroadcast.stopFeed(worker, message.feed),
    }
  }

  /** The worker has exited. */
  removeWorker(worker: WorkerChannel): void {
    for (const network of this.#networks.values()) network.removeWorker(worker)
  }

  stop(): void {
    for (const network of this.#networks.values()) network.stop()
  }

  #untrack(worker: WorkerChannel, network: string): void {
    const heads = this.#networks.get(network)
    heads?.removeWorker(worker)
    // A reload may have removed the network; then no worker has calls to it any more.
    if (heads?.workers.length !== 0 || this.#options.isServed(network)) return
    heads.stop()
    this.#networks.delete(network)
    this.#options.metrics.removeSeries({ network })
  }

  #track(worker: WorkerChannel, network: string, upstreams: UpstreamsToTrack): SharedNetworkHeads {
    const existing = this.#networks.get(network)
    if (existing?.follow(worker, upstreams) === true) return existing
    const workers = existing?.workers ?? []
    existing?.stop()
    const created = new SharedNetworkHeads(network, upstreams, { ...this.#options, pacing: this.#pacing }, existing?.reports)
    created.follow(worker, upstreams)
    if (existing?.drained !== undefined) created.setDrained([...existing.drained])
    if (existing?.chainId === upstreams.chainId) {
      void created.heads.reportHeight('', existing.heads.snapshot.reportedHeight)
      // Not what the upstreams have answered: there may be other nodes under their names.
      created.heads.tags.adopt(existing.heads.tags.state.reported)
    }
    // Last: they are sent what has been taken over.
    for (const each of workers) created.addWorker(each)
    this.#networks.set(network, created)
    return created
  }
}

const noNodes: ReadonlySet<string> = new Set()

/** The heads of one network, and the workers that they are shared with. */
class SharedNetworkHeads {
  readonly heads: HeadTracker
  readonly reportBroadcast: ReportBroadcast
  readonly feedBroadcast: FeedBroadcast
  readonly chainId: number
  /** As the workers have read it from the store; undefined before one of them has. */
  drained: ReadonlySet<string> | undefined
  #onDrained = () => {}
  readonly #network: string
  readonly #blockTime: number
  readonly #devNode: boolean
  /** The newest blocks that the workers have been sent. */
  readonly #recentBlocks = new RecentBlocks(maxRecentBlocks)
  /** How to stop tracking the upstreams of each worker. */
  readonly #trackings = new Map<WorkerChannel, () => void>()
  /** Publishes the newest state; called first when the chain IDs have been checked, as a worker waits for that. */
  #publishLatest: (() => void) | undefined
  #areChainIdsChecked = false
  #state: ChainState | undefined
  #lastPublished = ''

  /** `reports`: those that its workers know. */
  constructor(
    network: string,
    upstreams: UpstreamsToTrack,
    { heightBroadcastsOf, errorCategoryOf, ...options }: SharedHeadsOptions & { readonly pacing: HeadsPacing },
    reports?: Reports,
  ) {
    const { chainId, blockTime, devNode = false } = upstreams
    this.chainId = chainId
    this.#network = network
    this.#blockTime = blockTime
    this.#devNode = devNode
    this.reportBroadcast = new ReportBroadcast(network, reports)
    this.heads = new HeadTracker({
      ...options,
      chainId,
      blockTime,
      devNode,
      errorCategory: errorCategoryOf(network),
      nodes: this.#drainedNodes(),
      log: options.log.child({ network }),
      metrics: withLabels(options.metrics, { network }),
      heightBroadcasts: [this.reportBroadcast, ...heightBroadcastsOf(network, chainId)],
      tagBroadcasts: tagBroadcastsOf(heightBroadcastsOf, network, chainId),
      onTags: state => this.reportBroadcast.setTags(state),
      onChange: (state, recentBlocks) => {
        this.#publishLatest = () => this.#publish(state, recentBlocks)
        if (this.#areChainIdsChecked) this.#publishLatest()
      },
    })
    this.feedBroadcast = new FeedBroadcast(network, this.heads.feeds)
  }

  setDrained(names: readonly string[]): void {
    if (names.length === this.drained?.size && names.every(name => this.drained?.has(name))) return
    this.drained = new Set(names)
    this.#onDrained()
  }

  #drainedNodes(): NonNullable<HeadsOptions['nodes']> {
    const drained = () => this.drained
    return {
      get drained() {
        return drained() ?? noNodes
      },
      get isDrainedKnown() {
        return drained() !== undefined
      },
      onDrained: listener => {
        this.#onDrained = listener
        return () => (this.#onDrained = () => {})
      },
    }
  }

  get workers(): readonly WorkerChannel[] {
    return this.reportBroadcast.workers
  }

  get reports(): Reports {
    return this.reportBroadcast.reports
  }

  /** False when the upstreams are those of another chain. What is known of upstreams that it tracks already stays. */
  follow(worker: WorkerChannel, { chainId, blockTime, devNode = false, maxLag, targets }: UpstreamsToTrack): boolean {
    if (chainId !== this.chainId || blockTime !== this.#blockTime || devNode !== this.#devNode) return false
    const isFirst = this.#trackings.size === 0
    const stopBefore = this.#trackings.get(worker)
    this.#trackings.set(worker, this.heads.track(targets.map(toTarget), { maxLag }))
    stopBefore?.()
    // The last upstreams stay tracked while no worker has any.
    for (const each of this.#trackings.keys()) if (each !== worker && !this.workers.includes(each)) this.#stopTracking(each)
    if (isFirst) void this.heads.whenChainChecked().then(() => this.#handleChainsChecked())
    return true
  }

  addWorker(worker: WorkerChannel): void {
    this.reportBroadcast.addWorker(worker)
    if (this.#state !== undefined) {
      const change = this.#recentBlocks.changeFrom(new RecentBlocks(maxRecentBlocks))
      worker.send('snapshot', { network: this.#network, state: this.#state, ...(change && { recentBlocks: change }) })
    }
  }

  removeWorker(worker: WorkerChannel): void {
    if (this.#trackings.size > 1) this.#stopTracking(worker)
    this.reportBroadcast.removeWorker(worker)
    this.feedBroadcast.removeWorker(worker)
  }

  /** Resolves with the height that callers may be given when every worker knows. */
  async report({ subject, upstream, fingerprint, block }: Report): Promise<number> {
    const reporter = this.heads.reporterNamed(upstream, fingerprint)
    if (subject === 'latest') return this.heads.reportHeight(reporter, block)
    if (subject === 'transaction') await this.reportBroadcast.recordTransaction()
    else {
      this.heads.tags.report(reporter, subject, block)
      await this.reportBroadcast.whenShared()
    }
    return this.reports.height
  }

  /** No worker gets a message any more, whatever responses still come. */
  stop(): void {
    for (const worker of this.#trackings.keys()) this.#stopTracking(worker)
    this.feedBroadcast.stop()
    for (const worker of this.workers) this.removeWorker(worker)
  }

  #stopTracking(worker: WorkerChannel): void {
    this.#trackings.get(worker)?.()
    this.#trackings.delete(worker)
  }

  #handleChainsChecked(): void {
    this.#areChainIdsChecked = true
    this.#publishLatest?.()
  }

  #publish(state: ChainState, recentBlocks: RecentBlocks): void {
    const change = recentBlocks.changeFrom(this.#recentBlocks)
    const serialized = JSON.stringify(state)
    if (serialized === this.#lastPublished && change === undefined) return
    if (change !== undefined) this.#recentBlocks.apply(change)
    this.#lastPublished = serialized
    this.#state = state
    for (const worker of this.workers) {
      worker.send('snapshot', { network: this.#network, state, ...(change && { recentBlocks: change }) })
    }
  }
}
