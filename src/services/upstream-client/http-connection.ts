import type { Endpoint } from './endpoint.ts'

/** Connections older than this are replaced. A host name is resolved anew for each connection: a node that moves is found. */
export const maxConnectionAgeMs = 30_000
export const connectTimeoutMs = 1_000

/** What sends requests over HTTP: the gateway's own code, or undici. */
export const httpImplementations = ['tollgate', 'undici'] as const
export type HttpImplementation = (typeof httpImplementations)[number]

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

export interface HttpRequest {
  readonly endpoint: Endpoint
  readonly body: string
}

/** One connection, for one request at a time. It opens with its first request. */
export interface HttpConnection {
  /** It is established, and may carry a request. */
  readonly isOpen: boolean
  /** From then on it must not carry another request; in monotonic ms. */
  readonly expiresAtMs: number
  /** The connection is free before the handler's onEnd() or onError(). */
  send(request: HttpRequest, handler: ResponseHandler): void
  pause(): void
  resume(): void
  /** Closes it at once; its request gets no further events. */
  destroy(): void
}

/** Whom a connection tells when the other side ends it after it was open. */
export interface ConnectionOwner {
  onDisconnect(connection: HttpConnection): void
}

export type NewConnection = (owner: ConnectionOwner) => HttpConnection
