import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Client, buildConnector } from '../../runtime/undici-client.ts'
import type { Clock } from '../clock.ts'

/** Connections older than this are replaced. A host name is resolved anew for each connection: a node that moves is found. */
const maxConnectionAgeMs = 30_000
const connectTimeoutMs = 1_000

/** undici's own response timers are coarse and count idle time only: RequestDeadline aborts a request in time. */
const clientOptions = { headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: maxConnectionAgeMs }

/** Error codes of connections that the pool ends, or undici because they were idle for long. */
const localDisconnectCodes: ReadonlySet<string> = new Set(['UND_ERR_DESTROYED', 'UND_ERR_INFO'])

/** The sockets that a process may have to nodes; see SocketLimits. */
export interface UpstreamSockets {
  readonly maxUpstreamSockets: number
  recordRefused(peer: 'upstream', reason: string): void
}

/** One connection. It opens with its first request. */
export class PooledConnection extends Client {
  isOpen = false
  /** When it opened, in monotonic ms. */
  openedAtMs = 0
}

/**
 * The connections to one origin. The connection that was used last is taken first, so that unneeded ones idle and close.
 * undici's own pool looks through all of its connections for each request: 2 % of what a call to a node costs.
 */
export class ConnectionPool {
  readonly #origin: string
  readonly #clock: Clock
  /** One for all connections, as it keeps the TLS sessions. */
  readonly #connector: Connector
  readonly #connections = new Set<PooledConnection>()
  readonly #idle: PooledConnection[] = []
  #disconnects = 0

  constructor(origin: string, clock: Clock, limitSockets: (connect: Connector) => Connector) {
    this.#origin = origin
    this.#clock = clock
    this.#connector = limitSockets(buildConnector({ timeout: connectTimeoutMs, lookup: createCoalescingLookup() }))
  }

  /** How many connections the other side has ended. */
  get disconnects(): number {
    return this.#disconnects
  }

  /** For one request; an open connection, if one is idle. */
  acquire(): PooledConnection {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (!this.#isExpired(connection)) return connection
      this.destroy(connection)
    }
    return this.open()
  }

  /** For one request; a new connection. */
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

  /** Its request has ended, with a response or an error. */
  release(connection: PooledConnection): void {
    if (connection.isOpen && !this.#isExpired(connection)) this.#idle.push(connection)
    else this.destroy(connection)
  }

  /** Closes it at once; its request gets no further events. */
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

type Connector = ReturnType<typeof buildConnector>

/** Connectors that have so many sockets open together at most; what exceeds that fails as it would for lack of files. */
export const createSocketLimit = (maxSockets: number): ((connect: Connector) => Connector) => {
  let openSockets = 0
  return connect =>
    (options, callback): void => {
      if (openSockets >= maxSockets) return callback(Object.assign(new Error('no socket left'), { code: 'EMFILE' }), null)
      openSockets += 1
      connect(options, (...[error, socket]) => {
        if (error !== null)
          openSockets -= 1 // undici then gives no second argument
        else socket.once('close', () => (openSockets -= 1))
        callback(...([error, socket] as Parameters<typeof callback>)) // the same two arguments
      })
    }
}

type LookupCallback = Parameters<LookupFunction>[2]

/**
 * Resolves host names, each only once at a time: a DNS lookup holds one of the few threads of the process for as long as the
 * name server takes, and so delays other names, decompression and the disk.
 */
export const createCoalescingLookup = (resolve: LookupFunction = lookup as LookupFunction): LookupFunction => {
  const pendingLookups = new Map<string, LookupCallback[]>()
  return (host, options, callback) => {
    const key = JSON.stringify([host, options.family, options.hints, options.all])
    const pending = pendingLookups.get(key)
    if (pending !== undefined) return void pending.push(callback)
    const callbacks = [callback]
    pendingLookups.set(key, callbacks)
    resolve(host, options, (...result) => {
      pendingLookups.delete(key)
      for (const each of callbacks) each(...result)
    })
  }
}
