import { getOrCreate } from '../../util/memoize.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Endpoint } from './endpoint.ts'
import { Http1Connection } from './http1/connection.ts'
import type { RequestOwner } from './http1/connection.ts'
import { SocketConnector } from './http1/socket-connector.ts'
import type { ConnectionOwner, HttpRequest, InFlightRequest, ResponseHandler, UpstreamTransport } from './upstream-transport.ts'

/** HTTP connections to all nodes: kept alive, and replaced before they get old. */
export interface HttpClient {
  /** Endpoints of one origin share a transport; those of WebSockets where the URL and the credentials are the same. */
  transportTo(endpoint: Endpoint): UpstreamTransport
  close(): Promise<void>
}

export const openHttpClient = (clock: Clock, maxSockets: number, maxIdleSockets = defaultMaxIdleSockets): HttpClient => {
  const pools = new Map<string, ConnectionPool>()
  const limit = new SocketLimit(maxSockets, maxIdleSockets, pools)
  const newPool = (origin: string): ConnectionPool => new ConnectionPool(origin, limit, clock)
  return {
    transportTo: ({ origin }) => getOrCreate(pools, origin, newPool),
    async close() {
      for (const pool of pools.values()) pool.close()
    },
  }
}

/** Of a process. A gateway with thousands of nodes asks each of them when it starts. */
const defaultMaxIdleSockets = 1_000

/** How often idle connections are looked through for those that have expired. */
const sweepIntervalMs = 1_000

/** Where an idle connection is to be closed, one in so many is. */
const closedIdleShare = 8

/**
 * Bounds the sockets to all nodes that are open together, and those of them that are idle: nodes that were asked once must not hold the
 * sockets that others need. Idle ones are only counted with each request: which is the oldest is found out where one has to be closed.
 */
class SocketLimit {
  readonly #maxSockets: number
  readonly #maxIdleSockets: number
  readonly #pools: ReadonlyMap<string, ConnectionPool>
  readonly #open = new Set<object>()
  #idleCount = 0

  constructor(maxSockets: number, maxIdleSockets: number, pools: ReadonlyMap<string, ConnectionPool>) {
    this.#maxSockets = maxSockets
    this.#maxIdleSockets = maxIdleSockets
    this.#pools = pools
  }

  /** Whether there may be one more. Where no socket is left, the idle one that was unused for longest is closed. */
  makeRoom(): boolean {
    return this.#open.size < this.#maxSockets || this.#closeIdle()
  }

  add(socket: object): void {
    this.#open.add(socket)
  }

  /** It has been closed: its file is free at once, before its event `close`. */
  remove(socket: object): void {
    this.#open.delete(socket)
  }

