import { isJsonObject } from '../../../util/json.ts'
import type { Clock, Timer } from '../../clock.ts'
import type { Log } from '../../log.ts'
import { parseResult } from '../upstream-requests.ts'
import type { BlockDataKind, UpstreamRequester } from '../upstream-requests.ts'
import { BlockDataSource } from './block-data-source.ts'
import { SharedFeed } from './block-feed.ts'
import type { EventsUpdate, Feeds, FeedSource } from './block-feed.ts'
import { HeaderSource, activityIntervalMs } from './header-source.ts'
import type { FeedSourceOptions } from './header-source.ts'
import { PendingSource } from './pending-source.ts'

interface ChainFeedsOptions extends FeedSourceOptions {
  readonly chainId: number
  readonly log: Log
  readonly pollIntervalMs: number
  /** An operator has drained the upstream. */
  isDrained(upstream: string): boolean
}

/** The feeds of the process that tracks the upstreams. */
export class ChainFeeds implements Feeds {
  readonly headers: SharedFeed
  readonly logs: SharedFeed
  readonly receipts: SharedFeed
  readonly pendingHashes: SharedFeed<EventsUpdate>
  readonly pendingTransactions: SharedFeed<EventsUpdate>
  readonly syncing: SharedFeed<EventsUpdate>
  readonly #headerSource: HeaderSource

  constructor(options: ChainFeedsOptions) {
    this.#headerSource = new HeaderSource({
      ...options,
      publish: update => this.headers.publish(update),
      end: () => this.headers.end(),
    })
    this.headers = new SharedFeed(this.#headerSource)
    const dataSource = (kind: BlockDataKind) =>
      new BlockDataSource({
        ...options,
        kind,
        headers: this.headers,
        publish: update => this[kind].publish(update),
        end: () => this[kind].end(),
      })
    this.logs = new SharedFeed(dataSource('logs'))
    this.receipts = new SharedFeed(dataSource('receipts'))
    const upstreams = () => options.chain.upstreams
    const pendingSource = (isFull: boolean, publish: (update: EventsUpdate) => void) =>
      polling(() => new PendingSource({ ...options, random: Math.random, isFull, upstreams, publish }), options)
    this.pendingHashes = new SharedFeed(pendingSource(false, update => this.pendingHashes.publish(update)))
    this.pendingTransactions = new SharedFeed(pendingSource(true, update => this.pendingTransactions.publish(update)))
    const publishSyncing = (update: EventsUpdate) => this.syncing.publish(update)
    this.syncing = new SharedFeed(polling(() => new SyncingSource({ ...options, upstreams, publish: publishSyncing }), options))
  }

  /** The head of an upstream may have changed. */
  advance(): Promise<void> {
    return this.#headerSource.advance()
  }
}

/** The same source, made when it is needed first; while it runs, the upstreams are polled, so that it is known which is the best. */
const polling = (create: () => FeedSource, { clock, tracker }: Pick<FeedSourceOptions, 'clock' | 'tracker'>): FeedSource => {
  let created: FeedSource | undefined
  const source = (): FeedSource => (created ??= create())
  let timer: Timer | undefined
  let startCount = 0
  return {
    async start(onStarted) {
      const start = (startCount += 1)
      await tracker.refresh(true)
      if (start !== startCount) return false
      tracker.recordActivity()
      timer = clock.every(activityIntervalMs, () => tracker.recordActivity())
      return source().start(onStarted)
    },
    stop() {
      startCount += 1
      timer?.cancel()
      created?.stop()
    },
    sync: onSynced => source().sync(onSynced),
  }
}

/** Nodes synchronize for minutes. */
const syncingPollIntervalMs = 5_000

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

  async start(onStarted: () => void): Promise<boolean> {
    const timer = this.#options.clock.every(syncingPollIntervalMs, () => void this.#poll())
    this.#timer = timer
    await this.#poll()
    const isStarted = this.#timer === timer && this.#isSyncing !== undefined
    if (isStarted) onStarted()
    return isStarted
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = this.#isSyncing = undefined
  }

  async sync(onSynced: () => void): Promise<void> {
    await this.#poll()
    onSynced()
  }

  async #poll(): Promise<void> {
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
