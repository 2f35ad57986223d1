import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../clock.ts'
import { InvalidResponseError, connectionClosed, connectionTimedOut } from '../network-errors.ts'
import type { ConnectionOwner, HttpRequest, ResponseHandler } from '../upstream-transport.ts'
import { HeadParser, ResponseReader } from './response-reader.ts'
import type { SocketConnector } from './socket-connector.ts'

/** Connections older than this are replaced. A host name is resolved anew for each connection: a node that moves is found. */
const maxConnectionAgeMs = 30_000
const connectTimeoutMs = 1_000
/** For how long a connection may idle where the node does not say; a node that does not say may end it as a request is sent. */
const defaultKeepAliveMs = 4_000
/** So long before a node ends an idle connection, the connection is used no more: the request may take as long to get there. */
const keepAliveMarginMs = 2_000

/** What a response consists of, but for its end. */
type ResponseParts = Pick<ResponseHandler, 'onStart' | 'onHeaders' | 'onData'>

/** Learns how a request has ended, when its connection is free. */
export interface RequestOwner {
  onEnd(): void
  /** `hasHeaders`: those of the response had come. */
  onError(error: Error, hasHeaders: boolean): void
}

/**
 * One connection to a node over HTTP/1.1, for one request at a time. The connection opens with its first request. What arrives is read into one buffer that all connections share, and only the body of a
 * response is copied out of it; a request is one string. With undici, which allocates 64 KiB for each read, a call to a node takes
 * 15 % more CPU in all (in turns), and 21 MB take 3 times their size of memory in place of 0.7, and 1.06 times the CPU of a proxy that
 * pipes them in place of 0.66 (November 2026).
 */
export class Http1Connection {
  /** The connection is established, and may carry a request. */
  isOpen = false
  /** From then on the connection must not carry another request; in monotonic ms. */
  expiresAtMs = Infinity
  /** The end of its last response; in monotonic ms. */
  idleSinceMs = 0
  readonly #owner: ConnectionOwner<Http1Connection>
  readonly #clock: Clock
  readonly #connector: SocketConnector
  readonly #headParser = new HeadParser()
  #socket: Socket | undefined
  #openedAtMs = 0
  #connectTimer: Timer | undefined
  /** The request that waits for the connection. */
  #waiting: HttpRequest | undefined
  /** Of the request in flight. */
  #handler: ResponseParts | undefined
  #requestOwner: RequestOwner | undefined
  #reader: ResponseReader | undefined
  #isPaused = false
  /** What had been read when the handler paused; the shared buffer has other bytes by now. */
  #heldBytes: Buffer | undefined
  /** The other side ended the connection while the handler paused. */
  #hasEnded = false
  #isClosed = false

  constructor(connector: SocketConnector, owner: ConnectionOwner<Http1Connection>, clock: Clock) {
    this.#connector = connector
    this.#owner = owner
    this.#clock = clock
  }

  send(request: HttpRequest, handler: ResponseParts, requestOwner: RequestOwner): void {
    this.#handler = handler
    this.#requestOwner = requestOwner
    this.#isPaused = false
    if (this.isOpen) return this.#write(request)
    this.#waiting = request
    this.#connect()
  }

  pause(): void {
    this.#isPaused = true
    this.#socket?.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    const heldBytes = this.#heldBytes
    this.#heldBytes = undefined
    if (heldBytes !== undefined) this.#receive(heldBytes)
    if (this.#isPaused) return
    if (this.#hasEnded) this.#handleEnd()
    else this.#socket?.resume()
  }

  destroy(): void {
    this.#handler = this.#requestOwner = this.#reader = this.#waiting = this.#heldBytes = undefined
    this.#close()
  }

  #connect(): void {
    const fail = (error: Error): void => this.#handleLoss(error)
    this.#connectTimer = this.#clock.after(connectTimeoutMs, () => fail(connectionTimedOut))
    this.#socket = this.#connector.connect({
      onOpen: () => this.#handleOpen(),
      onRead: (byteLength, buffer) => {
        this.#receive((buffer as Buffer).subarray(0, byteLength)) // the connector's own
        return true
      },
      onEnd: () => this.#handleEnd(),
      onError: fail,
    })
  }

  #handleOpen(): void {
    this.#connectTimer?.cancel()
    if (this.#waiting === undefined) return
    this.isOpen = true
    this.#openedAtMs = this.#clock.monotonic()
    this.#write(this.#waiting)
  }

  #write({ endpoint, body }: HttpRequest): void {
    this.#waiting = undefined
    this.#reader = new ResponseReader(this.#handler!, this.#headParser)
    const byteLength = Buffer.byteLength(body)
    const message = `${endpoint.requestHead}content-length: ${byteLength}\r\n\r\n${body}`
    this.#socket?.write(message, byteLength === body.length ? 'latin1' : 'utf8')
    this.#handler?.onStart()
  }

  /** Reads until the response ends, the handler pauses, or the connection is destroyed. */
  #receive(bytes: Buffer): void {
    const reader = this.#reader
    // A response that no request has asked for must not become the response to the next one.
    if (reader === undefined) return this.#handleLoss(new InvalidResponseError('HTTP_UNREQUESTED_RESPONSE'))
    if (this.#isPaused) return this.#hold(bytes)
    let offset = 0
    try {
      while (this.#reader === reader && !this.#isPaused) {
        if (reader.isComplete) return this.#finish(reader, offset < bytes.length)
        if (offset >= bytes.length) return
        offset = reader.read(bytes, offset)
      }
    } catch (error) {
      if (!(error instanceof InvalidResponseError)) throw error
      return this.#handleLoss(error)
    }
    if (this.#reader === reader) this.#hold(bytes.subarray(offset))
  }

  #hold(bytes: Buffer): void {
    this.#heldBytes = this.#heldBytes === undefined ? Buffer.from(bytes) : Buffer.concat([this.#heldBytes, bytes])
  }

  #finish(reader: ResponseReader, hasSurplus: boolean): void {
    const requestOwner = this.#requestOwner
    this.#handler = this.#requestOwner = this.#reader = undefined
    const idleMs = reader.keepAliveMs === undefined ? defaultKeepAliveMs : reader.keepAliveMs - keepAliveMarginMs
    this.idleSinceMs = this.#clock.monotonic()
    this.expiresAtMs = Math.min(this.#openedAtMs + maxConnectionAgeMs, this.idleSinceMs + idleMs)
    const hasUnsentBytes = (this.#socket?.writableLength ?? 0) > 0
    if (hasSurplus || hasUnsentBytes || this.#hasEnded || !reader.isReusable || idleMs <= 0) this.#close()
    requestOwner?.onEnd()
  }

  #handleEnd(): void {
    if (this.#isPaused) {
      this.#hasEnded = true
      return
    }
    if (this.#reader?.end() === true) this.#finish(this.#reader, false)
    else this.#handleLoss(connectionClosed)
  }

  #handleLoss(error: Error): void {
    if (this.#isClosed) return
    const requestOwner = this.#requestOwner
    const hasHeaders = this.#reader?.hasHead === true
    const wasOpen = this.isOpen
    this.destroy()
    if (wasOpen) this.#owner.onDisconnect(this)
    requestOwner?.onError(error, hasHeaders)
  }

  #close(): void {
    this.#isClosed = true
    this.isOpen = false
    this.#connectTimer?.cancel()
    if (this.#socket !== undefined) this.#connector.close(this.#socket)
  }
}
