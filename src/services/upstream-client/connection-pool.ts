import type { Clock, Timer } from '../clock.ts'
import type { ConnectionOwner, HttpConnection, NewConnection } from './http-connection.ts'

/** How often idle connections are looked through for those that have expired. */
const sweepIntervalMs = 1_000

/**
 * The connections to one origin. The connection that was used last is taken first, so that unneeded ones idle and close.
 * undici's own pool looks through all of its connections for each request: 2 % of what a call to a node costs.
 */
export class ConnectionPool implements ConnectionOwner {
  readonly #newConnection: NewConnection
  readonly #clock: Clock
  readonly #connections = new Set<HttpConnection>()
  /** In the order of their last use. */
  readonly #idle: HttpConnection[] = []
  #sweepTimer: Timer | undefined
  /** How many connections the other side has ended. */
  disconnects = 0

  constructor(newConnection: NewConnection, clock: Clock) {
    this.#newConnection = newConnection
    this.#clock = clock
  }

  /** For one request; an open connection, if one is idle. */
  acquire(): HttpConnection {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (this.#isUsable(connection)) return connection
      this.destroy(connection)
    }
    return this.open()
  }

  /** For one request; a new connection. */
  open(): HttpConnection {
    const connection = this.#newConnection(this)
    this.#connections.add(connection)
    return connection
  }

  /** Its request has ended, with a response or an error. */
  release(connection: HttpConnection): void {
    if (!this.#isUsable(connection)) return this.destroy(connection)
    this.#idle.push(connection)
    this.#sweepTimer ??= this.#clock.after(sweepIntervalMs, () => this.#sweep())
  }

  /** Closes it at once; its request gets no further events. */
  destroy(connection: HttpConnection): void {
    this.#connections.delete(connection)
    connection.destroy()
  }

  onDisconnect(connection: HttpConnection): void {
    this.disconnects += 1
    const index = this.#idle.indexOf(connection)
    if (index < 0) return
    this.#idle.splice(index, 1)
    this.destroy(connection)
  }

  close(): void {
    this.#sweepTimer?.cancel()
    this.#idle.length = 0
    for (const connection of this.#connections) connection.destroy()
    this.#connections.clear()
  }

  /** Closes idle connections before the node does. */
  #sweep(): void {
    const usable = this.#idle.filter(connection => this.#isUsable(connection) || this.destroy(connection))
    this.#idle.splice(0, this.#idle.length, ...usable)
    this.#sweepTimer = usable.length === 0 ? undefined : this.#clock.after(sweepIntervalMs, () => this.#sweep())
  }

  #isUsable({ isOpen, expiresAtMs }: HttpConnection): boolean {
    return isOpen && this.#clock.monotonic() < expiresAtMs
  }
}
