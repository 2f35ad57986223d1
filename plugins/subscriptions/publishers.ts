import { getOrCreate } from '../../src/plugin/plugin.ts'
import type { BlockId, ChainUpdate, EventsUpdate, FeedBlock, LinkedBlock, Services } from '../../src/plugin/plugin.ts'
import { BlockLogs, RecentLogs } from './block-logs.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { Filter } from './filter.ts'
import type { LogFilter } from './log-filter.ts'
import type { Subscription } from './subscription.ts'

interface PublisherOptions {
  /** Of one kind, as the filters. */
  readonly subscriptions: ReadonlySet<Subscription>
  readonly filters: ReadonlySet<Filter>
  readonly delivery: Pick<EventDelivery, 'deliver'>
}

/** Publishes each new header, and its hash to filters. Those of removed blocks are not taken back: the headers of the new branch follow. */
export class HeadPublisher {
  readonly tip = new PublishedTip()
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  publish({ removed, added }: ChainUpdate): void {
    const { subscriptions, filters, delivery } = this.#options
    for (const block of removed) this.tip.remove(block)
    for (const block of added) {
      const { json, hash } = block
      this.tip.add(block)
      for (const filter of filters) filter.append([`"${hash}"`], block)
      // All WebSockets share the text.
      const event = [Buffer.from(json).toString('latin1')]
      delivery.deliver(subscriptions, { size: json.length, of: () => event })
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
  readonly #receivers = new WeakMap<FeedBlock, WeakSet<Subscription | Filter>>()

  constructor(options: LogPublisherOptions) {
    this.#options = options
  }

  /** What was published before is not taken back any more. */
  reset(): void {
    this.#recentLogs.clear()
    this.tip.clear()
  }

  /** False when logs that were published cannot be taken back, as they are not kept any more. */
  publish({ removed, added }: ChainUpdate): boolean {
    const { subscriptions, filters, delivery, results } = this.#options
    for (const block of removed) {
      this.tip.remove(block)
      const published = this.#recentLogs.remove(block)
      if (published === 'unknown') return false
      if (published !== undefined) this.#takeBack(published)
    }
    for (const block of added) {
      const logs = new BlockLogs(block, results)
      this.#recentLogs.add(block)
      this.tip.add(block)
      const receivers = new WeakSet<Subscription | Filter>()
      this.#receivers.set(block, receivers)
      const match = matcherOf(filter => logs.match(filter))
      for (const filter of filters) {
        const texts = match(filter)
        if (texts.length === 0) continue
        receivers.add(filter)
        filter.append(texts, block)
      }
      delivery.deliver(subscriptions, { size: logs.size, of: match, onSent: subscription => void receivers.add(subscription) })
    }
    return true
  }

  /** Whoever has not been sent them gets nothing. What is being delivered is sent, or not, before it is taken back. */
  #takeBack(block: FeedBlock): void {
    const { subscriptions, filters, delivery, results } = this.#options
    const logs = new BlockLogs(block, results)
    const receivers = this.#receivers.get(block)
    const matchRemoved = matcherOf(filter => logs.matchRemoved(filter))
    const match = (receiver: Subscription | Filter) => (receivers?.has(receiver) === true ? matchRemoved(receiver) : [])
    for (const filter of filters) filter.append(match(filter), block)
    delivery.deliver(subscriptions, { size: logs.size, of: match, isFree: true })
  }
}

/** What matches the filter of each. Equal filters are matched once, and share the texts. */
const matcherOf = (match: (filter: LogFilter) => readonly string[]) => {
  const matches = new Map<string, readonly string[]>()
  return ({ topic: { filter } }: { readonly topic: { readonly filter?: LogFilter } }): readonly string[] =>
    filter === undefined ? [] : getOrCreate(matches, filter.key, () => match(filter))
}

/** Publishes events that are the same for all subscriptions and filters of their kind, and belong to no block. */
export class EventPublisher {
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  publish({ events }: EventsUpdate): void {
    const { subscriptions, filters, delivery } = this.#options
    const texts = events.map(event => Buffer.from(event).toString('latin1'))
    for (const filter of filters) filter.append(texts)
    const size = texts.reduce((sum, { length }) => sum + length, 0)
    delivery.deliver(subscriptions, { size, of: () => texts })
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
