import { feedKinds, SharedFeed } from '../services/chain-heads/index.ts'
import type { FeedKind, Feeds, FeedSubscription, FeedUpdate, EventsUpdate, FeedSource } from '../services/chain-heads/index.ts'
import { getOrCreate } from '../util/memoize.ts'
import { isReply } from '../util/channel.ts'
import type { NoReply } from '../util/channel.ts'
import type { NetworkChannel, WorkerChannel, WorkerFeedRun, WorkerFeedStep } from './worker-messages.ts'

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

  /** From the primary: what has come of a run of the feed. */
  handle(kind: FeedKind, run: number, steps: readonly WorkerFeedStep[]): void {
    const feed: SharedFeed<FeedUpdate> = this[kind] // the primary sends what the feed of this kind publishes
    for (const step of steps) {
      if (this.#sources.get(kind)?.isRunning(run) !== true) return
      if (step === 'ended') feed.end()
      else feed.publish(step)
    }
  }

  #sourceOf(feed: FeedKind): FeedSource {
    return getOrCreate(this.#sources, feed, () => new WorkerFeedSource(feed, this.#channel))
  }
}

/** Of all feeds of this process: what is for the heads of a network must not reach those that a reload has opened anew. */
let runCount = 0

/** One feed of the primary, for a worker. */
class WorkerFeedSource implements FeedSource {
  readonly #feed: FeedKind
  readonly #channel: NetworkChannel
  #run = 0

  constructor(feed: FeedKind, channel: NetworkChannel) {
    this.#feed = feed
    this.#channel = channel
  }

  async start(onStarted: () => void): Promise<boolean> {
    this.#run = runCount += 1
    return (await this.#call(isStarted => void (isStarted && onStarted()))) === true
  }

  stop(): void {
    const { network, primary } = this.#channel
    primary.send('stopFeed', { network, feed: this.#feed })
  }

  /** For a feed that has been started: the reply comes after the blocks that the upstreams have now. */
  async sync(onSynced: () => void): Promise<void> {
    if (!isReply(await this.#call(onSynced))) onSynced()
  }

  /** What was on its way when the feed was stopped is not for those who have started it since. */
  isRunning(run: number): boolean {
    return run === this.#run
  }

  #call(onReply: (isStarted: boolean) => void): Promise<boolean | NoReply> {
    const { network, primary } = this.#channel
    return primary.call('startFeed', { network, feed: this.#feed, run: this.#run }, startTimeoutMs, onReply)
  }
}

/** A feed that is sent to a worker. */
interface SentFeed {
  readonly run: number
  readonly subscription: FeedSubscription
}

/** Sends what one network's feeds publish to the workers whose callers need it. */
export class FeedBroadcast {
  readonly #network: string
  readonly #feeds: Feeds
  readonly #sent = new Map<WorkerChannel, Map<FeedKind, SentFeed>>()

  constructor(network: string, feeds: Feeds) {
    this.#network = network
    this.#feeds = feeds
  }

  removeWorker(worker: WorkerChannel): void {
    for (const feed of feedKinds) this.stopFeed(worker, feed)
    this.#sent.delete(worker)
  }

  /** The workers would miss what comes after. */
  stop(): void {
    for (const [worker, sent] of this.#sent) {
      for (const [feed, { run }] of sent) this.#send(worker, { feed, run }, 'ended')
      this.removeWorker(worker)
    }
  }

  /** See ToPrimary. Replied at once when the feed has started: each update after that is for the worker. */
  async startFeed(worker: WorkerChannel, start: StartedFeed, reply: (isStarted: boolean) => void): Promise<void> {
    const { feed, run } = start
    const sent = getOrCreate(this.#sent, worker, () => new Map<FeedKind, SentFeed>())
    if (sent.has(feed)) return this.#feeds[feed].sync(() => reply(true))
    /** The worker may have started the feed anew meanwhile. */
    const forget = (): void => void (sent.get(feed)?.subscription === subscription && sent.delete(feed))
    const listener = {
      onUpdate: (update: FeedUpdate) => this.#send(worker, start, update),
      onEnd: () => {
        forget()
        this.#send(worker, start, 'ended')
      },
    }
    const subscription = this.#feeds[feed].subscribe(listener, () => reply(true))
    sent.set(feed, { run, subscription })
    if (await subscription.isStarted) return
    forget()
    reply(false)
  }

  stopFeed(worker: WorkerChannel, feed: FeedKind): void {
    const sent = this.#sent.get(worker)
    sent?.get(feed)?.subscription.close()
    sent?.delete(feed)
  }

  #send(worker: WorkerChannel, { feed, run }: StartedFeed, step: WorkerFeedStep): void {
    worker.send('feed', { network: this.#network, feed, run, steps: [step] })
  }
}

type StartedFeed = Omit<WorkerFeedRun, 'network'>
