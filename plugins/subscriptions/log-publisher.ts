import { getOrCreate } from '../../src/plugin/plugin.ts'
import type { ChainUpdate, Services, BlockId } from '../../src/plugin/plugin.ts'
import { BlockLogs } from './block-logs.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { Filter } from './filter.ts'
import type { LogFilter } from './log-filter.ts'
import { PublishedTip } from './published-tip.ts'
import type { Subscription } from './subscription.ts'

interface LogPublisherOptions extends Pick<Services, 'results'> {
  readonly subscriptions: ReadonlySet<Subscription>
  readonly filters: ReadonlySet<Filter>
  readonly delivery: EventDelivery
}

/** Publishes the logs of each block to the subscriptions and filters that they match, and takes them back when the block is removed. */
export class LogPublisher {
  readonly tip = new PublishedTip()
  readonly #subscriptions: ReadonlySet<Subscription>
  readonly #filters: ReadonlySet<Filter>
  readonly #delivery: EventDelivery
  readonly #results: Services['results']
  readonly #recentLogs = new RecentLogs()
  /** Who has been sent logs of a block. */
  readonly #receivers = new WeakMap<BlockLogs, WeakSet<Subscription | Filter>>()

  constructor({ subscriptions, filters, delivery, results }: LogPublisherOptions) {
    this.#subscriptions = subscriptions
    this.#filters = filters
    this.#delivery = delivery
    this.#results = results
  }

  /** What was published before is not taken back any more. */
  reset(): void {
    this.#recentLogs.clear()
    this.tip.clear()
  }

  /** Resolves with false when logs that were published cannot be taken back, as they are not kept any more. */
  async publish({ removed, added }: ChainUpdate): Promise<boolean> {
    for (const block of removed) {
      this.tip.remove(block)
      const logs = this.#recentLogs.remove(block)
      if (logs === 'unknown') return false
      if (logs !== undefined) await this.#takeBack(logs)
    }
    for (const block of added) {
      const logs = new BlockLogs(block, this.#results)
      this.#recentLogs.add(logs)
      this.tip.add(block)
      const match = (filter: LogFilter) => logs.match(filter)
      const [events, changes] = [matchAll(this.#subscriptions, match), matchAll(this.#filters, match)]
      this.#receivers.set(logs, new WeakSet([...events.keys(), ...changes.keys()]))
      for (const [filter, texts] of changes) filter.append(texts, block)
      await this.#delivery.deliver(events, block.timestampMs)
    }
    return true
  }

  /** A subscription that has not been sent them gets nothing. */
  async #takeBack(logs: BlockLogs): Promise<void> {
    const receivers = this.#receivers.get(logs)
    const match = (filter: LogFilter) => logs.matchRemoved(filter)
    const [subscriptions, filters] = [this.#subscriptions, this.#filters]
    for (const [filter, texts] of matchAll(
      [...filters].filter(each => receivers?.has(each)),
      match,
    ))
      filter.append(texts, logs)
    await this.#delivery.deliverFree(
      matchAll(
        [...subscriptions].filter(each => receivers?.has(each)),
        match,
      ),
    )
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

/** Most blocks, and most characters of logs, that are kept to take them back after a reorg. */
const maxBlocks = 128
const maxChars = 32 << 20
/** However long their logs are. */
const minBlocks = 8

/** The logs of the newest blocks that were published, so that a reorg can take them back. */
export class RecentLogs {
  readonly #blocks = new Map<string, BlockLogs>()
  #chars = 0
  #newestDropped = -1

  add(block: BlockLogs): void {
    this.#blocks.set(block.hash, block)
    this.#chars += block.size
    for (const oldest of this.#blocks.values()) {
      if (this.#blocks.size <= minBlocks || (this.#blocks.size <= maxBlocks && this.#chars <= maxChars)) return
      this.#newestDropped = Math.max(this.#newestDropped, oldest.number)
      this.#delete(oldest)
    }
  }

  /** `unknown`: the block was published, and is not kept any more. Undefined: it was never published. */
  remove({ number, hash }: BlockId): BlockLogs | 'unknown' | undefined {
    const block = this.#blocks.get(hash)
    if (block !== undefined) this.#delete(block)
    return block ?? (number <= this.#newestDropped ? 'unknown' : undefined)
  }

  clear(): void {
    this.#blocks.clear()
    this.#chars = 0
    this.#newestDropped = -1
  }

  #delete(block: BlockLogs): void {
    this.#blocks.delete(block.hash)
    this.#chars -= block.size
  }
}
