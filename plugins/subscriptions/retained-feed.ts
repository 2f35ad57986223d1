import type { Timer } from '../../src/plugin/plugin.ts'
import type { Clock } from '../../src/plugin/internal.ts'
import type { FeedConsumer } from './feed-consumer.ts'
import { maxUnusedMs } from './used-filters.ts'

/** Keeps a feed running while filters are polled. */
export class RetainedFeed {
  readonly #clock: Clock
  readonly #feed: Pick<FeedConsumer, 'retain' | 'release'>
  #started: Promise<boolean> | undefined
  #usedAt = 0
  #timer: Timer | undefined

  constructor(clock: Clock, feed: Pick<FeedConsumer, 'retain' | 'release'>) {
    this.#clock = clock
    this.#feed = feed
  }

  /** A filter is used. False when the feed does not run. */
  async use(): Promise<boolean> {
    this.#usedAt = this.#clock.monotonic()
    const started = (this.#started ??= this.#start())
    if (await started) return true
    if (this.#started === started) this.end()
    return false
  }

  /** It has ended, or is not needed: the next use starts the feed anew. */
  end(): void {
    if (this.#started === undefined) return
    this.#started = undefined
    this.#timer?.cancel()
    this.#feed.release()
  }

  #start(): Promise<boolean> {
    this.#stopAfter(maxUnusedMs)
    return this.#feed.retain()
  }

  #stopAfter(ms: number): void {
    this.#timer = this.#clock.after(ms, () => {
      const leftMs = this.#usedAt + maxUnusedMs - this.#clock.monotonic()
      if (leftMs > 0) this.#stopAfter(leftMs)
      else this.end()
    })
  }
}
