import { nextFlight, sleep, withTimeoutOr } from '../../util/async.ts'
import type { Clock, Timer } from '../clock.ts'
import { SharedFeed } from './block-feed.ts'
import type { EventsUpdate, FeedBlock, Feeds, FeedSource, FeedSubscription } from './block-feed.ts'
import type { CanonicalChain } from './canonical-chain.ts'
import { HeaderFollower } from './header-follower.ts'
import { LogFollower } from './log-follower.ts'
import { PendingSource } from './pending-source.ts'
import type { ReportedHeight } from './reported-height.ts'
import { isJsonObject } from '../../util/json.ts'
import { parseResult } from './upstream-requests.ts'
import type { UpstreamRequester } from './upstream-requests.ts'

interface ChainFeedsOptions {
  readonly clock: Clock
  readonly chainId: number
  readonly pollIntervalMs: number
  readonly chain: Pick<CanonicalChain, 'headers' | 'upstreams'>
  readonly reportedHeight: Pick<ReportedHeight, 'height' | 'sharedHeight'>
  readonly tracker: {
    /** Polls the upstreams; resolves, and soon, when they have answered. */
    refresh(isCatchUp: true): Promise<void>
    /** The upstreams are polled for another 30 s. */
    recordActivity(): void
  }
}

/** While a feed runs, upstreams are polled, though no calls come in. */
const activityIntervalMs = 10_000
/** A feed that has no head by then does not start. */
const startTimeoutMs = 2_000
const startRetryIntervalMs = 100
/** Requests for the logs of a block, to one upstream after the other, before an empty answer counts that the header contradicts. */
const minEmptyAnswers = 8

/** The feeds of the process that tracks the upstreams. */
export class ChainFeeds implements Feeds {
  readonly headers: SharedFeed
  readonly logs: SharedFeed
  readonly pendingHashes: SharedFeed<EventsUpdate>
  readonly pendingTransactions: SharedFeed<EventsUpdate>
  readonly syncing: SharedFeed<EventsUpdate>
  readonly #options: ChainFeedsOptions
  readonly #follower: HeaderFollower
  #activityTimer: Timer | undefined
  #logFollower: { readonly follower: LogFollower; readonly subscription: FeedSubscription } | undefined
  #startCount = 0
  /** Empty answers about the block whose logs are requested, which its header contradicts. */
  #emptyAnswers = { hash: '', count: 0 }

