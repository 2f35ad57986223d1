import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Failure } from '../plugin/reply.ts'
import type { Clock, Timer } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { openOnce, sleep } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import { callerConnectionOf } from './caller-connection.ts'
import { tooManyConnections } from './open-connections.ts'
import type { NetworkEndpoint } from './reloadable-endpoints.ts'
import type { RoutedRequest } from './request-routing.ts'
import { sendResponse } from './response.ts'
import type { UpgradeResponse } from './response.ts'
import type { RpcServices } from './rpc-services.ts'
import { WsConnection } from './ws-connection.ts'
import type { AcceptUpgrade, RpcWebSocket } from './ws-handshake.ts'

const pingIntervalMs = 30_000
/**
 * A key revoked while its WebSockets are silent closes them within 1 s: after 500 ms at most it is looked up anew, with the next check. The
 * rest is for sending: thousands of WebSockets may have one key.
 */
const keyCheckIntervalMs = 250

/** The units of an upgrade; what is read with it is counted by itself. */
const unitsPerUpgrade = 2

/** While connections are closed gradually, some are closed this often. */
const closeIntervalMs = 50

/** The open WebSockets of the RPC listener: `/ws/v3/<API_KEY>` (contract 4.1). */
export class WsServer {
  readonly #services: RpcServices
  readonly #clock: Clock
  readonly #connections = new Set<WsConnection>()
  readonly #keyChecks: KeyChecks
  #timers: readonly Timer[] = []
  #isDraining = false

  constructor(services: RpcServices, clock: Clock) {
    this.#services = services
    this.#clock = clock
    this.#keyChecks = new KeyChecks(services.log)
  }

  get count(): number {
    return this.#connections.size
  }

  /** Called once the server listens. */
  start(): void {
    this.#timers = [
      this.#clock.every(pingIntervalMs, () => this.#connections.forEach(connection => connection.ping())),
      this.#clock.every(keyCheckIntervalMs, () => this.#keyChecks.run()),
    ]
    // Where it cannot be loaded, the first upgrade tries again.
    setImmediate(() => void this.#loadHandshake().catch(() => undefined))
  }

