import { randomBytes } from 'node:crypto'
import type { LogFilter } from './log-filter.ts'
import type { Account, Key, Origin, Push } from '../../src/plugin/plugin.ts'

/** `fullPendingTransactions`: `newPendingTransactions` with whole transactions in place of hashes. */
export const subscriptionKinds = ['newHeads', 'logs', 'newPendingTransactions', 'fullPendingTransactions', 'syncing'] as const

export type SubscriptionKind = (typeof subscriptionKinds)[number]

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
  /** Credits for a block. */
  readonly cost: number
}

/** A charge covers the blocks of so much time of the chain: fast chains do not use up a plan faster than slow ones. */
const chargeIntervalMs = 12_000

/** Blocks whose events wait for the id to be sent, at most: it is sent at once, or never. */
const maxWaitingBlocks = 64

/** One subscription of one WebSocket. */
export class Subscription {
  readonly id = `0x${randomBytes(16).toString('hex')}`
  readonly topic: Topic
  readonly subscriber: Subscriber
  readonly #prefix: string
  /** Events that wait until the caller has been sent the id. */
  #waiting: (readonly string[])[] | undefined = []
  /** The timestamp of the last block that was charged. */
  #chargedAtMs = -Infinity
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

  /** Must the subscription pay for events of a block with this timestamp? */
  isChargeDue(timestampMs: number | undefined): boolean {
    return this.topic.cost > 0 && (timestampMs === undefined || timestampMs - this.#chargedAtMs >= chargeIntervalMs)
  }

  recordCharge(timestampMs: number | undefined): void {
    this.#chargedAtMs = timestampMs ?? -Infinity
  }

  /** The caller has been sent the id. */
  begin(): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    for (const events of waiting) this.send(events)
  }

  /** It was removed: no event is sent any more. */
  end(): void {
    this.#isEnded = true
  }

  /** Each event is JSON text with one character per byte (latin1). False: the WebSocket is closing. */
  send(events: readonly string[]): boolean {
    if (this.#waiting !== undefined) return this.#keepUntilBegun(this.#waiting, events)
    const { push } = this.subscriber.origin
    return events.every(event => push.send([this.#prefix, event, '}}']))
  }

  #keepUntilBegun(waiting: (readonly string[])[], events: readonly string[]): boolean {
    if (waiting.length < maxWaitingBlocks) return waiting.push(events) > 0 && this.isOpen
    this.close(1013, 'the response to eth_subscribe could not be sent')
    return false
  }

  close(code: number, reason: string): void {
    this.subscriber.origin.push.close(code, reason)
  }
}
