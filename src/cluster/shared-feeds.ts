import { feedKinds, SharedFeed } from '../services/chain-heads/index.ts'
import type { FeedKind, Feeds, FeedSubscription, FeedUpdate, EventsUpdate, FeedSource } from '../services/chain-heads/index.ts'
import type { WorkerChannel, WorkerMessage, NetworkMessage } from './worker-messages.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'

/** A feed of the primary needs up to 2 s for its start. */
const startTimeoutMs = 3_000

interface WorkerFeedsOptions {
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

/** A feed that is sent to a worker. */
interface WorkerRun {
  readonly subscription: FeedSubscription
  /** Of the worker: from a start of the feed to its stop. */
  run: number
}

/** Sends what one network's feeds publish to the workers whose callers need it. */
export class FeedBroadcast {
  readonly #network: string
  readonly #feeds: Feeds
  readonly #subscriptions: Readonly<Record<FeedKind, Map<WorkerChannel, WorkerRun>>> = {
    headers: new Map(),
    logs: new Map(),
    pendingHashes: new Map(),
    pendingTransactions: new Map(),
    syncing: new Map(),
  }

  constructor(network: string, feeds: Feeds) {
    this.#network = network
    this.#feeds = feeds
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'startFeed') void this.#start(worker, message)
    else if (message.kind === 'stopFeed') this.#stop(worker, message.feed)
  }

  removeWorker(worker: WorkerChannel): void {
    for (const feed of feedKinds) this.#stop(worker, feed)
  }

  /** The workers would miss what comes after. */
  stop(): void {
    for (const feed of feedKinds) {
      for (const [worker, { run }] of this.#subscriptions[feed]) {
        worker.send({ kind: 'feedUpdates', network: this.#network, feed, run })
        this.#stop(worker, feed)
      }
    }
  }

  async #start(worker: WorkerChannel, { feed, id, run }: Extract<WorkerMessage, { kind: 'startFeed' }>): Promise<void> {
    const network = this.#network
    const existing = this.#subscriptions[feed].get(worker)
    if (existing !== undefined) {
      // The worker may have stopped the feed, and started it again with this message: what waits for it is of the run before.
      existing.run = run
      await this.#feeds[feed].sync()
      return worker.send({ kind: 'feedStarted', network, feed, id, isStarted: true })
    }
    const subscription = this.#feeds[feed].subscribe({
      onUpdate: (update: FeedUpdate) => worker.send({ kind: 'feedUpdates', network, feed, run: started.run, updates: [update] }),
      onEnd: () => {
        this.#forget(worker, feed, subscription)
        worker.send({ kind: 'feedUpdates', network, feed, run: started.run })
      },
    })
    const started: WorkerRun = { subscription, run }
    this.#subscriptions[feed].set(worker, started)
    const isStarted = await subscription.isStarted
    if (!isStarted) this.#forget(worker, feed, subscription)
    worker.send({ kind: 'feedStarted', network, feed, id, isStarted })
  }

  /** The worker may have started the feed anew meanwhile. */
  #forget(worker: WorkerChannel, feed: FeedKind, subscription: FeedSubscription): void {
    if (this.#subscriptions[feed].get(worker)?.subscription === subscription) this.#subscriptions[feed].delete(worker)
  }

  #stop(worker: WorkerChannel, feed: FeedKind): void {
    this.#subscriptions[feed].get(worker)?.subscription.close()
    this.#subscriptions[feed].delete(worker)
  }
}
