import { getOrCreate } from '../../src/plugin/internal.ts'
import type { CountedCall, KeyChargeResult } from '../../src/plugin/internal.ts'
import type { CallContext, Services } from '../../src/plugin/plugin.ts'
import { callersNameOf } from './subscription.ts'
import type { Subscription } from './subscription.ts'

/** Messages of one key between two turns: to send 64 of 2 KB takes 1.3 ms. */
const messagesPerTurn = 64

/** What waits for one key, at most: with more its WebSockets are closed. One update always may wait. */
const maxWaitingUpdates = 64
const maxWaitingBytes = 32 << 20
/** What V8 takes for an update that waits, for each subscription to it, and for each text beside its characters. */
const updateBytes = 200
const subscriptionBytes = 16
const textBytes = 24

/** What latin1 texts take. */
export const bytesOfTexts = (texts: readonly string[]): number => texts.reduce((sum, { length }) => sum + length + textBytes, 0)

/** The events of one update, such as a block. */
interface Events {
  /** What they take while they wait, with what finds those of a subscription. */
  readonly bytes: number
  /** Finds those that a subscription gets, as JSON texts. Called for each key when it is its turn: what the matcher remembers does not wait. */
  newMatcher(): (subscription: Subscription) => readonly string[]
  /** They cost nothing, as they take others back. */
  readonly isFree?: true
  /** The subscription was sent all of them. */
  onSent?(subscription: Subscription): void
}

type EventDeliveryOptions = Pick<Services, 'accounts' | 'events' | 'usage' | 'network' | 'log'>

type Payer = Pick<CallContext, 'account' | 'key'>

/** Undefined where events cost nothing. */
type EventChargeResult = KeyChargeResult | undefined

/** One update for the subscriptions of one key. */
interface KeyUpdate {
  readonly subscriptions: Subscription[]
  readonly events: Events
}

/** The updates of one key that wait; the first is being delivered. */
interface KeyQueue {
  readonly updates: KeyUpdate[]
  bytes: number
}

/**
 * Delivers events in the order of deliver(), to each key by itself: no key waits for the charges of another, nor for its messages. A key is
 * charged once for its events of an update, then they are sent, in turns with what other accounts do. Events that cannot be sent are not
 * charged. A key without credits for them, or that falls behind, loses its WebSockets.
 */
export class EventDelivery {
  readonly #options: EventDeliveryOptions
  readonly #queues = new Map<string, KeyQueue>()

  constructor(options: EventDeliveryOptions) {
    this.#options = options
  }

  deliver(subscriptions: Iterable<Subscription>, events: Events): void {
    const byKey = new Map<string, Subscription[]>()
    for (const subscription of subscriptions) getOrCreate(byKey, subscription.subscriber.key.id, newList).push(subscription)
    for (const [key, ofKey] of byKey) this.#enqueue(key, { subscriptions: ofKey, events })
  }

