import type { ChainUpdate } from '../../src/plugin/plugin.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { Subscription } from './subscription.ts'

/** Publishes each new header. Those of removed blocks are not taken back: the headers of the new branch follow. */
export class HeadPublisher {
  readonly #subscriptions: ReadonlySet<Subscription>
  readonly #delivery: EventDelivery

  constructor(subscriptions: ReadonlySet<Subscription>, delivery: EventDelivery) {
    this.#subscriptions = subscriptions
    this.#delivery = delivery
  }

  async publish({ added }: ChainUpdate): Promise<void> {
    for (const { json, timestampMs } of added) {
      // All WebSockets share the text.
      const event = [Buffer.from(json).toString('latin1')]
      await this.#delivery.deliver(new Map(Array.from(this.#subscriptions, subscription => [subscription, event])), timestampMs)
    }
  }
}
