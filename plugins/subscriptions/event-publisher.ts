import type { Clock, EventsUpdate } from '../../src/plugin/plugin.ts'
import type { EventDelivery } from './event-delivery.ts'
import type { Filter } from './filter.ts'
import type { Subscription } from './subscription.ts'

export interface EventPublisherOptions {
  readonly clock: Clock
  readonly subscriptions: ReadonlySet<Subscription>
  readonly filters: ReadonlySet<Filter>
  readonly delivery: EventDelivery
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
