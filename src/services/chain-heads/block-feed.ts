import type { BlockId } from './recent-blocks.ts'

/** A block of a feed. */
export interface FeedBlock extends BlockId {
  /** The block's own timestamp, in ms since 1970. */
  readonly timestampMs?: number
  /** JSON text: in the feed `headers` the header as eth_subscribe has it, in the feed `logs` the array of the block's logs. */
  readonly json: string
}

/** A change of the canonical chain: these blocks are removed, the newest first; then these are appended, the oldest first. */
export interface ChainUpdate {
  readonly removed: readonly BlockId[]
  readonly added: readonly FeedBlock[]
}

export interface FeedListener {
  onUpdate(update: ChainUpdate): void
  /** There are no more updates: the next one would leave blocks out, as too many came while no upstream answered. */
  onEnd(): void
}

export interface FeedSubscription {
  /** Resolves with true once the listener gets every later block; with false when no upstream answers, and it gets none. */
  readonly isStarted: Promise<boolean>
  close(): void
}

/** The blocks of the canonical chain as they come, in order and without a gap: each is the child of the one before it. */
export interface BlockFeed {
  subscribe(listener: FeedListener): FeedSubscription
  /** Resolves, and soon, when the blocks that the upstreams have now have been published; also when they do not answer. */
  sync(): Promise<void>
}

export const feedKinds = ['headers', 'logs'] as const

/** `headers`: blocks as soon as an upstream has them. `logs`: the same blocks, each as soon as its logs are there. */
export type FeedKind = (typeof feedKinds)[number]

export type BlockFeeds = Readonly<Record<FeedKind, BlockFeed>>

/** Where a feed gets its blocks from while it has listeners. */
export interface FeedSource {
  /** Resolves with false when no upstream answers. */
  start(): Promise<boolean>
  /** Also ends a start() that has not resolved. */
  stop(): void
  /** See BlockFeed.sync(). */
  sync(): Promise<void>
}

/** Shares one source between all listeners of this process. The source runs only while there are listeners. */
export class SharedFeed implements BlockFeed {
  readonly #source: FeedSource
  readonly #listeners = new Set<FeedListener>()
  #started: Promise<boolean> | undefined

  constructor(source: FeedSource) {
    this.#source = source
  }

  subscribe(listener: FeedListener): FeedSubscription {
    this.#listeners.add(listener)
    const close = (): void => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
      this.#started = undefined
      this.#source.stop()
    }
    const started = (this.#started ??= this.#source.start())
    const isStarted = started.then(isRunning => {
      if (!isRunning) close()
      return isRunning
    })
    return { isStarted, close }
  }

  sync(): Promise<void> {
    return this.#source.sync()
  }

  publish(update: ChainUpdate): void {
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
