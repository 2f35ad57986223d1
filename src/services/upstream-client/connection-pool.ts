// Two parts of undici: the whole of it, with fetch and WebSocket, takes three times as long to load (70 ms more).
import buildConnector from 'undici/lib/core/connect.js'
import Client from 'undici/lib/dispatcher/client.js'
import type { Clock } from '../clock.ts'
import { createCoalescingLookup } from './dns-lookup.ts'

/** In ms. A host name is resolved anew for each connection, so that a node which moves is found within this time. */
const maxConnectionAgeMs = 30_000

/** Timers of undici count coarsely and count idle time only: whoever sent a request aborts it in time. */
const clientOptions = { headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: maxConnectionAgeMs }

/** Codes of connections that we end, or undici by itself: one that was not used for long. */
const localDisconnectCodes: ReadonlySet<string> = new Set(['UND_ERR_DESTROYED', 'UND_ERR_INFO'])

/** One connection. It opens with its first request. */
export class PooledConnection extends Client {
  isOpen = false
  /** When it opened, in monotonic ms. */
  openedAtMs = 0
}

/**
 * The connections to one origin. The one that was used last is taken first, and those that are not needed any more close
 * after a while. undici's own pool looks through all of them for each request: 2 % of what a call to a node costs.
 */
export class ConnectionPool {
  readonly #origin: string
  readonly #clock: Clock
  /** One for all, as it keeps the TLS sessions. */
  readonly #connector = buildConnector({ timeout: 1000, lookup: createCoalescingLookup() })
  readonly #connections = new Set<PooledConnection>()
  readonly #idle: PooledConnection[] = []
  #disconnects = 0

  constructor(origin: string, clock: Clock) {
    this.#origin = origin
    this.#clock = clock
  }

  /** How many connections the other side has ended. */
  get disconnects(): number {
    return this.#disconnects
  }

  /** For one request; one that is open, if any is free. */
  acquire(): PooledConnection {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (!this.#isExpired(connection)) return connection
      this.destroy(connection)
    }
    return this.open()
  }

  /** For one request; a new one. */
  open(): PooledConnection {
    const connection = new PooledConnection(this.#origin, { ...clientOptions, connect: this.#connector })
    connection.on('connect', () => {
      connection.isOpen = true
      connection.openedAtMs = this.#clock.monotonic()
    })
    connection.on('disconnect', (_origin, _targets, error) => {
      connection.isOpen = false
      if (!localDisconnectCodes.has(error.code)) this.#disconnects += 1
      const index = this.#idle.indexOf(connection)
      if (index < 0) return
      this.#idle.splice(index, 1)
      this.destroy(connection)
    })
    this.#connections.add(connection)
    return connection
  }

  /** Its request has been answered, or could not be. */
  release(connection: PooledConnection): void {
    if (connection.isOpen && !this.#isExpired(connection)) this.#idle.push(connection)
    else this.destroy(connection)
  }

  /** It closes at once, and nothing more is told of its request. */
  destroy(connection: PooledConnection): void {
    this.#connections.delete(connection)
    void connection.destroy()
  }

  close(): Promise<unknown> {
    this.#idle.length = 0
    return Promise.all(Array.from(this.#connections, connection => connection.destroy()))
  }

  #isExpired({ openedAtMs }: PooledConnection): boolean {
    return this.#clock.monotonic() - openedAtMs > maxConnectionAgeMs
  }
}
