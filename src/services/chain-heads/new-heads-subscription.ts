import type { WebSocket } from 'ws'
import type { Secret } from '../../plugin/secret.ts'
import { maxParsedValues } from '../../json/top-level-index.ts'
import { Scanner } from '../../json/scanner.ts'
import { describeNetworkError } from '../upstream-client/network-error.ts'
import type { Clock, Timer } from '../clock.ts'
import { parseBlockHeader, parseQuantity } from './block-header.ts'
import type { BlockHeader } from './block-header.ts'

export interface NewHeadsSubscriptionOptions {
  readonly url: Secret
  readonly chainId: number
  /** ms without a head after which it cannot be relied on. */
  readonly staleAfterMs: number
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  onHead(block: BlockHeader): void
  /** It begins to tell of heads; `again`: it did so before, so another node may be there. */
  onSubscribed(again: boolean): void
  /** It tells nothing any more, or could not begin; told once until it opens again. */
  onFailure(cause: string): void
}

/** In ms: how long the first steps of a connection may take; the first wait before another, and the longest. */
const handshakeTimeoutMs = 5_000
const minReconnectDelayMs = 500
const maxReconnectDelayMs = 30_000
/** A header takes 2 KB. */
const maxPayloadBytes = 131_072
/** In ms, before a node is tried again that is on another chain or does not know eth_subscribe. */
const unsupportedRetryDelayMs = 300_000

/**
 * New heads as a node tells them unasked: eth_subscribe on a WebSocket that is opened anew whenever it ends, for whatever
 * reason, with growing waits. Each connection is asked for its chain first. `ws` is loaded when the first one opens.
 */
export class NewHeadsSubscription {
  readonly #options: NewHeadsSubscriptionOptions
  #socket: WebSocket | undefined
  #timer: Timer | undefined
  #isEnabled = false
  #isSubscribed = false
  #wasSubscribed = false
  #isFailureReported = false
  #failures = 0
  #subscriptionId: unknown
  #lastHeadAt = 0
  #lastHead: BlockHeader | undefined
  #missedHeads = 0

  constructor(options: NewHeadsSubscriptionOptions) {
    this.#options = options
  }

  /** Has it told of a head lately, or only just begun? */
  get isFresh(): boolean {
    return this.#isSubscribed && this.#options.clock.monotonic() - this.#lastHeadAt < this.#options.staleAfterMs
  }

  /** Opens it, unless it is open or being opened. */
  open(): void {
    if (this.#isEnabled) return
    this.#isEnabled = true
    void this.#connect()
  }

  close(): void {
    this.#isEnabled = false
    this.#failures = 0
    this.#disconnect()
  }

  /** A poll has shown this head. When that happens twice before the feed tells of it, the feed is dead. */
  comparePolledHead(polled: BlockHeader): void {
    if (!this.#isSubscribed || this.#lastHead === undefined || polled.number <= this.#lastHead.number) return
    this.#missedHeads += 1
    if (this.#missedHeads > 1) this.#fail('it tells of no heads')
  }

  async #connect(): Promise<void> {
    const { WebSocket } = await import('ws')
    if (!this.#isEnabled || this.#socket !== undefined) return
    const { url, clock } = this.#options
    const socket = openSocket(WebSocket, url)
    if (socket === undefined) return this.#fail('its URL is none of a WebSocket', unsupportedRetryDelayMs)
    this.#socket = socket
    this.#timer = clock.after(handshakeTimeoutMs, () => this.#fail('no subscription in time'))
    const ifCurrent = (handler: () => void) => () => {
      if (socket === this.#socket) handler()
    }
    socket.on(
      'open',
      ifCurrent(() => sendRequest(socket, chainIdRequestId, 'eth_chainId', [])),
    )
    socket.on('message', data => ifCurrent(() => this.#handleMessage(socket, data as Buffer))()) // ws gives Buffers unless told otherwise
    socket.on('error', error => ifCurrent(() => this.#fail(describeNetworkError(error) ?? 'the WebSocket was refused'))())
    socket.on(
      'close',
      ifCurrent(() => this.#fail('the connection was closed')),
    )
  }

  #handleMessage(socket: WebSocket, data: Buffer): void {
    const message = parseMessage(data)
    if (message === undefined) return this.#fail('what it says is not JSON')
    const { id, method, result, params } = message
    if (method === 'eth_subscription') this.#handleNotification(asMembers(params))
    else if (id === chainIdRequestId) this.#checkChainId(socket, result)
    else if (id === subscribeRequestId) this.#handleSubscribed(result)
  }

  #checkChainId(socket: WebSocket, result: unknown): void {
    const chainId = parseQuantity(result)
    if (chainId === this.#options.chainId) sendRequest(socket, subscribeRequestId, 'eth_subscribe', ['newHeads'])
    else if (chainId === undefined) this.#fail('it does not tell its chain')
    else this.#fail(`it is on chain ${chainId}`, unsupportedRetryDelayMs)
  }

  #handleSubscribed(result: unknown): void {
    if (typeof result !== 'string') return this.#fail('it does not take eth_subscribe', unsupportedRetryDelayMs)
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
    this.#missedHeads = this.#failures = 0
    this.#options.onHead(block)
  }

  /** Waits grow until a head comes, and differ, so that not all gateways come back to a node at once. */
  #fail(cause: string, minDelayMs = 0): void {
    this.#disconnect()
    if (!this.#isFailureReported) this.#options.onFailure(cause)
    this.#isFailureReported = true
    const { clock, random } = this.#options
    const delayMs = Math.max(minDelayMs, Math.min(maxReconnectDelayMs, minReconnectDelayMs * 2 ** this.#failures))
    this.#failures += 1
    this.#timer = clock.after(delayMs * (0.5 + random() / 2), () => void this.#connect())
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

/** Undefined for what only looks like a URL of a WebSocket: one with a fragment, say. The error would show it. */
const openSocket = (Socket: typeof WebSocket, url: Secret): WebSocket | undefined => {
  try {
    return new Socket(url.reveal(), {
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: maxPayloadBytes,
      handshakeTimeout: handshakeTimeoutMs,
    })
  } catch {
    return undefined
  }
}

const sendRequest = (socket: WebSocket, id: number, method: string, params: readonly string[]): void =>
  socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))

type MessageMembers = Readonly<Record<string, unknown>>

/** Undefined for what is no JSON, or would take long to parse. */
const parseMessage = (data: Buffer): MessageMembers | undefined => {
  const scanner = new Scanner({ maxDepth: 64, maxElements: maxParsedValues, maxValues: maxParsedValues })
  return scanner.push(data) && scanner.end() === undefined ? asMembers(JSON.parse(data.toString())) : undefined
}

const asMembers = (value: unknown): MessageMembers => Object(value)
