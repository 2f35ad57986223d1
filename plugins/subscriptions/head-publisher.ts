import type { ChainUpdate } from '../../src/plugin/plugin.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { Filter } from './filter.ts'
import { PublishedTip } from './published-tip.ts'
import type { Subscription } from './subscription.ts'

interface HeadPublisherOptions {
  readonly subscriptions: ReadonlySet<Subscription>
  readonly filters: ReadonlySet<Filter>
  readonly delivery: EventDelivery
}

/** Publishes each new header, and its hash to filters. Those of removed blocks are not taken back: the headers of the new branch follow. */
export class HeadPublisher {
  readonly tip = new PublishedTip()
  readonly #subscriptions: ReadonlySet<Subscription>
  readonly #filters: ReadonlySet<Filter>
  readonly #delivery: EventDelivery

  constructor({ subscriptions, filters, delivery }: HeadPublisherOptions) {
    this.#subscriptions = subscriptions
    this.#filters = filters
    this.#delivery = delivery
  }

  async publish({ removed, added }: ChainUpdate): Promise<void> {
    for (const block of removed) this.tip.remove(block)
    for (const block of added) {
      const { json, hash, timestampMs } = block
      this.tip.add(block)
      for (const filter of this.#filters) filter.append([`"${hash}"`], block)
      // All WebSockets share the text.
      const event = [Buffer.from(json).toString('latin1')]
      await this.#delivery.deliver(new Map(Array.from(this.#subscriptions, subscription => [subscription, event])), timestampMs)
    }
  }
}
