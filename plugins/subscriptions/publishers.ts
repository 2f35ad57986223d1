import { getOrCreate } from '../../src/plugin/plugin.ts'
import type { BlockId, ChainUpdate, Clock, EventsUpdate, LinkedBlock, Services } from '../../src/plugin/plugin.ts'
import { BlockLogs, RecentLogs } from './block-logs.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { Filter } from './filter.ts'
import type { LogFilter } from './log-filter.ts'
import type { Subscription } from './subscription.ts'

interface PublisherOptions {
  /** Of one kind, as the filters. */
  readonly subscriptions: ReadonlySet<Subscription>
  readonly filters: ReadonlySet<Filter>
  readonly delivery: EventDelivery
}

/** Publishes each new header, and its hash to filters. Those of removed blocks are not taken back: the headers of the new branch follow. */
export class HeadPublisher {
  readonly tip = new PublishedTip()
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  async publish({ removed, added }: ChainUpdate): Promise<void> {
    const { subscriptions, filters, delivery } = this.#options
    for (const block of removed) this.tip.remove(block)
    for (const block of added) {
      const { json, hash, timestampMs } = block
      this.tip.add(block)
      for (const filter of filters) filter.append([`"${hash}"`], block)
      // All WebSockets share the text.
      const event = [Buffer.from(json).toString('latin1')]
      await delivery.deliver(new Map(Array.from(subscriptions, subscription => [subscription, event])), timestampMs)
    }
  }
}

interface LogPublisherOptions extends PublisherOptions, Pick<Services, 'results'> {}

/** Publishes the logs of each block to the subscriptions and filters that they match, and takes them back when the block is removed. */
export class LogPublisher {
  readonly tip = new PublishedTip()
  readonly #options: LogPublisherOptions
  readonly #recentLogs = new RecentLogs()
  /** Who has been sent logs of a block. */
  readonly #receivers = new WeakMap<BlockLogs, WeakSet<Subscription | Filter>>()

  constructor(options: LogPublisherOptions) {
    this.#options = options
  }

  /** What was published before is not taken back any more. */
  reset(): void {
    this.#recentLogs.clear()
    this.tip.clear()
  }

  /** Resolves with false when logs that were published cannot be taken back, as they are not kept any more. */
  async publish({ removed, added }: ChainUpdate): Promise<boolean> {
    const { subscriptions, filters, delivery, results } = this.#options
    for (const block of removed) {
      this.tip.remove(block)
      const logs = this.#recentLogs.remove(block)
      if (logs === 'unknown') return false
      if (logs !== undefined) await this.#takeBack(logs)
    }
    for (const block of added) {
      const logs = new BlockLogs(block, results)
      this.#recentLogs.add(logs)
      this.tip.add(block)
      const match = (filter: LogFilter) => logs.match(filter)
      const [events, changes] = [matchAll(subscriptions, match), matchAll(filters, match)]
      this.#receivers.set(logs, new WeakSet([...events.keys(), ...changes.keys()]))
      for (const [filter, texts] of changes) filter.append(texts, block)
      await delivery.deliver(events, block.timestampMs)
    }
    return true
  }

  /** A subscription that has not been sent them gets nothing. */
  async #takeBack(logs: BlockLogs): Promise<void> {
    const { subscriptions, filters, delivery } = this.#options
    const receivers = this.#receivers.get(logs)
    const wereSent = <R extends Subscription | Filter>(all: ReadonlySet<R>) => [...all].filter(each => receivers?.has(each))
    const match = (filter: LogFilter) => logs.matchRemoved(filter)
    for (const [filter, texts] of matchAll(wereSent(filters), match)) filter.append(texts, logs)
    await delivery.deliverFree(matchAll(wereSent(subscriptions), match))
  }
}

/** What matches, for those that anything matches. Equal filters are matched once, and share the texts. */
const matchAll = <Receiver extends { readonly topic: { readonly filter?: LogFilter } }>(
  receivers: Iterable<Receiver>,
  match: (filter: LogFilter) => readonly string[],
): ReadonlyMap<Receiver, readonly string[]> => {
  const matches = new Map<string, readonly string[]>()
  const matched = new Map<Receiver, readonly string[]>()
  for (const receiver of receivers) {
    const { filter } = receiver.topic
    const texts = filter === undefined ? [] : getOrCreate(matches, filter.key, () => match(filter))
    if (texts.length > 0) matched.set(receiver, texts)
  }
  return matched
}

interface EventPublisherOptions extends PublisherOptions {
  readonly clock: Clock
}

/** Publishes events that are the same for all subscriptions and filters of their kind, and belong to no block. */
export class EventPublisher {
  readonly #options: EventPublisherOptions

  constructor(options: EventPublisherOptions) {
    this.#options = options
  }

  async publish({ events }: EventsUpdate): Promise<void> {
    const { clock, subscriptions, filters, delivery } = this.#options
    const texts = events.map(event => Buffer.from(event).toString('latin1'))
    for (const filter of filters) filter.append(texts)
    await delivery.deliver(new Map(Array.from(subscriptions, subscription => [subscription, texts])), clock.now())
  }
}

/** The newest block that was published, also after a reorg. */
export class PublishedTip {
  #block: BlockId | undefined

  /** Undefined before the first, and when all blocks are removed. */
  get block(): BlockId | undefined {
    return this.#block
  }

  add({ number, hash }: BlockId): void {
    this.#block = { number, hash }
  }

  /** The block may be from before the first that was published. */
  remove({ number, parentHash }: LinkedBlock): void {
    this.#block = number > 0 ? { number: number - 1, hash: parentHash } : undefined
  }

  clear(): void {
    this.#block = undefined
  }
}