  addIdle(): void {
    this.#idleCount += 1
    if (this.#idleCount > this.#maxIdleSockets) this.#closeIdle()
  }

  removeIdle(): void {
    this.#idleCount -= 1
  }

  /** Several at once: thousands of nodes are not looked through for each. False where none is idle. */
  #closeIdle(): boolean {
    const idlePools = Array.from(this.#pools.values()).filter(({ idleSinceMs }) => idleSinceMs < Infinity)
    idlePools.sort((a, b) => a.idleSinceMs - b.idleSinceMs)
    for (const pool of idlePools.slice(0, Math.ceil(this.#idleCount / closedIdleShare))) pool.closeIdle()
    return idlePools.length > 0
  }
}

/** The connections to one origin. The connection that was used last is taken first, so that unneeded ones idle and close. */
class ConnectionPool implements UpstreamTransport, ConnectionOwner<Http1Connection> {
  readonly #connector: SocketConnector
  readonly #limit: SocketLimit
  readonly #clock: Clock
  readonly #connections = new Set<Http1Connection>()
  /** In the order of their last use. */
  readonly #idle: Http1Connection[] = []
  #sweepTimer: Timer | undefined
  disconnects = 0

  constructor(origin: string, limit: SocketLimit, clock: Clock) {
    this.#connector = new SocketConnector(origin, limit)
    this.#limit = limit
    this.#clock = clock
  }

  send(request: HttpRequest, handler: ResponseHandler): InFlightRequest {
    const inFlight = new PooledRequest(request, this, handler)
    inFlight.start()
    return inFlight
  }

  /** For one request; an open connection, if one is idle. */
  acquire(): Http1Connection {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      this.#limit.removeIdle()
      if (this.#isUsable(connection)) return connection
      this.destroy(connection)
    }
    return this.open()
  }

  /** For one request; a new connection. */
  open(): Http1Connection {
    const connection = new Http1Connection(this.#connector, this, this.#clock)
    this.#connections.add(connection)
    return connection
  }

  /** Its request has ended, with a response or an error. */
  release(connection: Http1Connection): void {
    if (!this.#isUsable(connection)) return this.destroy(connection)
    this.#idle.push(connection)
    this.#limit.addIdle()
    this.#sweepTimer ??= this.#clock.after(sweepIntervalMs, () => this.#sweep())
  }

  /** Closes it at once; its request gets no further events. */
  destroy(connection: Http1Connection): void {
    this.#connections.delete(connection)
    connection.destroy()
  }

  onDisconnect(connection: Http1Connection): void {
    this.disconnects += 1
    const index = this.#idle.indexOf(connection)
    if (index >= 0) this.#closeIdleAt(index)
  }

  /** When its idle connection that was unused for longest was used last, in ms; infinite without any. */
  get idleSinceMs(): number {
    return this.#idle[0]?.idleSinceMs ?? Infinity
  }

  closeIdle(): void {
    this.#closeIdleAt(0)
  }

  close(): void {
    this.#sweepTimer?.cancel()
    while (this.#idle.length > 0) this.closeIdle()
    for (const connection of this.#connections) this.destroy(connection)
  }

  /** Closes idle connections before the node does. */
  #sweep(): void {
    for (let i = this.#idle.length - 1; i >= 0; i--) {
      const connection = this.#idle[i]
      if (connection !== undefined && !this.#isUsable(connection)) this.#closeIdleAt(i)
    }
    this.#sweepTimer = this.#idle.length === 0 ? undefined : this.#clock.after(sweepIntervalMs, () => this.#sweep())
  }

  #closeIdleAt(index: number): void {
    for (const connection of this.#idle.splice(index, 1)) {
      this.#limit.removeIdle()
      this.destroy(connection)
    }
  }

  #isUsable({ isOpen, expiresAtMs }: Http1Connection): boolean {
    return isOpen && this.#clock.monotonic() < expiresAtMs
  }
}

/** A request of a pool, and its connection: another one when it is resent. */
class PooledRequest implements InFlightRequest, RequestOwner {
  readonly #request: HttpRequest
  readonly #pool: ConnectionPool
  readonly #handler: ResponseHandler
  #canResend: boolean
  #connection: Http1Connection
  #hasEnded = false

  constructor(request: HttpRequest, pool: ConnectionPool, handler: ResponseHandler) {
    this.#request = request
    this.#pool = pool
    this.#handler = handler
    this.#connection = pool.acquire()
    // On a connection that had been open before, the other side may close it just as it is used again.
    this.#canResend = request.idempotent && this.#connection.isOpen
  }

  start(): void {
    this.#connection.send(this.#request, this.#handler, this)
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

  onEnd(): void {
    this.#hasEnded = true
    this.#pool.release(this.#connection)
    this.#handler.onEnd()
  }

  onError(error: Error, hasHeaders: boolean): void {
    // Without headers nothing was delivered yet; a node that is down fails the second time too.
    if (this.#canResend && !hasHeaders) return this.#resend()
    this.#hasEnded = true
    this.#pool.release(this.#connection)
    this.#handler.onError(error)
  }

  #resend(): void {
    this.#canResend = false
    this.#pool.destroy(this.#connection)
    this.#connection = this.#pool.open()
    this.start()
  }
}
