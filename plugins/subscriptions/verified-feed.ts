import { sleep } from '../../src/plugin/internal.ts'
import type {
  ChainUpdate,
  Feed,
  FeedBlock,
  FeedListener,
  FeedSubscription,
  LinkedBlock,
  MaybePromise,
  Clock,
} from '../../src/plugin/internal.ts'
import type { Services } from '../../src/plugin/plugin.ts'

interface VerifiedFeedOptions {
  readonly feed: Feed
  /** What subscribers get of the block, as JSON text, and what that is verified by; undefined where it cannot be told now. */
  readonly events: Pick<Services['events'], 'verifyLogs' | 'logsVerifiedBy'>
  readonly clock: Clock
}

/** Until a block is verified again. */
const retryIntervalMs = 250
/** A block that cannot be verified for so long ends the feed. */
const maxUnverifiedMs = 60_000
/** A sync waits no longer for blocks that are being verified. */
const maxSyncMs = 2_000

/** A feed whose blocks are published once they are verified, in their order. A block that is removed before is never published. */
export class VerifiedFeed implements Feed {
  readonly #options: VerifiedFeedOptions
  readonly #queues = new Set<VerificationQueue>()

  constructor(options: VerifiedFeedOptions) {
    this.#options = options
  }

  subscribe(listener: FeedListener, onStarted?: () => void): FeedSubscription {
    const queue = new VerificationQueue(listener, this.#options, () => close())
    this.#queues.add(queue)
    const { isStarted, close: closeFeed } = this.#options.feed.subscribe(queue, onStarted)
    const close = (): void => {
      this.#queues.delete(queue)
      queue.stop()
      closeFeed()
    }
    return {
      isStarted: isStarted.then(isRunning => {
        if (!isRunning) close()
        return isRunning
      }),
      close,
    }
  }

  async sync(onSynced?: () => void): Promise<void> {
    let isVerified: Promise<unknown> = Promise.resolve()
    await this.#options.feed.sync(() => {
      // In the order of the updates, also where none has to wait.
      let waiting = this.#queues.size
      const onReached = (): void => {
        waiting -= 1
        if (waiting <= 0) onSynced?.()
      }
      if (waiting === 0) onReached()
      isVerified = Promise.all(Array.from(this.#queues, queue => queue.whenPassed(onReached)))
    })
    await isVerified
  }
}

interface QueuedUpdate {
  readonly update: ChainUpdate
  /** Called behind it. */
  readonly onPassed: (() => void)[]
}

/** The updates of one listener that wait for verification. */
class VerificationQueue implements FeedListener {
  readonly #listener: FeedListener
  readonly #options: VerifiedFeedOptions
  readonly #onFailed: () => void
  #queue: QueuedUpdate[] = []
  #isStopped = false
  #isRunning = false

  constructor(listener: FeedListener, options: VerifiedFeedOptions, onFailed: () => void) {
    this.#listener = listener
    this.#options = options
    this.#onFailed = onFailed
  }

  /** Where nothing is verified, the update passes on at once. */
  onUpdate(update: ChainUpdate): void {
    this.#queue.push({ update, onPassed: [] })
    if (!this.#isRunning) this.#publish()
  }

  onEnd(): void {
    this.stop()
    this.#listener.onEnd()
  }

  stop(): void {
    this.#isStopped = true
    for (const { onPassed } of this.#queue.splice(0)) for (const run of onPassed) run()
  }

  /** `onPassed` is called behind the updates that have come so far, or after a time; then this resolves. */
  whenPassed(onPassed: () => void): Promise<void> {
    return new Promise(resolve => {
      let isDone = false
      const run = (): void => {
        if (isDone) return
        isDone = true
        timer?.cancel()
        onPassed()
        resolve()
      }
      const last = this.#queue.at(-1)
      const timer = last && this.#options.clock.after(maxSyncMs, run)
      if (last === undefined) run()
      else last.onPassed.push(run)
    })
  }

  /** Takes no time unless a block has to wait. */
  #publish(): void {
    this.#isRunning = true
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      const texts = first.update.added.map(block => this.#options.events.verifyLogs(block))
      if (texts.some(text => typeof text !== 'string')) {
        void this.#publishLater(first.update, texts).catch((bug: unknown) => this.#fail(bug))
        return
      }
      this.#pass(texts as readonly string[]) // each is a text
    }
    this.#isRunning = false
  }

  async #publishLater({ added }: ChainUpdate, texts: readonly MaybePromise<string | undefined>[]): Promise<void> {
    const verified: string[] = []
    const found = await Promise.all(texts)
    for (const [i, block] of added.entries()) {
      const text = found[i] ?? (await this.#retry(block))
      if (this.#isStopped) return
      if (text === undefined && !this.#isRemoved(block)) return this.#fail()
      // The blocks behind it are removed too.
      if (text === undefined) break
      verified.push(text)
    }
    if (this.#isStopped) return
    this.#pass(verified)
    this.#publish()
  }

  /** Undefined when the block has been removed, or after a time. */
  async #retry(block: FeedBlock): Promise<string | undefined> {
    const { clock, events } = this.#options
    const deadline = clock.monotonic() + maxUnverifiedMs
    while (clock.monotonic() < deadline && !this.#isStopped && !this.#isRemoved(block)) {
      await sleep(clock, retryIntervalMs)
      const text = await events.verifyLogs(block)
      if (text !== undefined) return text
    }
    return undefined
  }

  #isRemoved({ hash }: LinkedBlock): boolean {
    return this.#queue.slice(1).some(({ update }) => update.removed.some(each => each.hash === hash))
  }

  /** Passes on the first update with the blocks that are verified; the next update that removes one of the others loses it. A block may come back. */
  #pass(texts: readonly string[]): void {
    const first = this.#queue.shift()
    if (first === undefined) return
    const { removed, added } = first.update
    const dropped = new Set(added.slice(texts.length).map(({ hash }) => hash))
    if (dropped.size > 0)
      this.#queue = this.#queue.map(({ update, onPassed }) => ({
        onPassed,
        update: { ...update, removed: update.removed.filter(({ hash }) => !dropped.delete(hash)) },
      }))
    const verified = this.#options.events.logsVerifiedBy()
    const published = added.slice(0, texts.length).map((block, i) => ({ ...block, json: texts[i]!, verified }))
    if (removed.length > 0 || published.length > 0) this.#listener.onUpdate({ removed, added: published })
    for (const run of first.onPassed) run()
  }

  #fail(bug?: unknown): void {
    if (this.#isStopped) return
    this.#onFailed()
    this.#listener.onEnd(bug)
  }
}