  #enqueue(key: string, update: KeyUpdate): void {
    const queue = this.#queues.get(key)
    if (queue === undefined) return void this.#deliverAll(key, { updates: [update], bytes: bytesOf(update) })
    queue.bytes += bytesOf(update)
    if (queue.updates.push(update) <= maxWaitingUpdates && queue.bytes <= maxWaitingBytes) return
    queue.updates.pop()
    queue.bytes -= bytesOf(update)
    for (const subscription of update.subscriptions) subscription.close(1013, 'too many events are waiting; subscribe again')
  }

  async #deliverAll(key: string, queue: KeyQueue): Promise<void> {
    this.#queues.set(key, queue)
    for (let update = queue.updates[0]; update !== undefined; update = queue.updates[0]) {
      await this.#deliverToKey(update).catch((bug: unknown) => this.#fail(update, bug))
      queue.updates.shift()
      queue.bytes -= bytesOf(update)
    }
    this.#queues.delete(key)
  }

  /** A rule of a plugin has thrown: what this key would miss, others get. */
  #fail({ subscriptions }: KeyUpdate, bug: unknown): void {
    this.#options.log.error({ err: bug }, 'events of a key cannot be delivered because of a bug; closing its WebSockets')
    for (const subscription of subscriptions) subscription.close(1011, 'internal error')
  }

  async #deliverToKey({ subscriptions: ofKey, events }: KeyUpdate): Promise<void> {
    const [first] = ofKey
    if (first === undefined) return
    const payer = await this.#payerOf(first)
    const found = await this.#find(ofKey, events)
    const matched = new Map([...found].filter(([subscription]) => this.#isAllowed(subscription, payer)))
    const costs = new Map<Subscription, number>()
    if (events.isFree !== true) for (const [subscription, texts] of matched) costs.set(subscription, this.#costOf(subscription, texts))
    const charge = await this.#charge(sumOf(costs), payer)
    if (isUnpaid(charge)) for (const subscription of costs.keys()) if (costs.get(subscription) !== 0) closeUnpaid(subscription, charge)
    const delivered: Subscription[] = []
    for (const [subscription, texts] of matched) {
      if (isUnpaid(charge) && costs.get(subscription) !== 0) continue
      if (!(await this.#send(subscription, texts))) continue
      events.onSent?.(subscription)
      delivered.push(subscription)
    }
    const day = await this.#settle(charge, sumOf(costs, delivered), sumOf(costs), payer)
    if (events.isFree === true) return this.#count(first, { calls: delivered.length, credits: 0, day: undefined })
    for (const subscription of delivered) subscription.recordPaid(matched.get(subscription) ?? [])
    const charged = delivered.filter(each => day !== undefined && costs.get(each) !== 0)
    this.#count(first, { calls: charged.length, credits: sumOf(costs, charged), day })
    this.#count(first, { calls: delivered.length - charged.length, credits: 0, day: undefined })
  }

  /** The events of each subscription that gets any. */
  async #find(subscriptions: readonly Subscription[], events: Events): Promise<ReadonlyMap<Subscription, readonly string[]>> {
    const found = new Map<Subscription, readonly string[]>()
    const match = events.newMatcher()
    for (const [i, subscription] of subscriptions.entries()) {
      if ((i + 1) % messagesPerTurn === 0) await subscription.turn(messagesPerTurn)
      const texts = subscription.isOpen ? match(subscription) : []
      if (texts.length > 0) found.set(subscription, texts)
    }
    return found
  }

  /** As the configuration has it now, like all rules about events. */
  #costOf(subscription: Subscription, texts: readonly string[]): number {
    return Math.ceil(this.#options.events.costOf(callersNameOf(subscription.kind)) * subscription.unpaidUnitsOf(texts))
  }

  async #charge(credits: number, payer: Payer): Promise<EventChargeResult> {
    return credits > 0 ? this.#options.events.charge(payer, credits) : undefined
  }

  /** Where less was delivered than was charged, only that is charged. The day of the charge; undefined without one. */
  async #settle(charge: EventChargeResult, deliveredCredits: number, credits: number, payer: Payer): Promise<number | undefined> {
    if (charge?.kind !== 'charged') return undefined
    // What cannot be returned any more, as its day is over, is not charged once more.
    if (deliveredCredits === credits || !charge.refund()) return charge.day
    const repeated = await this.#charge(deliveredCredits, payer)
    return repeated?.kind === 'charged' ? repeated.day : undefined
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

  async #send(subscription: Subscription, texts: readonly string[]): Promise<boolean> {
    for (let sent = 0; sent < texts.length; sent += messagesPerTurn) {
      const part = texts.slice(sent, sent + messagesPerTurn)
      await subscription.turn(part.length)
      if (!(subscription.isOpen && subscription.send(part))) return false
    }
    return true
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

const bytesOf = ({ subscriptions, events }: KeyUpdate): number => updateBytes + events.bytes + subscriptions.length * subscriptionBytes

/** Of these subscriptions, of all unless given. */
const sumOf = (costs: ReadonlyMap<Subscription, number>, subscriptions: Iterable<Subscription> = costs.keys()): number => {
  let sum = 0
  for (const subscription of subscriptions) sum += costs.get(subscription) ?? 0
  return sum
}

type UnpaidResult = Exclude<EventChargeResult, { kind: 'charged' } | undefined>

const isUnpaid = (charge: EventChargeResult): charge is UnpaidResult => charge !== undefined && charge.kind !== 'charged'

const accountSpent = 'the daily credits are used up'
const keySpent = 'the daily limit of this API key is used up'

const closeUnpaid = (subscription: Subscription, charge: UnpaidResult): void => {
  if (charge.kind === 'storeUnavailable') subscription.close(1013, 'credits cannot be charged now; connect again later')
  else subscription.close(1008, `${charge.isKeyLimit ? keySpent : accountSpent} until ${new Date(charge.resetAt).toISOString()}`)
}
