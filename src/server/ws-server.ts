import type { IncomingMessage } from 'node:http'
import type { Clock, Timer } from '../services/clock.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { sleep } from '../util/async.ts'
import type { RoutedRequest } from './rpc-request.ts'
import { sendResponse } from './response.ts'
import type { UpgradeResponse } from './response.ts'
import type { RpcServices } from './rpc-services.ts'
import { WsConnection } from './ws-connection.ts'
import type { AcceptUpgrade } from './ws-handshake.ts'
import { WsKeyChecks } from './ws-key-checks.ts'

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
  readonly #keyChecks: WsKeyChecks
  #timers: readonly Timer[] = []
  #handshake: Promise<AcceptUpgrade> | undefined
  #isDraining = false

  constructor(services: RpcServices, clock: Clock) {
    this.#services = services
    this.#clock = clock
    this.#keyChecks = new WsKeyChecks(services.log)
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
    setImmediate(() => void this.#loadHandshake())
  }

  /** Accepts the upgrade, or responds with the refusal of its key or its handshake. */
  async open(routed: RoutedRequest, request: IncomingMessage, res: UpgradeResponse): Promise<void> {
    const { endpoint, origin } = routed
    const refusal = await endpoint.admit(origin)
    if (refusal !== undefined) return sendResponse(this.#services, res, origin, failureResponse(refusal))
    const acceptUpgrade = await this.#loadHandshake()
    const turn = this.#services.scheduler.enter(origin.state.accountId ?? origin.ip, unitsPerUpgrade)
    if (turn !== undefined) await turn
    acceptUpgrade(request, res.stream, res.head, socket => {
      const connection = new WsConnection(socket, request.socket, routed, this.#services)
      socket.connection = connection
      this.#connections.add(connection)
      const endKeyChecks = this.#keyChecks.add(connection)
      if (this.#isDraining || endpoint.isRemoved === true) connection.drain()
      socket.on('close', () => {
        this.#connections.delete(connection)
        endKeyChecks()
      })
    })
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
  #loadHandshake(): Promise<AcceptUpgrade> {
    return (this.#handshake ??= import('./ws-handshake.ts').then(({ createUpgradeHandler }) => createUpgradeHandler(this.#services)))
  }
}
