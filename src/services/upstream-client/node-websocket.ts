import { findResponseId } from '../../json-rpc/parse-response.ts'
import { Backoff, withJitter } from '../../util/async.ts'
import { ShortLivedMap } from '../../util/short-lived-map.ts'
import type { Clock, Timer } from '../clock.ts'
import type { HttpRequest, InFlightRequest, ResponseHandler, ResponseHeaders, UpstreamTransport } from './upstream-transport.ts'
import { connectionClosed, connectionTimedOut } from './network-errors.ts'
import { openWebSocket } from './open-websocket.ts'
import type { UpstreamSocket } from './open-websocket.ts'

/** Longer messages close the connection. Twice what the result of a call may take by default. */
const maxPayloadBytes = 67_108_864
const handshakeTimeoutMs = 5_000
const minReconnectDelayMs = 100
const maxReconnectDelayMs = 10_000
/** A connection on which nothing comes is pinged this often, and closed when the pong takes as long as that again. */
const pingIntervalMs = 15_000
const pongTimeoutMs = 5_000
/** A connection without requests for so long is closed; the next request opens another. */
const maxIdleMs = 60_000

interface NodeWebSocketOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
}

/** A request that is to be sent, or was sent, over the connection. */
interface WsRequest {
  readonly id: number
  readonly body: string
  readonly handler: ResponseHandler
  /** It may be sent again when the connection is lost. */
  canResend: boolean
  /** Sent over the current connection. */
  isSent: boolean
}

/**
 * All requests to one URL over one WebSocket, whose responses may come in any order. It connects with the first request, and is
 * closed when there are none for long. When a connection is lost that has brought a message, idempotent requests are sent again
 * over a new one, once; while the node cannot be reached, requests fail until the backoff ends. That a node drops a connection
 * without a close frame is normal.
 */
export class NodeWebSocket implements UpstreamTransport {
  readonly #options: NodeWebSocketOptions
  readonly #requests = new ShortLivedMap<number, WsRequest>()
  readonly #backoff = new Backoff({ minMs: minReconnectDelayMs, maxMs: maxReconnectDelayMs })
  #socket: UpstreamSocket | undefined
  #isOpen = false
  #isConnecting = false
  #isClosed = false
  /** The current connection has brought a message. */
  #isProven = false
  #isPinging = false
  /** No new connection before, on the monotonic clock. */
  #retryAt = 0
  /** Requests fail until then, as the node could not be reached. */
  #failUntil = 0
  #lastSentAt = 0
  #timer: Timer | undefined
  disconnects = 0

  constructor(options: NodeWebSocketOptions) {
    this.#options = options
  }

