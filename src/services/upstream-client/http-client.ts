import { unescape as decodePercent } from 'node:querystring'
import type { Dispatcher } from 'undici'
import type { Target } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import { ConnectionPool, createSocketLimit } from './connection-pool.ts'
import type { PooledConnection } from './connection-pool.ts'

/** How a node is reached, prepared once. */
export interface Endpoint {
  readonly origin: string
  /** With its query. */
  readonly path: string
  /** Names and values in turn. */
  readonly headers: string[]
  /** Those that identify the gateway to the node, also in an upgrade to a WebSocket. */
  readonly credentials: Readonly<Record<string, string>>
}

/** A user and a password in the URL become an Authorization header (RFC 7617). */
export const parseEndpoint = (url: Secret, { headers, compression }: Pick<Target, 'headers' | 'compression'> = {}): Endpoint => {
  const { origin, pathname, search, username, password } = new URL(url.reveal())
  const user = `${decodePercent(username)}:${decodePercent(password)}`
  const authorization = user === ':' ? {} : { authorization: `Basic ${Buffer.from(user).toString('base64')}` }
  const credentials = { ...authorization, ...revealHeaders(headers) }
  const acceptEncoding = ['accept-encoding', compression === true ? 'gzip' : 'identity']
  return {
    origin,
    path: pathname + search,
    headers: [...requestHeaders, ...acceptEncoding, ...Object.entries(credentials).flat()],
    credentials,
  }
}

/** In plain text: only for requests to the node. */
export const revealHeaders = (headers: Target['headers'] = {}): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()]))

export const withHeader = (endpoint: Endpoint, name: string, value: string): Endpoint => ({
  ...endpoint,
  headers: [...endpoint.headers, name, value],
})

/** Compression is not requested by default: with gzip 6 MB of logs take 16 ms of CPU in place of 6, and come over a local network in less. */
const requestHeaders = ['content-type', 'application/json', 'accept', 'application/json']

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

/** The events of a request: it is written to an open connection, perhaps twice; headers, any number of chunks, the end; or an error at any time. */
export interface ResponseHandler {
  onStart(): void
  onHeaders(status: number, headers: ResponseHeaders): void
  onData(bytes: Buffer): void
  onEnd(): void
  onError(error: unknown): void
}

export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** A request that was sent and has not ended. */
export interface InFlightRequest {
  /** Closes the connection; no event follows. */
  abort(): void
  /** No chunks until resume(). */
  pause(): void
  resume(): void
}

export const openHttpClient = (clock: Clock, maxSockets: number): HttpClient => {
  const limitSockets = createSocketLimit(maxSockets)
  const pools = new Map<string, ConnectionPool>()
  const newPool = (origin: string) => new ConnectionPool(origin, clock, limitSockets)
  return {
    post({ origin, path, headers }, body, handler, idempotent) {
      const inFlight = new ResendingHandler(
        { method: 'POST', path, headers, body },
        getOrCreate(pools, origin, newPool),
        handler,
        idempotent,
      )
      inFlight.start()
      return inFlight
    },
    disconnects: ({ origin }) => pools.get(origin)?.disconnects ?? 0,
    close: async () => void (await Promise.all(Array.from(pools.values(), pool => pool.close()))),
  }
}

/** Passes undici's events of one request on; when the request is resent, those of the first time are dropped. */
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
    if (!this.#hasEnded) this.#handler.onStart()
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

/**
 * What went wrong with a connection or with what came over it, in words for the log. Messages of libraries may hold the URL,
 * and with it a key: only codes are used, and `otherwise` for an error without a code.
 */
export const describeNetworkError = (error: unknown, otherwise = 'unexpected network error'): string => {
  const code = errorCodeOf(error)
  if (code === undefined) return otherwise
  const [, description] = descriptions.find(([pattern]) => pattern.test(code)) ?? []
  return description === undefined ? code : `${description} (${code})`
}

/** The code of an error that is due to a limit of this process or its machine, and not to the node. */
export const localLimitOf = (error: unknown): string | undefined => {
  const code = errorCodeOf(error)
  return code !== undefined && localLimitCodes.has(code) ? code : undefined
}

/** Open files of the process and of the system, memory for sockets, and local ports. */
const localLimitCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])

/** Some errors of undici's HTTP parser have no code. */
const errorCodeOf = (error: unknown): string | undefined =>
  !(error instanceof Error)
    ? undefined
    : 'code' in error && typeof error.code === 'string'
      ? error.code
      : error.name === 'HTTPParserError'
        ? 'HPE_ERROR'
        : undefined

const descriptions: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'connection refused'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_ABORTED)$/, 'connection closed'],
  [/^(ENOTFOUND|EAI_\w+)$/, 'host name not resolved'],
  [/^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT)$/, 'connection timed out'],
  [/^(EHOSTUNREACH|ENETUNREACH)$/, 'host unreachable'],
  [/^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_|ERR_SSL_|HOSTNAME_|INVALID_|EPROTO)/, 'TLS error'],
  // undici asserts what it expects of a response, as that the status is not below 100.
  [/^(HPE_|ERR_ASSERTION|UND_ERR_(HEADERS|RES|INFO|RESPONSE))/, 'invalid HTTP response'],
  [/^(Z_|ERR__|ERR_BROTLI|ERR_ZLIB)/, 'invalid compressed response'],
]
