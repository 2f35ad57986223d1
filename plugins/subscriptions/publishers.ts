import { LRUCache } from 'lru-cache'
import { getOrCreate } from '../../src/plugin/internal.ts'
import type { ChainUpdate, EventsUpdate, FeedBlock, LinkedBlock } from '../../src/plugin/internal.ts'
import type { Services } from '../../src/plugin/plugin.ts'
import { BlockLogs } from './block-logs.ts'
import { BlockReceipts } from './block-receipts.ts'
import { bytesOfTexts } from './event-delivery.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { LogFilter } from './log-filter.ts'
import { PublishedBlocks } from './published-blocks.ts'
import { RecentEvents } from './recent-events.ts'
import type { Subscription } from './subscription.ts'

interface PublisherOptions {
  /** Of one kind. */
  readonly subscriptions: ReadonlySet<Subscription>
  readonly delivery: Pick<EventDelivery, 'deliver'>
}

/** Of the headers: the blocks of 5 minutes on a fast network. A filter may be unused for so long. */
const maxHeaders = 2_048

/** Of the logs. A reorg takes them back, and filters are answered from them. */
const maxBlocksWithLogs = 512
const maxLogBytes = 32 << 20
/** Of indexed logs: the filters of a network are polled for the same newest blocks. */
const maxIndexedBytes = 12 << 20
const maxIndexedBlocks = 128

/** Publishes each new header. Those of removed blocks are not taken back: the headers of the new branch follow. */
export class HeadPublisher {
  readonly published = new PublishedBlocks<LinkedBlock>({ maxBlocks: maxHeaders, maxBytes: 0, bytesOf: () => 0 })
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  publish({ removed, added }: ChainUpdate): void {
    const { subscriptions, delivery } = this.#options
    for (const block of removed) this.published.remove(block)
    for (const { json, number, hash, parentHash } of added) {
      this.published.add({ number, hash, parentHash })
      // All WebSockets share the text.
      const event = [Buffer.from(json).toString('latin1')]
      delivery.deliver(subscriptions, { bytes: bytesOfTexts(event), newMatcher: () => () => event })
    }
  }
}

interface BlockDataPublisherOptions extends PublisherOptions, Pick<Services, 'results'> {}

/** Publishes the logs of each block to the subscriptions that they match, and takes them back when the block is removed. */
export class LogPublisher {
  readonly published = new PublishedBlocks<FeedBlock>({ maxBlocks: maxBlocksWithLogs, maxBytes: maxLogBytes, bytesOf })
  readonly #options: BlockDataPublisherOptions
  /** By hash. */
  readonly #indexed = new LRUCache<string, BlockLogs>({
    max: maxIndexedBlocks,
    maxSize: maxIndexedBytes,
    sizeCalculation: ({ bytes }) => bytes,
  })
  /** Who has been sent logs of a block. */
  readonly #receivers = new WeakMap<FeedBlock, WeakSet<Subscription>>()

  constructor(options: BlockDataPublisherOptions) {
    this.#options = options
  }

  /** False when logs that were published cannot be taken back, as they are not kept any more. */
  publish({ removed, added }: ChainUpdate): boolean {
    const { subscriptions, delivery } = this.#options
    for (const block of removed) {
      const published = this.published.remove(block)
      if (published === 'unknown') {
        this.published.clear()
        return false
      }
      if (published !== undefined) this.#takeBack(published)
    }
    for (const block of added) {
      const logs = this.logsOf(block)
      this.published.add(block)
      const receivers = new WeakSet<Subscription>()
      this.#receivers.set(block, receivers)
      delivery.deliver(subscriptions, {
        bytes: logs.bytes,
        newMatcher: () => matcherOf(filter => logs.match(filter)),
        onSent: subscription => void receivers.add(subscription),
      })
    }
    return true
  }

  /** Of a block that was published: the text is kept, and indexed anew when it is needed again later. */
  logsOf(block: FeedBlock): BlockLogs {
    const indexed = this.#indexed.get(block.hash) ?? new BlockLogs(block, this.#options.results)
    this.#indexed.set(block.hash, indexed)
    return indexed
  }

  /** Whoever has not been sent them gets nothing. What is being delivered is sent, or not, before it is taken back. */
  #takeBack(block: FeedBlock): void {
    const { subscriptions, delivery } = this.#options
    const logs = this.logsOf(block)
    const receivers = this.#receivers.get(block)
    const newMatcher = () => {
      const matchRemoved = matcherOf(filter => logs.matchRemoved(filter))
      return (receiver: Subscription) => (receivers?.has(receiver) === true ? matchRemoved(receiver) : [])
    }
    delivery.deliver(subscriptions, { bytes: logs.bytes, newMatcher, isFree: true })
  }
}

/** Of the text, and at most: V8 takes two bytes for each character of a text that has any above 255. */
const bytesOf = ({ json }: FeedBlock): number => (Buffer.byteLength(json) === json.length ? 1 : 2) * json.length

/** What matches the filter of each. Equal filters are matched once, and share the texts. */
const matcherOf = (match: (filter: LogFilter) => readonly string[]) => {
  const matches = new Map<string, readonly string[]>()
  return ({ topic: { filter } }: { readonly topic: { readonly filter?: LogFilter } }): readonly string[] =>
    filter === undefined ? [] : getOrCreate(matches, filter.key, () => match(filter))
}

/** Publishes the receipts of each block as one event. Those of removed blocks are not taken back: as with geth, those of the new branch follow. */
export class ReceiptPublisher {
  readonly #options: BlockDataPublisherOptions

  constructor(options: BlockDataPublisherOptions) {
    this.#options = options
  }

  publish({ added }: ChainUpdate): void {
    const { subscriptions, delivery, results } = this.#options
    for (const block of added) {
      const receipts = new BlockReceipts(block, results)
      const newMatcher = () => {
        const matches = new Map<string, readonly string[]>()
        return ({ topic: { receiptFilter } }: Subscription): readonly string[] =>
          receiptFilter === undefined ? [] : getOrCreate(matches, receiptFilter.key, () => receipts.match(receiptFilter))
      }
      delivery.deliver(subscriptions, { bytes: receipts.bytes, newMatcher })
    }
  }
}

/** Publishes events that are the same for all subscriptions of their kind, and belong to no block. */
export class EventPublisher {
  readonly published = new RecentEvents()
  readonly #options: PublisherOptions

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  publish({ events }: EventsUpdate): void {
    const { subscriptions, delivery } = this.#options
    const texts = events.map(event => Buffer.from(event).toString('latin1'))
    this.published.add(texts)
    delivery.deliver(subscriptions, { bytes: bytesOfTexts(texts), newMatcher: () => () => texts })
  }
}
