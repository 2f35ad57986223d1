import { getOrCreate, metricDefinitions } from '../../src/plugin/internal.ts'
import { onAbort } from '../../src/plugin/plugin.ts'
import type { Gauge, Origin, Services } from '../../src/plugin/plugin.ts'
import { maxValuesPerAccount } from './used-filters.ts'
import type { FilterValues } from './used-filters.ts'
import { mapKinds } from './subscription.ts'
import type { Subscriber, Subscription, SubscriptionKind, Topic } from './subscription.ts'

/** All subscriptions of one network in this process, until they are removed or their WebSockets close. */
export class SubscriptionRegistry {
  readonly #byKind: Readonly<Record<SubscriptionKind, Set<Subscription>>> = mapKinds(() => new Set())
  /** By the state of a WebSocket, and by id. Not a member of that state: a reload may open another registry, which has those of its own. */
  readonly #bySocket = new WeakMap<Origin['state'], Map<string, Subscription>>()
  readonly #countByAccount = new Map<string, number>()
  /** Of all registries of the network: sockets of one before a reload may still be closing. */
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

  /** Undefined when the WebSocket has no such subscription. */
  find({ state }: Origin, id: string): Subscription | undefined {
    return this.#bySocket.get(state)?.get(id)
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
    if (!this.#bySocket.has(state) && !signal.aborted) onAbort(signal, () => this.#removeAllOf(origin))
    getOrCreate(this.#bySocket, state, () => new Map<string, Subscription>()).set(subscription.id, subscription)
    this.#countByAccount.set(account.id, (this.#countByAccount.get(account.id) ?? 0) + 1)
    this.#filterValues.add(account.id, filterOf(subscription.topic))
    if (signal.aborted) this.remove(subscription)
  }

  /** It gets each event from now on. False when it has been removed meanwhile. */
  activate(subscription: Subscription): boolean {
    if (!this.#has(subscription)) return false
    this.#byKind[subscription.kind].add(subscription)
    return true
  }

  /** The caller has been sent the id: its events are sent from now on. */
  begin(subscription: Subscription): void {
    if (!this.#has(subscription)) return
    subscription.begin()
    this.#gauges[subscription.kind].add(1)
  }

  /** False when it was removed before. */
  remove(subscription: Subscription): boolean {
    const { kind, subscriber } = subscription
    if (this.#bySocket.get(subscriber.origin.state)?.delete(subscription.id) !== true) return false
    this.#byKind[kind].delete(subscription)
    const count = getOrCreate(this.#countByAccount, subscriber.account.id, () => 1) - 1
    this.#filterValues.remove(subscriber.account.id, filterOf(subscription.topic))
    if (count > 0) this.#countByAccount.set(subscriber.account.id, count)
    else this.#countByAccount.delete(subscriber.account.id)
    subscription.end()
    if (subscription.hasBegun) this.#gauges[kind].add(-1)
    this.#onRemoved(subscription)
    return true
  }

  #has({ id, subscriber: { origin } }: Subscription): boolean {
    return this.find(origin, id) !== undefined
  }

  #removeAllOf({ state }: Origin): void {
    for (const subscription of this.#bySocket.get(state)?.values() ?? []) this.remove(subscription)
  }
}

const filterOf = ({ filter, receiptFilter }: Topic) => filter ?? receiptFilter