  send({ id, body, idempotent }: HttpRequest, handler: ResponseHandler): InFlightRequest {
    const request = { id, body, handler, canResend: idempotent, isSent: false }
    this.#requests.set(id, request)
    if (this.#isOpen) this.#write(request)
    else if (this.#isClosed || this.#now < this.#failUntil) queueMicrotask(() => this.#failAll(connectionClosed))
    else this.#connectSoon()
    return {
      abort: () => {
        if (this.#requests.get(id) !== request) return
        this.#requests.delete(id)
        if (request.isSent) this.#ping() // it may be the connection that is silent
      },
      // A message is there as a whole, or not at all.
      pause: () => undefined,
      resume: () => undefined,
    }
  }

  close(): void {
    this.#isClosed = true
    this.#dropSocket()
    this.#failAll(connectionClosed)
  }

  get #now(): number {
    return this.#options.clock.monotonic()
  }

  #connectSoon(): void {
    if (this.#isConnecting) return
    this.#isConnecting = true
    if (this.#now >= this.#retryAt) void this.#connect()
    else this.#setTimer(this.#retryAt - this.#now, () => void this.#connect())
  }

  async #connect(): Promise<void> {
    const { WebSocket } = await import('ws')
    if (this.#isClosed) return
    const { url, headers } = this.#options
    this.#socket = openWebSocket(WebSocket, url, {
      headers,
      handshakeTimeoutMs,
      maxPayloadBytes,
      onOpen: () => this.#handleOpen(),
      onMessage: data => this.#handleMessage(data),
      onPong: () => this.#recordReceived(),
      onLoss: (error = connectionClosed) => this.#handleLoss(error),
      onRefused: (status, found) => this.#refuse(status, found),
    })
    if (this.#socket === undefined) this.#giveUp(new Error('invalid WebSocket URL'))
  }

  #handleOpen(): void {
    this.#isConnecting = this.#isProven = false
    this.#isOpen = true
    this.#lastSentAt = this.#now
    this.#recordReceived()
    for (const request of this.#requests.values()) this.#write(request)
  }

  #write(request: WsRequest): void {
    request.isSent = true
    this.#lastSentAt = this.#now
    this.#socket?.send(request.body)
    request.handler.onStart()
  }

  /** A notification, or a response that nobody waits for any more, is dropped. */
  #handleMessage(data: Buffer): void {
    this.#recordReceived()
    this.#isProven = true
    this.#backoff.reset()
    const id = findResponseId(data)
    const request = id === undefined ? undefined : this.#requests.get(id)
    if (id === undefined || request === undefined) return
    this.#requests.delete(id)
    request.handler.onHeaders(200, { 'content-length': String(data.length) })
    request.handler.onData(data)
    request.handler.onEnd()
  }

  #recordReceived(): void {
    this.#isPinging = false
    this.#setTimer(pingIntervalMs, () => this.#ping())
  }

  #ping(): void {
    if (!this.#isOpen || this.#isPinging) return
    if (this.#requests.size === 0 && this.#now - this.#lastSentAt >= maxIdleMs) return this.#dropSocket()
    this.#isPinging = true
    this.#socket?.ping()
    this.#setTimer(pongTimeoutMs, () => this.#handleLoss(connectionTimedOut))
  }

  #handleLoss(cause: Error): void {
    if (!this.#isOpen) return this.#giveUp(cause)
    const isProven = this.#isProven || isTooLong(cause)
    this.#dropSocket()
    this.disconnects += 1
    if (!isProven) return this.#giveUp(cause)
    for (const { id, canResend, handler } of this.#requests.values()) {
      if (canResend) continue
      this.#requests.delete(id)
      handler.onError(cause)
    }
    for (const request of this.#requests.values()) Object.assign(request, { canResend: false, isSent: false })
    this.#delayNextAttempt()
    if (this.#requests.size > 0) this.#connectSoon()
  }

  /** The connection could not be opened. */
  #giveUp(cause: Error): void {
    this.#dropSocket()
    this.#failUntil = this.#delayNextAttempt()
    this.#failAll(cause)
  }

  /** The node answered the upgrade with an HTTP response, such as 401 or 429: it is that of each request. */
  #refuse(status: number, headers: ResponseHeaders): void {
    this.#dropSocket()
    this.#failUntil = this.#delayNextAttempt()
    for (const { handler } of this.#takeAll()) {
      handler.onHeaders(status, headers)
      handler.onEnd()
    }
  }

  #delayNextAttempt(): number {
    this.#retryAt = this.#now + withJitter(this.#backoff.next(), this.#options.random)
    return this.#retryAt
  }

  #failAll(cause: Error): void {
    for (const { handler } of this.#takeAll()) handler.onError(cause)
  }

  #takeAll(): readonly WsRequest[] {
    const requests = this.#requests.values()
    for (const { id } of requests) this.#requests.delete(id)
    return requests
  }

  #dropSocket(): void {
    this.#timer?.cancel()
    this.#isOpen = this.#isConnecting = this.#isPinging = false
    this.#socket?.drop()
    this.#socket = undefined
  }

  #setTimer(ms: number, run: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#options.clock.after(Math.max(0, ms), run)
  }
}

/** A message that is too long shows that the node is there: the calls that come next wait for the new connection. */
const isTooLong = (cause: Error): boolean => 'code' in cause && cause.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH'
