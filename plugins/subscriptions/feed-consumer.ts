import type { ChainUpdate, Feed, FeedListener, FeedSubscription, FeedUpdate } from '../../src/plugin/internal.ts'

interface FeedConsumerOptions<Update extends FeedUpdate = ChainUpdate> {
  readonly feed: Feed<Update>
  /** The first update is not the successor of what was handled before. */
  onStart?(): void
  handle(update: Update): void
  /** There are no more updates, though some are still needed; also because handle() has thrown this. */
  onEnd(bug?: unknown): void
}

/** Listens to a feed while somebody needs it. */
export class FeedConsumer<Update extends FeedUpdate = ChainUpdate> implements FeedListener<Update> {
  readonly #options: FeedConsumerOptions<Update>
  #subscription: FeedSubscription | undefined
  #userCount = 0

  constructor(options: FeedConsumerOptions<Update>) {
    this.#options = options
  }

  /**
   * Resolves with true when all later blocks are handled, until release(); with false when no upstream answers, or the feed ends. `onReady` is called
   * first, behind the last block from before and before any later one is handled.
   */
  async retain(onReady?: () => void): Promise<boolean> {
    this.#userCount += 1
    const isRunning = this.#subscription !== undefined
    const subscription = (this.#subscription ??= this.#start(onReady))
    const isStarted = await subscription.isStarted
    if (!isStarted && this.#subscription === subscription) this.#subscription = undefined
    // Blocks from before are not for those who come now.
    if (isStarted && isRunning) await this.#options.feed.sync(onReady)
    // The feed may have ended meanwhile.
    return isStarted && this.#subscription === subscription
  }

  /** To be called once for each retain(), also when that resolved with false. */
  release(): void {
    this.#userCount -= 1
    if (this.#userCount === 0) this.#close()
  }

  /** An update that is not handled would be a gap: it ends the feed. */
  onUpdate(update: Update): void {
    try {
      this.#options.handle(update)
    } catch (bug) {
      this.#close()
      this.#options.onEnd(bug)
    }
  }

  onEnd(bug?: unknown): void {
    this.#close()
    this.#options.onEnd(bug)
  }

  #start(onReady?: () => void): FeedSubscription {
    this.#options.onStart?.()
    return this.#options.feed.subscribe(this, onReady)
  }

  #close(): void {
    this.#subscription?.close()
    this.#subscription = undefined
  }
}
