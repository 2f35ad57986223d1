import type { FeedKind, Feeds, FeedSubscription, FeedUpdate } from '../services/chain-heads/index.ts'
import { feedKinds } from '../services/chain-heads/index.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'

/** Sends what one network's feeds publish to the workers whose callers need it. */
export class FeedBroadcast {
  readonly #network: string
  readonly #feeds: Feeds
  readonly #subscriptions: Readonly<Record<FeedKind, Map<WorkerChannel, FeedSubscription>>> = {
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
    if (message.kind === 'startFeed') void this.#start(worker, message.feed, message.id)
    else if (message.kind === 'stopFeed') this.#stop(worker, message.feed)
  }

  removeWorker(worker: WorkerChannel): void {
    for (const feed of feedKinds) this.#stop(worker, feed)
  }

  /** The workers would miss what comes after. */
  stop(): void {
    for (const feed of feedKinds) {
      for (const worker of this.#subscriptions[feed].keys()) {
        worker.send({ kind: 'feedUpdates', network: this.#network, feed })
        this.#stop(worker, feed)
      }
    }
  }

  async #start(worker: WorkerChannel, feed: FeedKind, id: number): Promise<void> {
    const network = this.#network
    if (this.#subscriptions[feed].has(worker)) {
      await this.#feeds[feed].sync()
      return worker.send({ kind: 'feedStarted', network, feed, id, isStarted: true })
    }
    const subscription = this.#feeds[feed].subscribe({
      onUpdate: (update: FeedUpdate) => worker.send({ kind: 'feedUpdates', network, feed, updates: [update] }),
      onEnd: () => {
        this.#forget(worker, feed, subscription)
        worker.send({ kind: 'feedUpdates', network, feed })
      },
    })
    this.#subscriptions[feed].set(worker, subscription)
    const isStarted = await subscription.isStarted
    if (!isStarted) this.#forget(worker, feed, subscription)
    worker.send({ kind: 'feedStarted', network, feed, id, isStarted })
  }

  /** The worker may have started the feed anew meanwhile. */
  #forget(worker: WorkerChannel, feed: FeedKind, subscription: FeedSubscription): void {
    if (this.#subscriptions[feed].get(worker) === subscription) this.#subscriptions[feed].delete(worker)
  }

  #stop(worker: WorkerChannel, feed: FeedKind): void {
    this.#subscriptions[feed].get(worker)?.close()
    this.#subscriptions[feed].delete(worker)
  }
}
