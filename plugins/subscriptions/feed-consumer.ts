import type { ChainUpdate, Feed, FeedListener, FeedSubscription, FeedUpdate } from '../../src/plugin/plugin.ts'

/** Updates that wait while one is handled, at most: with more the feed ends here. */
const maxWaitingUpdates = 512

interface FeedConsumerOptions<Update extends FeedUpdate = ChainUpdate> {
  readonly feed: Feed<Update>
  /** The first update is not the successor of what was handled before. */
  onStart?(): void
  /** The next update is handled after this one. */
  handle(update: Update): Promise<void>
  /** There are no more updates, though some are still needed. */
  onEnd(): void
}

/** Listens to a feed while somebody needs it. */
export class FeedConsumer<Update extends FeedUpdate = ChainUpdate> implements FeedListener<Update> {
  readonly #options: FeedConsumerOptions<Update>
  #subscription: FeedSubscription | undefined
  #userCount = 0
  #waiting: Update[] = []
  #handling: Promise<void> | undefined

  constructor(options: FeedConsumerOptions<Update>) {
    this.#options = options
  }

  /** Resolves with true once all later blocks are handled, until release(); with false when no upstream answers, or the feed ends. */
  async retain(): Promise<boolean> {
    this.#userCount += 1
    const isRunning = this.#subscription !== undefined
    const subscription = (this.#subscription ??= this.#start())
    const isStarted = await subscription.isStarted
    if (!isStarted && this.#subscription === subscription) this.#subscription = undefined
    // Blocks from before are not for those who come now.
    if (isStarted && isRunning) await this.#options.feed.sync()
    await this.#handling
    // The feed may have ended meanwhile.
    return isStarted && this.#subscription === subscription
  }

  /** To be called once for each retain(), also when that resolved with false. */
  release(): void {
    this.#userCount -= 1
    if (this.#userCount === 0) this.#close()
  }

  onUpdate(update: Update): void {
    this.#waiting.push(update)
    if (this.#waiting.length > maxWaitingUpdates) this.onEnd()
    else this.#handling ??= this.#handleWaiting()
  }

  onEnd(): void {
    this.#close()
    this.#options.onEnd()
  }

  #start(): FeedSubscription {
    this.#options.onStart?.()
    return this.#options.feed.subscribe(this)
  }

  #close(): void {
    this.#subscription?.close()
    this.#subscription = undefined
    this.#waiting = []
  }

  async #handleWaiting(): Promise<void> {
    try {
      for (let update = this.#waiting.shift(); update !== undefined; update = this.#waiting.shift()) await this.#options.handle(update)
    } finally {
      this.#handling = undefined
    }
  }
}
