import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import type { Clock, Timer } from '../services/clock.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { ignoreUpgrade, sendRawError } from './raw-response.ts'
import { WsConnection } from './ws-connection.ts'
import { routeRequest } from './rpc-context.ts'
import type { RpcContext, NetworkEndpoint, RoutedRequest } from './rpc-context.ts'
import type { AcceptUpgrade } from './ws-handshake.ts'

const pingIntervalMs = 30_000
/** A key revoked while a socket is silent closes it within 1 s: half of it for this, half for the key to be looked up anew. */
const keyCheckIntervalMs = 400

/** The WebSocket door: `/ws/v3/<API_KEY>` (contract 4.1). */
export class WsConnections {
  readonly #rpcContext: RpcContext
  /** Loaded once the server listens: ws takes 20 of the 400 ms of a start. Whoever comes before that waits for it. */
  readonly #acceptUpgrade: Promise<AcceptUpgrade>
  readonly #connections = new Set<WsConnection>()
  readonly #timers: readonly Timer[]

  constructor(server: Server, rpcContext: RpcContext, clock: Clock) {
    this.#rpcContext = rpcContext
    this.#acceptUpgrade = import('./ws-handshake.ts').then(({ createUpgradeHandler }) => createUpgradeHandler(rpcContext))
    this.#timers = [
      clock.every(pingIntervalMs, () => this.#connections.forEach(conversation => conversation.ping())),
      clock.every(keyCheckIntervalMs, () => this.#revalidateKeys()),
    ]
    server.on(
      'upgrade',
      (request, stream, head) =>
        void (isWebSocket(request) ? this.#upgrade(request, stream, head) : ignoreUpgrade(server, request, stream, head)),
    )
  }

  /** The gateway goes away: 1001 for everybody, as soon as their calls in flight have been answered. */
  drain(): void {
    for (const timer of this.#timers) timer.cancel()
    for (const conversation of this.#connections) conversation.drain()
  }

  /** 1001 for who is left. */
  close(): void {
    for (const conversation of this.#connections) conversation.close()
  }

  terminate(): void {
    for (const conversation of this.#connections) conversation.terminate()
  }

  async #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> {
    stream.on('error', () => stream.destroy())
    const routed = routeRequest(this.#rpcContext, 'websocket', request)
    if ('error' in routed) return sendRawError(this.#rpcContext, stream, routed)
    const failure = await this.#admissionOf(routed)
    if (failure !== undefined) return sendRawError(this.#rpcContext, stream, failure, routed.origin)
    const acceptUpgrade = await this.#acceptUpgrade
    acceptUpgrade(request, stream, head, socket => {
      const connection = new WsConnection(socket, request.socket, routed, this.#rpcContext)
      socket.connection = connection
      this.#connections.add(connection)
      if (this.#rpcContext.activeRequests.isDraining) connection.drain()
      socket.on('close', () => this.#connections.delete(connection))
    })
  }

  #admissionOf(routed: RoutedRequest): Admission | Promise<Admission> {
    try {
      const admission = routed.endpoint.admit(routed.origin)
      return admission instanceof Promise ? admission.catch((bug: unknown) => this.#reportBug(routed, bug)) : admission
    } catch (bug) {
      return this.#reportBug(routed, bug)
    }
  }

  #reportBug({ endpoint, origin }: RoutedRequest, bug: unknown): Failure {
    this.#rpcContext.log.error(
      { requestId: origin.requestId, network: endpoint.name, err: bug },
      'a caller could not be admitted because of a bug',
    )
    return refuse('internal', { data: { requestId: origin.requestId } })
  }

  /** Are the keys of open sockets still good? Asked once per key, however many sockets it has open; mostly known at once. */
  #revalidateKeys(): void {
    const admissions = new Map<NetworkEndpoint, Map<string | undefined, Admission | Promise<Admission>>>()
    for (const connection of this.#connections) {
      const { endpoint, origin } = connection.routedRequest
      const byKey = admissions.get(endpoint) ?? new Map<string | undefined, Admission | Promise<Admission>>()
      admissions.set(endpoint, byKey)
      const key = origin.key?.reveal()
      const admission = byKey.has(key) ? byKey.get(key) : this.#admissionOf(connection.routedRequest)
      byKey.set(key, admission)
      if (admission instanceof Promise) void admission.then(failure => closeOnInvalidKey(connection, failure))
      else closeOnInvalidKey(connection, admission)
    }
  }
}

/** What is wrong with a key, if anything is. */
type Admission = Failure | undefined

const closeOnInvalidKey = (connection: WsConnection, admission: Admission): void => {
  if (admission?.kind === 'key') connection.sendResponse(failureResponse(admission))
}

const isWebSocket = ({ method, headers }: IncomingMessage): boolean => method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'
