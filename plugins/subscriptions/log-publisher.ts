import { getOrCreate } from '../../src/plugin/plugin.ts'
import type { ChainUpdate, Services } from '../../src/plugin/plugin.ts'
import { BlockLogs } from './block-logs.ts'
import type { EventDelivery, EventsOfBlock } from './event-delivery.ts'
import type { LogFilter } from './log-filter.ts'
import { RecentLogs } from './recent-logs.ts'
import type { Subscription } from './subscription.ts'

/** Publishes the logs of each block to the subscriptions that they match, and takes them back when the block is removed. */
export class LogPublisher {
  readonly #subscriptions: ReadonlySet<Subscription>
  readonly #delivery: EventDelivery
  readonly #results: Services['results']
  readonly #recentLogs = new RecentLogs()
  /** Who has been sent logs of a block. */
  readonly #receivers = new WeakMap<BlockLogs, WeakSet<Subscription>>()

  constructor(subscriptions: ReadonlySet<Subscription>, delivery: EventDelivery, results: Services['results']) {
    this.#subscriptions = subscriptions
    this.#delivery = delivery
    this.#results = results
  }

  /** What was published before is not taken back any more. */
  reset(): void {
    this.#recentLogs.clear()
  }

  /** Resolves with false when logs that were published cannot be taken back, as they are not kept any more. */
  async publish({ removed, added }: ChainUpdate): Promise<boolean> {
    for (const block of removed) {
      const logs = this.#recentLogs.remove(block)
      if (logs === 'unknown') return false
      if (logs !== undefined) await this.#takeBack(logs)
    }
    for (const block of added) {
      const logs = new BlockLogs(block, this.#results)
      this.#recentLogs.add(logs)
      const events = this.#match(this.#subscriptions, filter => logs.match(filter))
      this.#receivers.set(logs, new WeakSet(events.keys()))
      await this.#delivery.deliver(events, block.timestampMs)
    }
    return true
  }

  /** A subscription that has not been sent them gets nothing. */
  async #takeBack(logs: BlockLogs): Promise<void> {
    const receivers = this.#receivers.get(logs)
    const subscriptions = [...this.#subscriptions].filter(subscription => receivers?.has(subscription))
    await this.#delivery.deliverFree(this.#match(subscriptions, filter => logs.matchRemoved(filter)))
  }

  /** What matches, for those that anything matches. Equal filters are matched once, and share the texts. */
  #match(subscriptions: Iterable<Subscription>, match: (filter: LogFilter) => readonly string[]): EventsOfBlock {
    const matches = new Map<string, readonly string[]>()
    const events = new Map<Subscription, readonly string[]>()
    for (const subscription of subscriptions) {
      const { filter } = subscription.topic
      const texts = filter === undefined ? [] : getOrCreate(matches, filter.key, () => match(filter))
      if (texts.length > 0) events.set(subscription, texts)
    }
    return events
  }
}
