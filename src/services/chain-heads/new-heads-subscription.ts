import type { WebSocket } from 'ws'
import { Scanner, maxParsedValues } from '../../json/scanner.ts'
import type { Secret } from '../../plugin/secret.ts'
import { Backoff } from '../../util/async.ts'
import { parseHexQuantity } from '../../util/json.ts'
import type { Clock, Timer } from '../clock.ts'
import { describeNetworkError } from '../upstream-client/http-client.ts'
import { openWebSocket } from '../upstream-client/open-websocket.ts'
import { membersOf, parseBlockHeader } from './upstream-requests.ts'
import type { BlockHeader } from './upstream-requests.ts'

export interface NewHeadsSubscriptionOptions {
  readonly url: Secret
  /** The chain ID of the network. */
  readonly chainId: number
  /** ms without a head after which the subscription is stale. */
  readonly staleAfterMs: number
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  onHead(block: BlockHeader): void
  /** Heads will come from now on. After a resubscription another node may be at the URL. */
  onSubscribed(isResubscription: boolean): void
  /** No heads will come; called once until the next `onSubscribed`. */
  onFailure(cause: string): void
}

/** From the start of a connection to the response to eth_subscribe. */
const handshakeTimeoutMs = 5_000
const minReconnectDelayMs = 500
const maxReconnectDelayMs = 30_000
/** The share of a delay, at most, by which it is shortened: gateways do not reconnect to a node at the same moment. */
const maxJitter = 0.5
/** A header takes 2 KB. */
const maxPayloadBytes = 131_072
const maxMessageDepth = 64
/** Before the next attempt at a node that is on another chain, or has no eth_subscribe. */
const unsupportedRetryDelayMs = 300_000
/** Heads that polls return before the subscription does: with so many the subscription counts as dead. */
const maxMissedHeads = 2

/**
 * The newHeads subscription of one upstream: eth_subscribe over a WebSocket. A lost connection is opened again, after an
 * exponential backoff with jitter. Each connection checks the chain ID first. `ws` is loaded with the first connection.
 */
export class NewHeadsSubscription {
  readonly #options: NewHeadsSubscriptionOptions
  readonly #backoff = new Backoff({ minMs: minReconnectDelayMs, maxMs: maxReconnectDelayMs })
  #socket: WebSocket | undefined
  #timer: Timer | undefined
  #isEnabled = false
  #isSubscribed = false
  #wasSubscribed = false
  #isFailureReported = false
  #subscriptionId: unknown
  #lastHeadAt = 0
  #lastHead: BlockHeader | undefined
  #missedHeads = 0

  constructor(options: NewHeadsSubscriptionOptions) {
    this.#options = options
  }

  /** Has a head come, or the subscription begun, less than `staleAfterMs` ago? */
  get isFresh(): boolean {
    return this.#isSubscribed && this.#options.clock.monotonic() - this.#lastHeadAt < this.#options.staleAfterMs
  }

