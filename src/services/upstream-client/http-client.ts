import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import { ConnectionPool } from './connection-pool.ts'
import type { Endpoint } from './endpoint.ts'
import { Http1Connection } from './http1/connection.ts'
import { SocketConnector } from './http1/socket-connector.ts'
import type { HttpConnection, HttpImplementation, HttpRequest, NewConnection, ResponseHandler, ResponseHeaders } from './http-connection.ts'
import { SocketLimit } from './socket-limit.ts'
import { createUndiciConnections } from './undici-connection.ts'

/** HTTP connections: kept alive, and replaced before they get old. */
export interface HttpClient {
  /**
   * Sends a POST. It follows no redirect and decompresses nothing. When the other side closes a kept-alive connection just
   * as it is used again, an idempotent request is resent on a new connection.
   */
  post(endpoint: Endpoint, body: string, handler: ResponseHandler, idempotent: boolean): InFlightRequest
  /** How many connections the other side has ended. */
  disconnects(endpoint: Endpoint): number
  close(): Promise<void>
}

/** A request that was sent and has not ended. */
export interface InFlightRequest {
  /** Closes the connection; no event follows. */
  abort(): void
  /** No chunks until resume(). */
  pause(): void
  resume(): void
}

export const openHttpClient = (clock: Clock, maxSockets: number, implementation: HttpImplementation): HttpClient => {
  const limit = new SocketLimit(maxSockets)
  const pools = new Map<string, ConnectionPool>()
  const newPool = (origin: string): ConnectionPool => new ConnectionPool(newConnectionOf[implementation](origin, limit, clock), clock)
  return {
    post(endpoint, body, handler, idempotent) {
      const inFlight = new ResendingHandler({ endpoint, body }, getOrCreate(pools, endpoint.origin, newPool), handler, idempotent)
      inFlight.start()
      return inFlight
    },
    disconnects: ({ origin }) => pools.get(origin)?.disconnects ?? 0,
    async close() {
      for (const pool of pools.values()) pool.close()
    },
  }
}

const newConnectionOf: Readonly<Record<HttpImplementation, (origin: string, limit: SocketLimit, clock: Clock) => NewConnection>> = {
  tollgate: (origin, limit, clock) => {
    const connector = new SocketConnector(origin, limit)
    return owner => new Http1Connection(connector, owner, clock)
  },
  undici: createUndiciConnections,
}

/** Passes the events of one request on; when the request is resent, those of the first time are dropped. */
class ResendingHandler implements InFlightRequest, ResponseHandler {
  readonly #request: HttpRequest
  readonly #pool: ConnectionPool
  readonly #handler: ResponseHandler
  #canResend: boolean
  #connection: HttpConnection
  /** The connection had been open before. */
  #isReused: boolean
  #hasHeaders = false
  #hasEnded = false

  constructor(request: HttpRequest, pool: ConnectionPool, handler: ResponseHandler, canResend: boolean) {
    this.#request = request
    this.#pool = pool
    this.#handler = handler
    this.#canResend = canResend
    this.#connection = pool.acquire()
    this.#isReused = this.#connection.isOpen
  }

  start(): void {
    this.#connection.send(this.#request, this)
  }

  abort(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#pool.destroy(this.#connection)
  }

  pause(): void {
    if (!this.#hasEnded) this.#connection.pause()
  }

  resume(): void {
    if (!this.#hasEnded) this.#connection.resume()
  }

  onStart(): void {
    if (!this.#hasEnded) this.#handler.onStart()
  }

  onHeaders(status: number, headers: ResponseHeaders): void {
    if (this.#hasEnded) return
    this.#hasHeaders = true
    this.#handler.onHeaders(status, headers)
  }

  onData(bytes: Buffer, isTransient?: boolean): void {
    if (!this.#hasEnded) this.#handler.onData(bytes, isTransient)
  }

  onEnd(): void {
    if (this.#hasEnded) return
    this.#finish()
    this.#handler.onEnd()
  }

  onError(error: unknown): void {
    if (this.#hasEnded) return
    // No headers have come, so nothing was delivered yet; a node that is down fails the second time too.
    const isStaleConnection = this.#isReused && !this.#hasHeaders
    if (isStaleConnection && this.#canResend) return this.#resend()
    this.#finish()
    this.#handler.onError(error)
  }

  #resend(): void {
    this.#canResend = false
    this.#pool.destroy(this.#connection)
    this.#connection = this.#pool.open()
    this.start()
  }

  #finish(): void {
    this.#hasEnded = true
    this.#pool.release(this.#connection)
  }
}
