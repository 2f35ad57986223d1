import type { Endpoint } from './endpoint.ts'

/** Connections older than this are replaced. A host name is resolved anew for each connection: a node that moves is found. */
export const maxConnectionAgeMs = 30_000
export const connectTimeoutMs = 1_000

/** The events of a request: it is written to an open connection, perhaps twice; headers, any number of chunks, the end; or an error at any time. */
export interface ResponseHandler {
  onStart(): void
  onHeaders(status: number, headers: ResponseHeaders): void
  /** `isTransient`: the bytes are others after the call, so that what is kept must be copied. */
  onData(bytes: Buffer, isTransient?: boolean): void
  onEnd(): void
  onError(error: unknown): void
}

export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** The JSON-RPC id of a request, and its digits. */
export interface RequestId {
  readonly value: number
  readonly digits: string
}

/** A JSON-RPC request, as it is sent to one node. */
export interface HttpRequest {
  /** By which the response is found among those that come over a WebSocket. */
  readonly id: number
  readonly endpoint: Endpoint
  readonly body: string
  readonly idempotent: boolean
}

/** A request that was sent and has not ended. */
export interface InFlightRequest {
  /** Closes the connection; no event follows. */
  abort(): void
  /** No chunks until resume(). */
  pause(): void
  resume(): void
}

/** Sends requests to one node: over a pool of HTTP connections, or over one WebSocket. */
export interface UpstreamTransport {
  /**
   * Sends a POST, or a message. It follows no redirect and decompresses nothing. When the other side closes a kept-alive
   * connection just as it is used again, an idempotent request is resent on a new connection.
   */
  send(request: HttpRequest, handler: ResponseHandler): InFlightRequest
  /** How many connections the other side has ended. */
  readonly disconnects: number
}

/** Whom a connection reports to when the other side ends it after it was open. */
export interface ConnectionOwner<Connection> {
  onDisconnect(connection: Connection): void
}

/** The sockets that a process may have to nodes; see SocketLimits. */
export interface UpstreamSockets {
  readonly maxUpstreamSockets: number
  recordRefused(peer: 'upstream', reason: { readonly code: string }): void
}

/** Whose idle connection may be closed for another one. */
interface IdleOwner<Connection> {
  closeIdle(connection: Connection): void
}

/**
 * Bounds the sockets to all nodes that are open together, and those of them that are idle: nodes that were asked once must not hold the
 * sockets that others need.
 */
export class SocketLimit<Connection> {
  readonly #maxSockets: number
  readonly #maxIdleSockets: number
  readonly #open = new Set<object>()
  /** In the order of their last use. */
  readonly #idle = new Map<Connection, IdleOwner<Connection>>()

  constructor(maxSockets: number, maxIdleSockets: number) {
    this.#maxSockets = maxSockets
    this.#maxIdleSockets = maxIdleSockets
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

  addIdle(connection: Connection, owner: IdleOwner<Connection>): void {
    this.#idle.set(connection, owner)
    if (this.#idle.size > this.#maxIdleSockets) this.#closeIdle()
  }

  removeIdle(connection: Connection): void {
    this.#idle.delete(connection)
  }

  #closeIdle(): boolean {
    for (const [connection, owner] of this.#idle) {
      owner.closeIdle(connection)
      return true
    }
    return false
  }
}