  /** Connects, unless it is open. */
  open(): void {
    if (this.#isEnabled) return
    this.#isEnabled = true
    void this.#connect()
  }

  close(): void {
    this.#isEnabled = false
    this.#backoff.reset()
    this.#disconnect()
  }

  /** A poll has returned this head. If the subscription misses heads that polls return, it is dead. */
  comparePolledHead(polled: BlockHeader): void {
    if (!this.#isSubscribed || this.#lastHead === undefined || polled.number <= this.#lastHead.number) return
    this.#missedHeads += 1
    if (this.#missedHeads >= maxMissedHeads) this.#fail('polls return heads that the subscription does not')
  }

  async #connect(): Promise<void> {
    const { WebSocket } = await import('ws')
    if (!this.#isEnabled || this.#socket !== undefined) return
    const { url, clock } = this.#options
    const socket = openWebSocket(WebSocket, url.reveal(), { handshakeTimeoutMs, maxPayloadBytes })
    if (socket === undefined) return this.#fail('invalid WebSocket URL', unsupportedRetryDelayMs)
    this.#socket = socket
    this.#timer = clock.after(handshakeTimeoutMs, () => this.#fail('subscribing timed out'))
    const ifCurrent = (handler: () => void) => () => {
      if (socket === this.#socket) handler()
    }
    socket.on(
      'open',
      ifCurrent(() => sendRequest(socket, chainIdRequestId, 'eth_chainId', [])),
    )
    socket.on('message', data => ifCurrent(() => this.#handleMessage(socket, data as Buffer))()) // ws gives Buffers by default
    socket.on('error', error => ifCurrent(() => this.#fail(describeNetworkError(error, 'WebSocket handshake failed')))())
    socket.on(
      'close',
      ifCurrent(() => this.#fail('connection closed')),
    )
  }

  #handleMessage(socket: WebSocket, data: Buffer): void {
    const message = parseMessage(data)
    if (message === undefined) return this.#fail('invalid JSON message')
    const { id, method, result, params } = message
    if (method === 'eth_subscription') this.#handleNotification(membersOf(params))
    else if (id === chainIdRequestId) this.#checkChainId(socket, result)
    else if (id === subscribeRequestId) this.#handleSubscribed(result)
  }

  #checkChainId(socket: WebSocket, result: unknown): void {
    const chainId = parseHexQuantity(result)
    if (chainId === this.#options.chainId) sendRequest(socket, subscribeRequestId, 'eth_subscribe', ['newHeads'])
    else if (chainId === undefined) this.#fail('eth_chainId failed')
    else this.#fail(`wrong chain ID ${chainId}`, unsupportedRetryDelayMs)
  }

  #handleSubscribed(result: unknown): void {
    if (typeof result !== 'string') return this.#fail('eth_subscribe failed', unsupportedRetryDelayMs)
    this.#timer?.cancel()
    this.#subscriptionId = result
    this.#lastHeadAt = this.#options.clock.monotonic()
    const isResubscription = this.#wasSubscribed
    this.#isSubscribed = this.#wasSubscribed = true
    this.#isFailureReported = false
    this.#options.onSubscribed(isResubscription)
  }

  #handleNotification({ subscription, result }: MessageMembers): void {
    const block = subscription === this.#subscriptionId ? parseBlockHeader(result) : undefined
    if (!this.#isSubscribed || block === undefined) return
    this.#lastHeadAt = this.#options.clock.monotonic()
    this.#lastHead = block
    this.#missedHeads = 0
    this.#backoff.reset()
    this.#options.onHead(block)
  }

  #fail(cause: string, minDelayMs = 0): void {
    this.#disconnect()
    if (!this.#isFailureReported) this.#options.onFailure(cause)
    this.#isFailureReported = true
    const { clock, random } = this.#options
    const delayMs = Math.max(minDelayMs, this.#backoff.next())
    this.#timer = clock.after(delayMs * (1 - maxJitter * random()), () => void this.#connect())
  }

  #disconnect(): void {
    this.#timer?.cancel()
    this.#isSubscribed = false
    this.#missedHeads = 0
    this.#subscriptionId = this.#lastHead = undefined
    const socket = this.#socket
    this.#socket = undefined
    socket?.terminate()
  }
}

const chainIdRequestId = 1
const subscribeRequestId = 2

const sendRequest = (socket: WebSocket, id: number, method: string, params: readonly string[]): void =>
  socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))

type MessageMembers = ReturnType<typeof membersOf>

/** Undefined for invalid JSON, and for JSON that would take long to parse. */
const parseMessage = (data: Buffer): MessageMembers | undefined => {
  const scanner = new Scanner({ maxDepth: maxMessageDepth, maxElements: maxParsedValues, maxValues: maxParsedValues })
  return scanner.push(data) && scanner.end() === undefined ? membersOf(JSON.parse(data.toString())) : undefined
}
