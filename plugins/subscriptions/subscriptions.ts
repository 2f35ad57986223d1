import { metricDefinitions, refuse } from '../../src/plugin/plugin.ts'
import type { ChainUpdate, Counter, Failure, Origin, Services } from '../../src/plugin/plugin.ts'
import { EventDelivery } from './event-delivery.ts'
import { FeedConsumer } from './feed-consumer.ts'
import { Subscription, subscriptionKinds } from './subscription.ts'
import type { Subscriber, SubscriptionKind } from './subscription.ts'
import { SubscriptionRegistry } from './subscription-registry.ts'
import type { SubscriptionLimits } from './subscription-registry.ts'

/** What a pipeline configures. */
export interface SubscriptionSettings {
  readonly limits: SubscriptionLimits
  /** Credits for a block. */
  costOf(kind: SubscriptionKind): number
}

/** The subscriptions of one network in this process, and what publishes to them. Outlives a reload. */
export class Subscriptions {
  settings: SubscriptionSettings
  readonly #registry: SubscriptionRegistry
  readonly #delivery: EventDelivery
  readonly #consumers: Readonly<Record<SubscriptionKind, FeedConsumer>>

  constructor(services: Services, settings: SubscriptionSettings) {
    const { metrics, heads, log } = services
    this.settings = settings
    const counterOf = (kind: SubscriptionKind) => [kind, metrics.counter(metricDefinitions.subscriptionEvents, { kind })]
    const counters = Object.fromEntries(subscriptionKinds.map(counterOf)) as Record<SubscriptionKind, Counter> // one for each kind
    this.#registry = new SubscriptionRegistry(services, ({ kind }) => this.#consumers[kind].release())
    this.#delivery = new EventDelivery({
      ...services,
      costOf: kind => this.settings.costOf(kind),
      onDelivered: (kind, count) => counters[kind].add(count),
    })
    const onEnd = (kind: SubscriptionKind) => (): void => {
      log.warn(
        { event: 'subscriptions-ended', kind, subscriptions: this.#registry.of(kind).size },
        'blocks were missed; closing WebSockets',
      )
      for (const subscription of this.#registry.of(kind)) subscription.close(1013, 'blocks were missed; subscribe again')
    }
    this.#consumers = {
      newHeads: new FeedConsumer({
        feed: heads.feeds.headers,
        handle: update => this.#publishHeads(update),
        onEnd: onEnd('newHeads'),
      }),
    }
  }

  /** The subscription gets each event after this; they are sent once it has begun. */
  async subscribe(kind: SubscriptionKind, subscriber: Subscriber): Promise<Subscription | Failure> {
    const limit = this.#registry.limitOf(subscriber, this.settings.limits)
    if (limit !== undefined) return refuse('tooManySubscriptions', { message: `too many subscriptions: ${limit}` })
    const subscription = new Subscription(kind, subscriber)
    // Retained before it is added, as whoever removes it releases the feed.
    const started = this.#consumers[kind].retain()
    this.#registry.add(subscription)
    if (await started) return subscription
    this.#registry.remove(subscription)
    return refuse('unavailable', { retryAfter: 1, source: 'gateway' })
  }

  /** False when the origin has no such subscription. */
  unsubscribe({ state }: Origin, id: string): boolean {
    const subscription = state.subscriptions?.get(id)
    return subscription !== undefined && this.#registry.remove(subscription)
  }

  /** The network is no longer served. */
  close(): void {
    for (const kind of subscriptionKinds) for (const each of this.#registry.of(kind)) each.close(1001, 'the network is no longer served')
  }

  async #publishHeads({ added }: ChainUpdate): Promise<void> {
    for (const { json, timestampMs } of added) {
      const event = [Buffer.from(json).toString('latin1')]
      const events = new Map(Array.from(this.#registry.of('newHeads'), subscription => [subscription, event]))
      await this.#delivery.deliver(events, timestampMs)
    }
  }
}
