import type { Endpoint } from './endpoint.ts'

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