  constructor(options: ChainFeedsOptions) {
    const { chain, reportedHeight } = options
    this.#options = options
    this.headers = new SharedFeed({ start: () => this.#startHeaders(), stop: () => this.#stopHeaders(), sync: this.#syncHeaders })
    this.logs = new SharedFeed({ start: () => this.#startLogs(), stop: () => this.#stopLogs(), sync: () => this.#syncLogs() })
    const upstreams = () => chain.upstreams
    const pendingSource = (isFull: boolean, publish: (update: EventsUpdate) => void) =>
      this.#polling(new PendingSource({ ...options, random: Math.random, isFull, upstreams, publish }))
    this.pendingHashes = new SharedFeed(pendingSource(false, update => this.pendingHashes.publish(update)))
    this.pendingTransactions = new SharedFeed(pendingSource(true, update => this.pendingTransactions.publish(update)))
    this.syncing = new SharedFeed(
      this.#polling(new SyncingSource({ ...options, upstreams, publish: update => this.syncing.publish(update) })),
    )
    this.#follower = new HeaderFollower({
      head: () => chain.upstreams[0]?.headBlock,
      reportedHeight: () => reportedHeight.height,
      whenHeightShared: () => reportedHeight.sharedHeight,
      fetchBlock: hash => chain.headers.fetch(hash, chain.upstreams),
      publish: update => this.headers.publish(update),
      end: () => this.headers.end(),
    })
  }

  /** The head of an upstream may have changed. */
  advance(): Promise<void> {
    return this.#follower.advance()
  }

  /** The same source; while it runs, the upstreams are polled, so that it is known which is the best. */
  #polling(source: FeedSource): FeedSource {
    const { clock, tracker } = this.#options
    let timer: Timer | undefined
    let startCount = 0
    return {
      async start() {
        const start = (startCount += 1)
        await tracker.refresh(true)
        if (start !== startCount) return false
        tracker.recordActivity()
        timer = clock.every(activityIntervalMs, () => tracker.recordActivity())
        return source.start()
      },
      stop() {
        startCount += 1
        timer?.cancel()
        source.stop()
      },
      sync: () => source.sync(),
    }
  }

  readonly #syncHeaders = nextFlight(async () => {
    await this.#options.tracker.refresh(true)
    await this.advance()
  })

  async #syncLogs(): Promise<void> {
    await this.#syncHeaders()
    const idle = this.#logFollower?.follower.whenIdle() ?? Promise.resolve()
    await withTimeoutOr(this.#options.clock, startTimeoutMs, idle, () => undefined)
  }

  /** Begins with the newest block of a poll: what an upstream reported before may be old, as it is polled only while calls come in. */
  async #startHeaders(): Promise<boolean> {
    const { clock, chain, tracker } = this.#options
    const start = (this.#startCount += 1)
    const headsReceived = () => chain.upstreams.reduce((sum, upstream) => sum + upstream.headsReceived, 0)
    const [receivedBefore, deadline] = [headsReceived(), clock.monotonic() + startTimeoutMs]
    this.#activityTimer = clock.every(activityIntervalMs, () => tracker.recordActivity())
    for (;;) {
      await tracker.refresh(true)
      tracker.recordActivity()
      const base = chain.upstreams[0]?.headBlock
      if (start !== this.#startCount) return false
      if (base !== undefined && headsReceived() > receivedBefore) {
        this.#follower.start(base)
        return true
      }
      if (clock.monotonic() >= deadline) return false
      await sleep(clock, startRetryIntervalMs)
    }
  }

  #stopHeaders(): void {
    this.#startCount += 1
    this.#activityTimer?.cancel()
    this.#follower.stop()
  }

  #startLogs(): Promise<boolean> {
    const { clock, pollIntervalMs } = this.#options
    const follower = new LogFollower({
      clock,
      retryIntervalMs: pollIntervalMs,
      fetchLogs: block => this.#fetchLogs(block),
      publish: update => this.logs.publish(update),
      end: () => this.logs.end(),
    })
    const subscription = this.headers.subscribe(follower)
    this.#logFollower = { follower, subscription }
    return subscription.isStarted
  }

  #stopLogs(): void {
    this.#logFollower?.subscription.close()
    this.#logFollower?.follower.stop()
  }

  /** A node that does not know the block yet may answer that it has no logs: the header tells better. */
  async #fetchLogs(block: FeedBlock): Promise<string | undefined> {
    for (const upstream of this.#options.chain.upstreams) {
      const logs = await upstream.fetchLogs(block.hash)
      if (logs === undefined || (isEmptyArray(logs) && hasLogs(block) && this.#countEmptyAnswer(block) < minEmptyAnswers)) continue
      return logs
    }
    return undefined
  }

  #countEmptyAnswer({ hash }: FeedBlock): number {
    if (this.#emptyAnswers.hash !== hash) this.#emptyAnswers = { hash, count: 0 }
    return (this.#emptyAnswers.count += 1)
  }
}

const isEmptyArray = (json: string): boolean => /^\s*\[\s*\]\s*$/.test(json)

/** The bloom filter of a block without logs is zero. Some networks leave it zero in every block. */
const hasLogs = ({ json }: FeedBlock): boolean => /"logsBloom":"0x0*[^0"]/.test(json)

/** Nodes synchronize for minutes. */
const pollIntervalMs = 5_000

interface SyncingSourceOptions {
  readonly clock: Clock
  /** The best first. */
  upstreams(): readonly { readonly request: UpstreamRequester }[]
  publish(update: EventsUpdate): void
}

/** Polls eth_syncing of the best upstream. What that says at the start is no event: only a change is, as geth does it. */
export class SyncingSource implements FeedSource {
  readonly #options: SyncingSourceOptions
  #timer: Timer | undefined
  #isSyncing: boolean | undefined

  constructor(options: SyncingSourceOptions) {
    this.#options = options
  }

  async start(): Promise<boolean> {
    const timer = this.#options.clock.every(pollIntervalMs, () => void this.sync())
    this.#timer = timer
    await this.sync()
    return this.#timer === timer && this.#isSyncing !== undefined
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = this.#isSyncing = undefined
  }

  async sync(): Promise<void> {
    const [timer, [best]] = [this.#timer, this.#options.upstreams()]
    const status = best && parseResult(await best.request('eth_syncing'))
    const isSyncing = isJsonObject(status)
    if (timer !== this.#timer || (status !== false && !isSyncing)) return
    const before = this.#isSyncing
    this.#isSyncing = isSyncing
    if (before === undefined || before === isSyncing) return
    this.#options.publish({ events: [isSyncing ? JSON.stringify({ syncing: true, status }) : 'false'] })
  }
}
