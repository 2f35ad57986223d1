import type { Dispatcher } from 'undici'
import type { Clock } from '../clock.ts'
import { ConnectionPool } from './connection-pool.ts'
import type { PooledConnection } from './connection-pool.ts'
import { describeNetworkError } from './network-error.ts'
import type { Endpoint } from './endpoint.ts'

/** Connections for HTTP: kept alive, and replaced before they get old. */
export interface HttpClient {
  /**
   * Sends a POST. It follows no redirect and inflates nothing. A connection that the other side closed just as it was
   * used again costs nothing: what may be sent twice goes out on a fresh one.
   */
  post(endpoint: Endpoint, body: string, handler: ResponseHandler, idempotent: boolean): InFlightRequest
  /** How many connections the other side has ended. */
  disconnects(endpoint: Endpoint): number
  close(): Promise<void>
}

/** Is told what comes of a request: a head and any number of chunks, then an end; or a fault at any time. */
export interface ResponseHandler {
  onHeaders(status: number, headers: ResponseHeaders): void
  onData(bytes: Buffer): void
  onEnd(): void
  onError(error: unknown): void
}

export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** A request under way. */
export interface InFlightRequest {
  /** Nothing more is told, and the connection closes. */
  abort(): void
  /** No chunks for a while. */
  pause(): void
  resume(): void
}

export const openHttpClient = (clock: Clock): HttpClient => {
  const pools = new Map<string, ConnectionPool>()
  const poolOf = (origin: string): ConnectionPool => {
    const pool = pools.get(origin) ?? new ConnectionPool(origin, clock)
    pools.set(origin, pool)
    return pool
  }
  return {
    post({ origin, path, headers }, body, handler, idempotent) {
      const inFlight = new ResendingHandler({ method: 'POST', path, headers, body }, poolOf(origin), handler, idempotent)
      inFlight.start()
      return inFlight
    },
    disconnects: ({ origin }) => pools.get(origin)?.disconnects ?? 0,
    close: async () => void (await Promise.all(Array.from(pools.values(), pool => pool.close()))),
  }
}

/** What undici tells of one request; the second time that it is sent nobody hears of the first. */
class ResendingHandler implements InFlightRequest, Dispatcher.DispatchHandler {
  readonly #request: Dispatcher.DispatchOptions
  readonly #pool: ConnectionPool
  readonly #handler: ResponseHandler
  #canResend: boolean
  #connection: PooledConnection
  /** The connection had been open before. */
  #isReused: boolean
  #controller: Dispatcher.DispatchController | undefined
  #hasHeaders = false
  #hasEnded = false

  constructor(request: Dispatcher.DispatchOptions, pool: ConnectionPool, handler: ResponseHandler, canResend: boolean) {
    this.#request = request
    this.#pool = pool
    this.#handler = handler
    this.#canResend = canResend
    this.#connection = pool.acquire()
    this.#isReused = this.#connection.isOpen
  }

  start(): void {
    this.#connection.dispatch(this.#request, this)
  }

  abort(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#pool.destroy(this.#connection)
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (this.#hasEnded || status < 200) return
    this.#hasHeaders = true
    this.#handler.onHeaders(status, headers)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#hasEnded) this.#handler.onData(chunk)
  }

  onResponseEnd(): void {
    if (this.#hasEnded) return
    this.#finish()
    this.#handler.onEnd()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#hasEnded) return
    // No head of an answer has come, so nothing was delivered yet; a node that is down fails the second time too.
    const isStaleConnection = this.#isReused && !this.#hasHeaders && describeNetworkError(error) !== undefined
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