  /** Accepts the upgrade, or responds with the refusal of its key or its handshake. */
  async open(routed: RoutedRequest, request: IncomingMessage, res: UpgradeResponse): Promise<void> {
    const { endpoint, origin } = routed
    const refusal = (await endpoint.admit(origin)) ?? this.#checkShare(routed, request)
    if (refusal !== undefined) return sendResponse(this.#services, res, origin, failureResponse(refusal))
    const acceptUpgrade = await this.#loadHandshake()
    const turn = this.#services.scheduler.enter(origin.state.accountId ?? origin.ip, unitsPerUpgrade)
    if (turn !== undefined) await turn
    acceptUpgrade(request, res.stream, res.head, socket => this.#add(socket, request.socket, routed))
  }

  /** Apart, as the listener would keep the request, of 1 kB, for as long as the WebSocket is open. */
  #add(socket: RpcWebSocket, stream: Socket, routed: RoutedRequest): void {
    const connection = new WsConnection(socket, stream, routed, this.#services)
    socket.connection = connection
    this.#connections.add(connection)
    this.#keyChecks.add(connection)
    if (this.#isDraining || routed.endpoint.isRemoved === true) connection.drain()
    socket.on('close', () => {
      this.#connections.delete(connection)
      this.#keyChecks.remove(connection)
    })
  }

  #checkShare({ origin: { state } }: RoutedRequest, { socket }: IncomingMessage): Failure | undefined {
    const { accountId } = state
    const isOpen = accountId === undefined || callerConnectionOf(socket).open?.setAccount(accountId, { isWebSocket: true })
    return isOpen !== false ? undefined : tooManyConnections
  }

  /**
   * Closes the open connections as drain() does, the oldest first, spread over `graceMs`: were all closed at once, all callers
   * would reconnect at once. Connections that open meanwhile stay open.
   */
  async closeGradually(graceMs: number): Promise<void> {
    const open = [...this.#connections].reverse()
    const [count, startMs] = [open.length, this.#clock.monotonic()]
    const timer = this.#clock.every(closeIntervalMs, () => {
      // The timer may run after graceMs, above all in a process that was held up.
      const leftPart = Math.max(0, 1 - (this.#clock.monotonic() - startMs) / graceMs)
      while (open.length > count * leftPart) open.pop()?.drain()
    })
    await sleep(this.#clock, graceMs)
    timer.cancel()
  }

  /** A reload has removed networks: their connections close with 1001 as soon as the calls in flight have been answered. */
  closeRemoved(): void {
    for (const connection of this.#connections) {
      if (connection.routedRequest.endpoint.isRemoved === true) connection.drain('the network is no longer served')
    }
  }

  /** The gateway stops: each connection closes with 1001 as soon as its calls in flight have been answered. */
  drain(): void {
    this.#isDraining = true
    for (const timer of this.#timers) timer.cancel()
    for (const connection of this.#connections) connection.drain()
  }

  /** Closes the remaining connections with 1001. */
  close(): void {
    for (const connection of this.#connections) connection.close()
  }

  terminate(): void {
    for (const connection of this.#connections) connection.terminate()
  }

  /** Not before the gateway listens: ws takes 10 of the 200 ms of a start. An upgrade that comes earlier waits for it. */
  readonly #loadHandshake = openOnce(
    async (): Promise<AcceptUpgrade> => (await import('./ws-handshake.ts')).createUpgradeHandler(this.#services),
  )
}

/** The refusal of a key; undefined for a valid key. */
type Admission = Failure | undefined

type ConnectionsByKey = Map<string | undefined, Set<WsConnection>>

/**
 * Checks the keys of open WebSockets again. Each key is checked once, however many WebSockets use it, and these are visited only when the
 * key is no longer valid: for 10,000 WebSockets of one key a check takes 4 µs; with a visit to each it took 1.7 ms.
 */
class KeyChecks {
  readonly #log: Log
  readonly #byEndpoint = new Map<NetworkEndpoint, ConnectionsByKey>()

  constructor(log: Log) {
    this.#log = log
  }

  add(connection: WsConnection): void {
    const { endpoint, origin } = connection.routedRequest
    const byKey = getOrCreate(this.#byEndpoint, endpoint, () => new Map<string | undefined, Set<WsConnection>>())
    getOrCreate(byKey, origin.key?.reveal(), () => new Set<WsConnection>()).add(connection)
  }

  remove(connection: WsConnection): void {
    const { endpoint, origin } = connection.routedRequest
    const key = origin.key?.reveal()
    const byKey = this.#byEndpoint.get(endpoint)
    const connections = byKey?.get(key)
    connections?.delete(connection)
    if (connections?.size === 0) byKey?.delete(key)
    if (byKey?.size === 0) this.#byEndpoint.delete(endpoint)
  }

  /** Mostly the result is there without a store request. */
  run(): void {
    for (const byKey of this.#byEndpoint.values()) {
      for (const connections of byKey.values()) {
        const admission = this.#admit(connections)
        if (admission instanceof Promise) void admission.then(failure => closeOnInvalidKey(connections, failure))
        else closeOnInvalidKey(connections, admission)
      }
    }
  }

  #admit([connection]: Iterable<WsConnection>): MaybePromise<Admission> {
    if (connection === undefined) return undefined
    const { endpoint, origin } = connection.routedRequest
    try {
      const admission = endpoint.admit(origin)
      return admission instanceof Promise ? admission.catch((bug: unknown) => this.#reportBug(origin, bug)) : admission
    } catch (bug) {
      return this.#reportBug(origin, bug)
    }
  }

  /** A connection is not closed because its key could not be checked. */
  #reportBug({ requestId, network }: RoutedRequest['origin'], bug: unknown): undefined {
    this.#log.error({ requestId, network, err: bug }, 'API key check of an open WebSocket failed because of a bug')
  }
}

const closeOnInvalidKey = (connections: Iterable<WsConnection>, admission: Admission): void => {
  if (admission?.kind !== 'key') return
  for (const connection of connections) connection.sendResponse(failureResponse(admission))
}
