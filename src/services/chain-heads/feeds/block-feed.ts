import type { Verification } from '../../../plugin/reply.ts'
import type { LinkedBlock } from '../recent-blocks.ts'

export interface FeedBlock extends LinkedBlock {
  /** The block's own timestamp, in ms since 1970. */
  readonly timestampMs?: number
  /** JSON text: in the feed `headers` the header as eth_subscribe has it, in `logs` and `receipts` the array of the block's logs or receipts. */
  readonly json: string
  /** What the logs have been verified by since they came from the feed. */
  readonly verified?: Verification | undefined
}

/** A change of the canonical chain: these blocks are removed, the newest first; then these are appended, the oldest first. */
export interface ChainUpdate {
  readonly removed: readonly LinkedBlock[]
  readonly added: readonly FeedBlock[]
}

/** Events that stand each for itself, as JSON texts: a subscriber may miss some. */
export interface EventsUpdate {
  readonly events: readonly string[]
}

export type FeedUpdate = ChainUpdate | EventsUpdate

export interface FeedListener<Update extends FeedUpdate = ChainUpdate> {
  onUpdate(update: Update): void
  /** There are no more updates: the next one would leave blocks out, as too many came while no upstream answered, or because of this bug. */
  onEnd(bug?: unknown): void
}

export interface FeedSubscription {
  /** Resolves with true once the listener gets every later block; with false when no upstream answers, and it gets none. */
  readonly isStarted: Promise<boolean>
  close(): void
}

/**
 * By default the blocks of the canonical chain as they come, in order and without a gap: each is the child of the one before it. `onStarted` and
 * `onSynced` are called in this order too, and not at once: what begins there gets each later update. A promise resolves later.
 */
export interface Feed<Update extends FeedUpdate = ChainUpdate> {
  subscribe(listener: FeedListener<Update>, onStarted?: () => void): FeedSubscription
  /** Resolves, and soon, when the blocks that the upstreams have now have been published; also when they do not answer. */
  sync(onSynced?: () => void): Promise<void>
}

/** What the feeds of a network publish. */
interface FeedUpdates {
  /** Blocks as soon as an upstream has them. */
  readonly headers: ChainUpdate
  /** The same blocks, each as soon as its logs are there. */
  readonly logs: ChainUpdate
  /** The same blocks, each as soon as its receipts are there. */
  readonly receipts: ChainUpdate
  /** The hashes of transactions that come to the pool of one upstream. */
  readonly pendingHashes: EventsUpdate
  /** The same transactions as objects. */
  readonly pendingTransactions: EventsUpdate
  /** That the best upstream begins to synchronize, or has ended. */
  readonly syncing: EventsUpdate
}

export type FeedKind = keyof FeedUpdates

export const feedKinds: readonly FeedKind[] = ['headers', 'logs', 'receipts', 'pendingHashes', 'pendingTransactions', 'syncing']

export type Feeds = { readonly [Kind in FeedKind]: Feed<FeedUpdates[Kind]> }

/** Where a feed gets its blocks from while it has listeners. */
export interface FeedSource {
  /** Resolves with false when no upstream answers; else `onStarted` has been called, not at once, and before any update. */
  start(onStarted: () => void): Promise<boolean>
  /** Also ends a start() that has not resolved. */
  stop(): void
  /** See Feed.sync(). */
  sync(onSynced: () => void): Promise<void>
}

/** Shares one source between all listeners of this process. The source runs only while there are listeners. */
export class SharedFeed<Update extends FeedUpdate = ChainUpdate> implements Feed<Update> {
  readonly #source: FeedSource
  readonly #listeners = new Set<FeedListener<Update>>()
  #started: Promise<boolean> | undefined

  constructor(source: FeedSource) {
    this.#source = source
  }

  subscribe(listener: FeedListener<Update>, onStarted = nothing): FeedSubscription {
    this.#listeners.add(listener)
    const close = (): void => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
      this.#started = undefined
      this.#source.stop()
    }
    const joined = this.#started
    const started = (this.#started ??= this.#source.start(onStarted))
    const isStarted = started.then(isRunning => {
      if (!isRunning) close()
      else if (joined !== undefined) onStarted()
      return isRunning
    })
    return { isStarted, close }
  }

  sync(onSynced = nothing): Promise<void> {
    return this.#source.sync(onSynced)
  }

  publish(update: Update): void {
    for (const listener of this.#listeners) listener.onUpdate(update)
  }

  /** The next listener starts the feed anew. */
  end(): void {
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    this.#started = undefined
    this.#source.stop()
    for (const listener of listeners) listener.onEnd()
  }
}

const nothing = (): void => undefined
