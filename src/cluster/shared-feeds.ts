import { feedKinds, SharedFeed } from '../services/chain-heads/index.ts'
import type { FeedKind, Feeds, FeedSubscription, FeedUpdate, EventsUpdate, FeedSource } from '../services/chain-heads/index.ts'
import { getOrCreate } from '../util/memoize.ts'
import { PendingReplies } from './channel.ts'
import type { FeedStarted, WorkerFeedStep, NetworkChannel, NetworkMessage, WorkerChannel, WorkerMessage } from './worker-messages.ts'

/** A feed of the primary needs up to 2 s for its start. */
const startTimeoutMs = 3_000

/** The feeds of one network in a worker: the primary sends what they publish while this worker has listeners. */
export class WorkerFeeds implements Feeds {
  readonly headers: SharedFeed
  readonly logs: SharedFeed
  readonly receipts: SharedFeed
  readonly pendingHashes: SharedFeed<EventsUpdate>
  readonly pendingTransactions: SharedFeed<EventsUpdate>
  readonly syncing: SharedFeed<EventsUpdate>
  readonly #channel: NetworkChannel
  readonly #sources = new Map<FeedKind, WorkerFeedSource>()

  constructor(channel: NetworkChannel) {
    this.#channel = channel
    this.headers = new SharedFeed(this.#sourceOf('headers'))
    this.logs = new SharedFeed(this.#sourceOf('logs'))
    this.receipts = new SharedFeed(this.#sourceOf('receipts'))
    this.pendingHashes = new SharedFeed(this.#sourceOf('pendingHashes'))
    this.pendingTransactions = new SharedFeed(this.#sourceOf('pendingTransactions'))
    this.syncing = new SharedFeed(this.#sourceOf('syncing'))
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'feed') for (const step of message.steps) this.#handleStep(message.feed, message.run, step)
  }

  #handleStep(kind: FeedKind, run: number, step: WorkerFeedStep): void {
    const source = this.#sources.get(kind)
    const feed: SharedFeed<FeedUpdate> = this[kind] // the primary sends what the feed of this kind publishes
    if (step !== 'ended' && 'isStarted' in step) source?.handleStarted(step)
    else if (source?.isRunning(run) !== true) return
    else if (step === 'ended') feed.end()
    else feed.publish(step)
  }

  #sourceOf(feed: FeedKind): FeedSource {
    return getOrCreate(this.#sources, feed, () => new WorkerFeedSource(feed, this.#channel))
  }
}

/** One feed of the primary, for a worker. */
class WorkerFeedSource implements FeedSource {
  readonly #feed: FeedKind
  readonly #channel: NetworkChannel
  readonly #replies: PendingReplies<boolean>
  /** The id of the last start. */
  #run = 0

  constructor(feed: FeedKind, channel: NetworkChannel) {
    this.#feed = feed
    this.#channel = channel
    this.#replies = new PendingReplies(channel.clock)
  }

  start(onStarted: () => void): Promise<boolean> {
    return this.#request(
      id => (this.#run = id),
      isStarted => void (isStarted && onStarted()),
    )
  }

  stop(): void {
    const { network, send } = this.#channel
    send({ kind: 'stopFeed', network, feed: this.#feed })
  }

  /** For a feed that has been started: the answer comes after the blocks that the upstreams have now. */
  async sync(onSynced: () => void): Promise<void> {
    await this.#request(() => this.#run, onSynced)
  }

  /** Of several requests, the last may stand for all. */
  handleStarted({ id, isStarted }: FeedStarted): void {
    this.#replies.resolveThrough(id, isStarted)
  }

  /** What was on its way when the feed was stopped is not for those who have started it since. */
  isRunning(run: number): boolean {
    return run === this.#run
  }

  /** `onReply` gets false when there is no reply. */
  #request(runOf: (id: number) => number, onReply: (isStarted: boolean) => void): Promise<boolean> {
    const { network, send } = this.#channel
    const onTimeout = (): false => {
      onReply(false)
      return false
    }
    return this.#replies.request(
      startTimeoutMs,
      id => send({ kind: 'startFeed', network, feed: this.#feed, id, run: runOf(id) }),
      onTimeout,
      onReply,
    )
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
    receipts: new Map(),
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
        this.#send(worker, feed, run, 'ended')
        this.#stop(worker, feed)
      }
    }
  }

  async #start(worker: WorkerChannel, { feed, id, run }: Extract<WorkerMessage, { kind: 'startFeed' }>): Promise<void> {
    const existing = this.#subscriptions[feed].get(worker)
    if (existing !== undefined) {
      // The worker may have stopped the feed, and started it again with this message: what waits for it is of the run before.
      existing.run = run
      return this.#feeds[feed].sync(() => this.#send(worker, feed, existing.run, { id, isStarted: true }))
    }
    const listener = {
      onUpdate: (update: FeedUpdate) => this.#send(worker, feed, started.run, update),
      onEnd: () => {
        this.#forget(worker, feed, subscription)
        this.#send(worker, feed, started.run, 'ended')
      },
    }
    const subscription = this.#feeds[feed].subscribe(listener, () => this.#send(worker, feed, started.run, { id, isStarted: true }))
    const started: WorkerRun = { subscription, run }
    this.#subscriptions[feed].set(worker, started)
    if (await subscription.isStarted) return
    this.#forget(worker, feed, subscription)
    this.#send(worker, feed, started.run, { id, isStarted: false })
  }

  #send(worker: WorkerChannel, feed: FeedKind, run: number, step: WorkerFeedStep): void {
    worker.send({ kind: 'feed', network: this.#network, feed, run, steps: [step] })
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
