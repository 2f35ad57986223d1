import { SharedFeed } from '../services/chain-heads/index.ts'
import type { EventsUpdate, FeedKind, Feeds, FeedSource, FeedUpdate } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { NetworkMessage, WorkerMessage } from './channel.ts'

/** A feed of the primary needs up to 2 s for its start. */
const startTimeoutMs = 3_000

export interface WorkerFeedsOptions {
  readonly network: string
  readonly clock: Clock
  send(message: WorkerMessage): void
}

/** The feeds of one network in a worker: the primary sends what they publish while this worker has listeners. */
export class WorkerFeeds implements Feeds {
  readonly headers: SharedFeed
  readonly logs: SharedFeed
  readonly pendingHashes: SharedFeed<EventsUpdate>
  readonly pendingTransactions: SharedFeed<EventsUpdate>
  readonly syncing: SharedFeed<EventsUpdate>
  readonly #options: WorkerFeedsOptions
  /** By id. */
  readonly #pendingStarts = new Map<number, { readonly feed: FeedKind; resolve(isStarted: boolean): void }>()
  /** By feed: the id of its last start. */
  readonly #runs = new Map<FeedKind, number>()
  #lastId = 0

  constructor(options: WorkerFeedsOptions) {
    this.#options = options
    this.headers = new SharedFeed(this.#sourceOf('headers'))
    this.logs = new SharedFeed(this.#sourceOf('logs'))
    this.pendingHashes = new SharedFeed(this.#sourceOf('pendingHashes'))
    this.pendingTransactions = new SharedFeed(this.#sourceOf('pendingTransactions'))
    this.syncing = new SharedFeed(this.#sourceOf('syncing'))
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'feedStarted') this.#resolveStarts(message)
    // What was on its way when the feed was stopped is not for those who have started it since.
    else if (message.kind === 'feedUpdates' && message.run === this.#runs.get(message.feed)) this.#publish(message.feed, message.updates)
  }

  /** Of several requests for one feed, the last may stand for all. */
  #resolveStarts({ feed, id, isStarted }: Extract<NetworkMessage, { kind: 'feedStarted' }>): void {
    for (const [pendingId, pending] of this.#pendingStarts) if (pending.feed === feed && pendingId <= id) pending.resolve(isStarted)
  }

  #publish(kind: FeedKind, updates: readonly FeedUpdate[] | undefined): void {
    const feed: SharedFeed<FeedUpdate> = this[kind] // the primary sends what the feed of this kind publishes
    if (updates === undefined) feed.end()
    else for (const update of updates) feed.publish(update)
  }

  #sourceOf(feed: FeedKind): FeedSource {
    const { network, send } = this.#options
    return {
      start: () => {
        this.#runs.set(feed, this.#lastId + 1)
        return this.#start(feed)
      },
      stop: () => send({ kind: 'stopFeed', network, feed }),
      sync: async () => void (await this.#start(feed)),
    }
  }

  /** For a feed that has been started: the answer comes after the blocks that the upstreams have now. */
  async #start(feed: FeedKind): Promise<boolean> {
    const { network, clock, send } = this.#options
    const id = (this.#lastId += 1)
    const started = new Promise<boolean>(resolve => this.#pendingStarts.set(id, { feed, resolve }))
    send({ kind: 'startFeed', network, feed, id, run: this.#runs.get(feed) ?? id })
    const isStarted = await withTimeoutOr(clock, startTimeoutMs, started, () => false)
    this.#pendingStarts.delete(id)
    return isStarted
  }
}
