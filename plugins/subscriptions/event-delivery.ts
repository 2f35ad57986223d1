import { setImmediate } from 'node:timers/promises'
import { getOrCreate } from '../../src/plugin/plugin.ts'
import type { CallContext, CountedCall, KeyChargeResult, Services } from '../../src/plugin/plugin.ts'
import type { Subscription, SubscriptionKind } from './subscription.ts'

/** Events that one turn of the event loop sends: 256 of 2 KB take 5 ms. */
const eventsPerTurn = 256

interface EventDeliveryOptions extends Pick<Services, 'accounts' | 'events' | 'usage' | 'network'> {
  /** Events were delivered. */
  onDelivered(kind: SubscriptionKind, count: number): void
}

type Payer = Pick<CallContext, 'account' | 'key'>

/** The events of one block, by subscription; see Subscription.send(). */
type EventsOfBlock = ReadonlyMap<Subscription, readonly string[]>

/** Undefined where events cost nothing. */
type EventChargeResult = KeyChargeResult | undefined

/**
 * Charges each key once for its events of a block, then sends them. Events that cannot be sent are not charged. A key without credits
 * for them loses its WebSockets.
 */
export class EventDelivery {
  readonly #options: EventDeliveryOptions
  #sentInTurn = 0

  constructor(options: EventDeliveryOptions) {
    this.#options = options
  }

  /** `timestampMs` is that of the block. */
  async deliver(events: EventsOfBlock, timestampMs: number | undefined): Promise<void> {
    const byKey = new Map<string, Subscription[]>()
    for (const subscription of events.keys()) getOrCreate(byKey, subscription.subscriber.key.id, newList).push(subscription)
    await Promise.all(Array.from(byKey.values(), subscriptions => this.#deliverToKey(subscriptions, events, timestampMs)))
  }

  /** Without a charge: what takes events back. */
  async deliverFree(events: EventsOfBlock): Promise<void> {
    for (const subscription of events.keys()) await this.#send(subscription, events)
  }

  async #deliverToKey(ofKey: readonly Subscription[], events: EventsOfBlock, timestampMs: number | undefined): Promise<void> {
    const [first] = ofKey
    if (first === undefined) return
    const payer = await this.#payerOf(first)
    const subscriptions = ofKey.filter(each => this.#isAllowed(each, payer))
    const due = new Set(subscriptions.filter(each => each.isOpen && each.isChargeDue(timestampMs)))
    const charge = await this.#charge([...due], payer)
    let day = charge?.kind === 'charged' ? charge.day : undefined
    const undelivered = new Set<Subscription>()
    for (const subscription of subscriptions) {
      if (due.has(subscription) && isUnpaid(charge)) closeUnpaid(subscription, charge)
      else if (await this.#send(subscription, events)) continue
      undelivered.add(subscription)
    }
    if (charge?.kind === 'charged' && [...due].some(each => undelivered.has(each))) {
      charge.refund()
      const repeated = await this.#charge(
        [...due].filter(each => !undelivered.has(each)),
        payer,
      )
      day = repeated?.kind === 'charged' ? repeated.day : undefined
    }
    const delivered = subscriptions.filter(each => !undelivered.has(each))
    const charged = delivered.filter(each => due.has(each) && day !== undefined)
    for (const subscription of charged) subscription.recordCharge(timestampMs)
    this.#count(first, { calls: charged.length, credits: costOf(charged), day })
    this.#count(first, { calls: delivered.length - charged.length, credits: 0, day: undefined })
  }

  /** One charge for one block of each of these subscriptions, which belong to one key; undefined where calls cost nothing. */
  async #charge(due: readonly Subscription[], payer: Payer): Promise<EventChargeResult> {
    return due.length > 0 ? this.#options.events.charge(payer, costOf(due)) : undefined
  }

  /** As they are now: plan, limits and what the key allows may have changed. A key that is no longer valid closes the WebSocket elsewhere. */
  async #payerOf({ subscriber }: Subscription): Promise<Payer> {
    const { key } = subscriber.origin
    const lookup = key && (await this.#options.accounts.find(key))
    return lookup?.kind === 'granted' ? lookup : subscriber
  }

  /** Otherwise its WebSocket is closed. */
  #isAllowed({ subscriber: { origin } }: Subscription, { key }: Payer): boolean {
    if (this.#options.events.refuse(key, origin) === undefined) return true
    origin.push.close(1008, 'this API key is no longer allowed to subscribe')
    return false
  }

  async #send(subscription: Subscription, events: EventsOfBlock): Promise<boolean> {
    const texts = events.get(subscription) ?? []
    this.#sentInTurn += texts.length
    if (this.#sentInTurn >= eventsPerTurn) {
      this.#sentInTurn = 0
      await setImmediate()
    }
    const isDelivered = subscription.isOpen && subscription.send(texts)
    if (isDelivered) this.#options.onDelivered(subscription.kind, texts.length)
    return isDelivered
  }

  /** A block for a subscription is a call of `eth_subscription`, the method of notifications. All of one key are counted at once. */
  #count({ subscriber: { account, key } }: Subscription, counted: Pick<CountedCall, 'calls' | 'credits' | 'day'>): void {
    const { usage, network } = this.#options
    if (counted.calls === 0) return
    const group = { account: account.id, key: key.id, network: network.name, method: 'eth_subscription', outcome: 'ok', forwarded: false }
    usage.count({ ...group, ...counted })
  }
}

const newList = (): Subscription[] => []

const costOf = (subscriptions: readonly Subscription[]): number => subscriptions.reduce((sum, { topic }) => sum + topic.cost, 0)

type UnpaidResult = Exclude<EventChargeResult, { kind: 'charged' } | undefined>

const isUnpaid = (charge: EventChargeResult): charge is UnpaidResult => charge !== undefined && charge.kind !== 'charged'

const accountSpent = 'the daily credits are used up'
const keySpent = 'the daily limit of this API key is used up'

const closeUnpaid = (subscription: Subscription, charge: UnpaidResult): void => {
  if (charge.kind === 'storeUnavailable') subscription.close(1013, 'credits cannot be charged now')
  else subscription.close(1008, `${charge.isKeyLimit ? keySpent : accountSpent} until ${new Date(charge.resetAt).toISOString()}`)
}
