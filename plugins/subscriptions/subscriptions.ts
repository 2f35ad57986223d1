import type { EventsUpdate, Feed } from '../../src/plugin/internal.ts'
import { refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Origin, Services } from '../../src/plugin/plugin.ts'
import { EventDelivery } from './event-delivery.ts'
import { FeedConsumer } from './feed-consumer.ts'
import { Filters } from './filters.ts'
import { EventPublisher, HeadPublisher, LogPublisher, ReceiptPublisher } from './publishers.ts'
import { RetainedFeed } from './retained-feed.ts'
import { Subscription, mapKinds, subscriptionKinds } from './subscription.ts'
import type { Subscriber, SubscriptionKind, Topic } from './subscription.ts'
import { SubscriptionRegistry } from './subscription-registry.ts'
import { FilterValues } from './used-filters.ts'
import { VerifiedFeed } from './verified-feed.ts'

/** The subscriptions and filters of one network in this process, and what publishes to them. Outlives a reload. */
export class Subscriptions {
  readonly filters: Filters
  readonly #log: Services['log']
  readonly #isServed: () => boolean
  readonly #registry: SubscriptionRegistry
  readonly #filterFeeds: Readonly<Record<SubscriptionKind, RetainedFeed>>
  readonly #consumers: Readonly<Record<SubscriptionKind, Pick<FeedConsumer, 'retain' | 'release'>>>

  constructor(services: Services) {
    const { heads, results } = services
    this.#log = services.log
    this.#isServed = services.isServed
    const filterValues = new FilterValues()
    this.#registry = new SubscriptionRegistry(services, filterValues, ({ kind }) => this.#consumers[kind].release())
    const delivery = new EventDelivery(services)
    const optionsOf = (kind: SubscriptionKind) => ({ subscriptions: this.#registry.of(kind), delivery })
    const headPublisher = new HeadPublisher(optionsOf('newHeads'))
    const logPublisher = new LogPublisher({ ...optionsOf('logs'), results })
    const receiptPublisher = new ReceiptPublisher({ ...optionsOf('transactionReceipts'), results })
    const eventPublishers = {
      newPendingTransactions: new EventPublisher(optionsOf('newPendingTransactions')),
      fullPendingTransactions: new EventPublisher(optionsOf('fullPendingTransactions')),
      syncing: new EventPublisher(optionsOf('syncing')),
    }
    const eventConsumer = (kind: keyof typeof eventPublishers, feed: Feed<EventsUpdate>) =>
      new FeedConsumer({ feed, handle: update => eventPublishers[kind].publish(update), onEnd: bug => this.#closeAll(kind, bug) })
    this.#consumers = {
      newPendingTransactions: eventConsumer('newPendingTransactions', heads.feeds.pendingHashes),
      fullPendingTransactions: eventConsumer('fullPendingTransactions', heads.feeds.pendingTransactions),
      syncing: eventConsumer('syncing', heads.feeds.syncing),
      newHeads: new FeedConsumer({
        feed: heads.feeds.headers,
        onStart: () => headPublisher.published.clear(),
        handle: update => headPublisher.publish(update),
        onEnd: bug => this.#closeAll('newHeads', bug),
      }),
      logs: new FeedConsumer({
        feed: new VerifiedFeed({ ...services, feed: heads.feeds.logs }),
        onStart: () => logPublisher.published.clear(),
        handle: update => {
          if (!logPublisher.publish(update)) this.#closeAll('logs')
        },
        onEnd: bug => this.#closeAll('logs', bug),
      }),
      transactionReceipts: new FeedConsumer({
        feed: heads.feeds.receipts,
        handle: update => receiptPublisher.publish(update),
        onEnd: bug => this.#closeAll('transactionReceipts', bug),
      }),
    }
    this.#filterFeeds = mapKinds(kind => new RetainedFeed(services.clock, this.#consumers[kind]))
    const { newPendingTransactions, fullPendingTransactions } = eventPublishers
    this.filters = new Filters({
      ...services,
      filterValues,
      feeds: this.#filterFeeds,
      logsOf: block => logPublisher.logsOf(block),
      published: {
        newHeads: headPublisher.published,
        logs: logPublisher.published,
        newPendingTransactions: newPendingTransactions.published,
        fullPendingTransactions: fullPendingTransactions.published,
      },
    })
  }

  /** The subscription gets each event after this; they are sent once it has begun. */
  async subscribe(topic: Topic, subscriber: Subscriber, maxPerAccount: number): Promise<Subscription | Failure> {
    const limit = this.#registry.limitOf(topic, subscriber, maxPerAccount)
    if (limit !== undefined) return refuse('tooManySubscriptions', { message: `too many subscriptions: ${limit}` })
    const subscription = new Subscription(topic, subscriber)
    // Retained before it is added, as whoever removes it releases the feed. It counts from the start, for the limits.
    let isActive = false
    const started = this.#consumers[topic.kind].retain(() => {
      isActive = this.#registry.activate(subscription)
    })
    this.#registry.add(subscription)
    if ((await started) && isActive) return subscription
    this.#registry.remove(subscription)
    return refuse('unavailable', { retryAfter: 1, source: 'gateway' })
  }

  /** The caller has been sent the id, or never will be. */
  begin(subscription: Subscription, isDelivered: boolean): void {
    if (isDelivered) this.#registry.begin(subscription)
    else this.#registry.remove(subscription)
  }

  /** False when the origin has no such subscription. */
  unsubscribe(origin: Origin, id: string): boolean {
    const subscription = this.#registry.find(origin, id)
    return subscription !== undefined && this.#registry.remove(subscription)
  }

  /** The network is no longer served, or is another chain, or follows it otherwise: the feeds end with this pipeline. */
  async close(): Promise<void> {
    const [code, reason] = this.#isServed()
      ? ([1013, 'the configuration of the network has changed; subscribe again'] as const)
      : ([1001, 'the network is no longer served'] as const)
    for (const kind of subscriptionKinds) for (const each of this.#registry.of(kind)) each.close(code, reason)
    await this.filters.close()
    for (const feed of Object.values(this.#filterFeeds)) feed.end()
  }

  /** The next event would leave others out; also because of a bug. */
  #closeAll(kind: SubscriptionKind, bug?: unknown): void {
    if (bug !== undefined)
      this.#log.error({ event: 'subscriptions-ended', kind, err: bug }, 'an update of the feed was not handled because of a bug')
    const subscriptions = this.#registry.of(kind)
    this.#filterFeeds[kind].end()
    if (subscriptions.size === 0) return
    this.#log.warn({ event: 'subscriptions-ended', kind, subscriptions: subscriptions.size }, 'events were missed; closing WebSockets')
    for (const subscription of subscriptions) subscription.close(1013, 'events were missed; subscribe again')
  }
}
