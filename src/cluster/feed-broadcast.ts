import type { FeedKind, Feeds, FeedSubscription, FeedUpdate } from '../services/chain-heads/index.ts'
import { feedKinds } from '../services/chain-heads/index.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'

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
