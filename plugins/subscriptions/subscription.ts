import { randomBytes } from 'node:crypto'
import type { ReceiptFilter } from './block-receipts.ts'
import type { LogFilter } from './log-filter.ts'
import type { Account, Key, Origin } from '../../src/plugin/plugin.ts'
import type { Push } from '../../src/plugin/internal.ts'

/** `fullPendingTransactions`: `newPendingTransactions` with whole transactions in place of hashes. */
export const subscriptionKinds = [
  'newHeads',
  'logs',
  'transactionReceipts',
  'newPendingTransactions',
  'fullPendingTransactions',
  'syncing',
] as const

export type SubscriptionKind = (typeof subscriptionKinds)[number]

/** The first parameter of eth_subscribe. */
export const callersNameOf = (kind: SubscriptionKind): string => (kind === 'fullPendingTransactions' ? 'newPendingTransactions' : kind)

export const mapKinds = <T>(make: (kind: SubscriptionKind) => T): Readonly<Record<SubscriptionKind, T>> =>
  Object.fromEntries(subscriptionKinds.map(kind => [kind, make(kind)])) as Record<SubscriptionKind, T> // one for each kind

/** The origin of a call that came over a WebSocket by itself. */
export type PushOrigin = Origin & { readonly push: Push }

export interface Subscriber {
  readonly origin: PushOrigin
  readonly account: Account
  readonly key: Key
}

/** What is subscribed to. */
export interface Topic {
  readonly kind: SubscriptionKind
  /** Only of the kind `logs`. */
  readonly filter?: LogFilter
  /** Only of the kind `transactionReceipts`. */
  readonly receiptFilter?: ReceiptFilter
}

/** What is paid for at once: a KiB that has begun. */
const paidUnitBytes = 1_024

/** Events that wait for the id to be sent, at most: it is sent at once, or never. */
const maxWaitingEvents = 20_000

/** What ends each message. */
const suffix = '}}'

/** One subscription of one WebSocket. */
export class Subscription {
  readonly id = `0x${randomBytes(16).toString('hex')}`
  readonly topic: Topic
  readonly subscriber: Subscriber
  readonly #prefix: string
  /** Events that wait until the caller has been sent the id. */
  #waiting: string[] | undefined = []
  /** Of the last KiB that was paid for, what has not been sent. */
  #paidBytes = 0
  #isEnded = false

  constructor(topic: Topic, subscriber: Subscriber) {
    this.topic = topic
    this.subscriber = subscriber
    this.#prefix = `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"${this.id}","result":`
  }

  get kind(): SubscriptionKind {
    return this.topic.kind
  }

  /** Has the caller been sent the id? */
  get hasBegun(): boolean {
    return this.#waiting === undefined
  }

  get isOpen(): boolean {
    return !this.#isEnded && !this.subscriber.origin.signal.aborted
  }

  /** The KiB that these events begin, and that are not paid for. */
  unpaidUnitsOf(events: readonly string[]): number {
    return this.#unitsOf(this.#bytesOf(events))
  }

  /** They were paid for, and sent. */
  recordPaid(events: readonly string[]): void {
    const bytes = this.#bytesOf(events)
    this.#paidBytes += this.#unitsOf(bytes) * paidUnitBytes - bytes
  }

  #unitsOf(bytes: number): number {
    return Math.ceil(Math.max(0, bytes - this.#paidBytes) / paidUnitBytes)
  }

  #bytesOf(events: readonly string[]): number {
    return events.reduce((sum, { length }) => sum + length, events.length * (this.#prefix.length + suffix.length))
  }

  /** The caller has been sent the id. */
  begin(): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    this.send(waiting)
  }

  /** It was removed: no event is sent any more. */
  end(): void {
    this.#isEnded = true
  }

  /** Each event is JSON text with one character per byte (latin1). False: the WebSocket is closing. */
  send(events: readonly string[]): boolean {
    if (this.#waiting !== undefined) return this.#keepUntilBegun(this.#waiting, events)
    const { push } = this.subscriber.origin
    return events.every(event => push.send([this.#prefix, event, suffix]))
  }

  #keepUntilBegun(waiting: string[], events: readonly string[]): boolean {
    if (waiting.length + events.length <= maxWaitingEvents) {
      for (const event of events) waiting.push(event)
      return this.isOpen
    }
    this.close(1013, 'the response to eth_subscribe could not be sent')
    return false
  }

  /** See Push.turn(). */
  turn(messages: number): Promise<void> | undefined {
    return this.subscriber.origin.push.turn(messages)
  }

  /** Closes the WebSocket: no event is sent any more. */
  close(code: number, reason: string): void {
    this.#isEnded = true
    this.subscriber.origin.push.close(code, reason)
  }
}
