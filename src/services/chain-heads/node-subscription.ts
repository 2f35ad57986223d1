import { Scanner, maxParsedValues } from '../../json/scanner.ts'
import type { Json, Target } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import { Backoff, withJitter } from '../../util/async.ts'
import { parseHexQuantity } from '../../util/json.ts'
import type { Clock, Timer } from '../clock.ts'
import { revealHeaders } from '../upstream-client/endpoint.ts'
import { describeNetworkError } from '../upstream-client/network-errors.ts'
import { openWebSocket } from '../upstream-client/open-websocket.ts'
import type { UpstreamSocket } from '../upstream-client/open-websocket.ts'
import { membersOf } from './upstream-requests.ts'

interface NodeSubscriptionOptions {
  readonly url: Secret
  /** Of the upgrade. */
  readonly headers?: Target['headers'] | undefined
  /** The chain ID of the network. */
  readonly chainId: number
  /** Of eth_subscribe. */
  readonly params: readonly Json[]
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  /** Longer messages end the connection. */
  readonly maxPayloadBytes: number
  /** The node is pinged this often, and the connection ends when a ping has no answer; for events that may be far apart. */
  readonly pingIntervalMs?: number
  onSubscribed(): void
  /** The node has sent an event: its `result`. */
  onEvent(result: unknown): void
  /** The subscription has ended, or could not begin. It is tried again after a delay, until close(). */
  onFailure(cause: string): void
}

/** From the start of a connection to the response to eth_subscribe. */
const handshakeTimeoutMs = 5_000
const minReconnectDelayMs = 500
const maxReconnectDelayMs = 30_000
const maxMessageDepth = 64
/** Before the next attempt at a node that is on another chain, or has no such subscription. */
const unsupportedRetryDelayMs = 300_000

/**
 * One subscription at one upstream: eth_subscribe over a WebSocket of its own. A lost connection is opened again, after an
 * exponential backoff with jitter. Each connection checks the chain ID first. `ws` is loaded with the first connection.
 */
export class NodeSubscription {
  readonly #options: NodeSubscriptionOptions
  readonly #backoff = new Backoff({ minMs: minReconnectDelayMs, maxMs: maxReconnectDelayMs })
  #socket: UpstreamSocket | undefined
  #timer: Timer | undefined
  #isEnabled = false
  #isSubscribed = false
  #isPinging = false
  #subscriptionId: unknown

  constructor(options: NodeSubscriptionOptions) {
    this.#options = options
  }

  get isSubscribed(): boolean {
    return this.#isSubscribed
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

  /** The subscription works: after the next failure it is tried again soon. */
  recordSuccess(): void {
    this.#backoff.reset()
  }

  /** Ends the connection; another is opened after a delay. */
  fail(cause: string, minDelayMs = 0): void {
    this.#disconnect()
    this.#options.onFailure(cause)
    if (!this.#isEnabled) return
    const { clock, random } = this.#options
    const delayMs = Math.max(minDelayMs, this.#backoff.next())
    this.#timer = clock.after(withJitter(delayMs, random), () => void this.#connect())
  }

  async #connect(): Promise<void> {
    const { WebSocket } = await import('ws')
    if (!this.#isEnabled || this.#socket !== undefined) return
    const { url, headers, clock, maxPayloadBytes } = this.#options
    this.#timer = clock.after(handshakeTimeoutMs, () => this.fail('subscribing timed out'))
    this.#socket = openWebSocket(WebSocket, url.reveal(), {
      headers: revealHeaders(headers),
      handshakeTimeoutMs,
      maxPayloadBytes,
      onOpen: () => this.#request(chainIdRequestId, 'eth_chainId', []),
      onMessage: data => this.#handleMessage(data),
      onPong: () => this.#recordPong(),
      onLoss: error => this.fail(error === undefined ? 'connection closed' : describeNetworkError(error, 'WebSocket handshake failed')),
    })
    if (this.#socket === undefined) this.fail('invalid WebSocket URL', unsupportedRetryDelayMs)
  }

  #request(id: number, method: string, params: readonly Json[]): void {
    this.#socket?.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
  }

  #handleMessage(data: Buffer): void {
    const message = parseMessage(data)
    if (message === undefined) return this.fail('invalid JSON message')
    const { id, method, result, params } = message
    if (method === 'eth_subscription') this.#handleNotification(membersOf(params))
    else if (id === chainIdRequestId) this.#checkChainId(result)
    else if (id === subscribeRequestId) this.#handleSubscribed(result)
  }

  #checkChainId(result: unknown): void {
    const { chainId: expected, params } = this.#options
    const chainId = parseHexQuantity(result)
    if (chainId === expected) this.#request(subscribeRequestId, 'eth_subscribe', params)
    else if (chainId === undefined) this.fail('eth_chainId failed')
    else this.fail(`wrong chain ID ${chainId}`, unsupportedRetryDelayMs)
  }

  #handleSubscribed(result: unknown): void {
    if (typeof result !== 'string') return this.fail('eth_subscribe failed', unsupportedRetryDelayMs)
    this.#timer?.cancel()
    this.#subscriptionId = result
    this.#isSubscribed = true
    const { clock, pingIntervalMs } = this.#options
    if (pingIntervalMs !== undefined) this.#timer = clock.every(pingIntervalMs, () => this.#ping())
    this.#options.onSubscribed()
  }

  #ping(): void {
    if (this.#isPinging) return this.fail('pings are not answered')
    this.#isPinging = true
    this.#socket?.ping()
  }

  #recordPong(): void {
    this.#isPinging = false
  }

  #handleNotification({ subscription, result }: MessageMembers): void {
    if (this.#isSubscribed && subscription === this.#subscriptionId) this.#options.onEvent(result)
  }

  #disconnect(): void {
    this.#timer?.cancel()
    this.#isSubscribed = this.#isPinging = false
    this.#subscriptionId = undefined
    this.#socket?.drop()
    this.#socket = undefined
  }
}

const chainIdRequestId = 1
const subscribeRequestId = 2

type MessageMembers = ReturnType<typeof membersOf>

/** Undefined for invalid JSON, and for JSON that would take long to parse. */
const parseMessage = (data: Buffer): MessageMembers | undefined => {
  const scanner = new Scanner({ maxDepth: maxMessageDepth, maxElements: maxParsedValues, maxValues: maxParsedValues })
  return scanner.push(data) && scanner.end() === undefined ? membersOf(JSON.parse(data.toString())) : undefined
}
