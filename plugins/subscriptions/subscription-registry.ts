import { getOrCreate, metricDefinitions } from '../../src/plugin/internal.ts'
import { onAbort } from '../../src/plugin/plugin.ts'
import type { Gauge, Origin, Services } from '../../src/plugin/plugin.ts'
import { maxValuesPerAccount } from './used-filters.ts'
import type { FilterValues } from './used-filters.ts'
import { mapKinds } from './subscription.ts'
import type { Subscriber, Subscription, SubscriptionKind, Topic } from './subscription.ts'

declare module '../../src/plugin/call.ts' {
  interface OriginState {
    /** The subscriptions of a WebSocket, by id. */
    subscriptions?: Map<string, Subscription>
  }
}

/** All subscriptions of one network in this process, until they are removed or their WebSockets close. */
export class SubscriptionRegistry {
  readonly #byKind: Readonly<Record<SubscriptionKind, Set<Subscription>>> = mapKinds(() => new Set())
  readonly #begunCounts: Record<SubscriptionKind, number> = { ...mapKinds(() => 0) }
  readonly #countByAccount = new Map<string, number>()
  readonly #gauges: Readonly<Record<SubscriptionKind, Gauge>>
  readonly #filterValues: FilterValues
  readonly #onRemoved: (subscription: Subscription) => void

  constructor({ metrics }: Pick<Services, 'metrics'>, filterValues: FilterValues, onRemoved: (subscription: Subscription) => void) {
    this.#filterValues = filterValues
    this.#gauges = mapKinds(kind => metrics.gauge(metricDefinitions.subscriptions, { kind }))
    this.#onRemoved = onRemoved
  }

  of(kind: SubscriptionKind): ReadonlySet<Subscription> {
    return this.#byKind[kind]
  }

  /** Why this subscriber may have no further subscription. */
  limitOf(topic: Topic, { account }: Subscriber, maxPerAccount: number): string | undefined {
    if ((this.#countByAccount.get(account.id) ?? 0) >= maxPerAccount) return `at most ${maxPerAccount} of one account`
    return this.#filterValues.fits(account.id, filterOf(topic))
      ? undefined
      : `at most ${maxValuesPerAccount} addresses, topics and hashes of one account`
  }

  /** Removed at once when the WebSocket has closed. */
  add(subscription: Subscription): void {
    const { origin, account } = subscription.subscriber
    const { state, signal } = origin
    if (state.subscriptions === undefined && !signal.aborted) onAbort(signal, () => this.#removeAllOf(origin))
    const ofSocket = (state.subscriptions ??= new Map<string, Subscription>())
    ofSocket.set(subscription.id, subscription)
    this.#countByAccount.set(account.id, (this.#countByAccount.get(account.id) ?? 0) + 1)
    this.#filterValues.add(account.id, filterOf(subscription.topic))
    if (signal.aborted) this.remove(subscription)
  }

  /** It gets each event from now on. False when it has been removed meanwhile. */
  activate(subscription: Subscription): boolean {
    const { state } = subscription.subscriber.origin
    if (state.subscriptions?.has(subscription.id) !== true) return false
    this.#byKind[subscription.kind].add(subscription)
    return true
  }

  /** The caller has been sent the id: its events are sent from now on. */
  begin(subscription: Subscription): void {
    if (subscription.subscriber.origin.state.subscriptions?.has(subscription.id) !== true) return
    subscription.begin()
    this.#addToGauge(subscription.kind, 1)
  }

  /** False when it was removed before. */
  remove(subscription: Subscription): boolean {
    const { kind, subscriber } = subscription
    if (subscriber.origin.state.subscriptions?.delete(subscription.id) !== true) return false
    this.#byKind[kind].delete(subscription)
    const count = getOrCreate(this.#countByAccount, subscriber.account.id, () => 1) - 1
    this.#filterValues.remove(subscriber.account.id, filterOf(subscription.topic))
    if (count > 0) this.#countByAccount.set(subscriber.account.id, count)
    else this.#countByAccount.delete(subscriber.account.id)
    subscription.end()
    if (subscription.hasBegun) this.#addToGauge(kind, -1)
    this.#onRemoved(subscription)
    return true
  }

  #removeAllOf({ state }: Origin): void {
    for (const subscription of state.subscriptions?.values() ?? []) this.remove(subscription)
  }

  #addToGauge(kind: SubscriptionKind, change: 1 | -1): void {
    this.#begunCounts[kind] += change
    this.#gauges[kind].set(this.#begunCounts[kind])
  }
}

const filterOf = ({ filter, receiptFilter }: Topic) => filter ?? receiptFilter
