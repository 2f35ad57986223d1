import type { RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Address, GatewayConfig } from '../config/types.ts'
import type { Network } from '../core/network.ts'
import type { MemoryBudget } from '../services/memory-budget.ts'
import type { Clock } from '../services/clock.ts'
import type { AccessLog } from '../services/access-log.ts'
import type { Log } from '../services/log.ts'
import type { Metrics } from '../services/metrics.ts'
import { RefusedSockets, maxOperatorSockets } from '../services/socket-limits.ts'
import type { ConnectionPeer, SocketLimits } from '../services/socket-limits.ts'
import { createMessageParser, maxMessageDepth } from '../json-rpc/parse-message.ts'
import { batchLimits } from '../json-rpc/run-batch.ts'
import { openGcHints } from '../runtime/gc-hints.ts'
import { openSingleWrite } from '../runtime/http-internals.ts'
import { openOnce } from '../util/async.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { AdminOptions } from './admin.ts'
import { callerConnectionOf } from './caller-connection.ts'
import { createClientAddressReader, createConnectionAddressReader } from './client-address.ts'
import { drain } from './drain.ts'
import { FairScheduler } from './fair-scheduler.ts'
import { closeServer, createHttpServer, createRpcServer, keepAliveTimeoutMs, listen } from './http-server.ts'
import { urlOf } from './listener-urls.ts'
import { OpenConnections } from './open-connections.ts'
import type { TlsServers } from './http-server.ts'
import { ReloadableEndpoints } from './reloadable-endpoints.ts'
import type { EndpointByHost } from './reloadable-endpoints.ts'
import { createResponseCounter } from './response.ts'
import { openHttpDate } from './response-headers.ts'
import { paceConnections } from './connection-pacing.ts'
import { ProxyProtocol } from './proxy-protocol.ts'
import { ReadPacing } from './read-pacing.ts'
import { ResponseCompressor } from './response-compressor.ts'
import { createRpcApp } from './rpc-app.ts'
import { ActiveRequests } from './rpc-services.ts'
import type { RpcServices } from './rpc-services.ts'
import { WsServer } from './ws-server.ts'

export type { AdminOptions } from './admin.ts'

export interface Listener {
  readonly url: string
  stop(): Promise<void>
}

export interface RpcListenerOptions {
  readonly config: Pick<GatewayConfig, 'listen' | 'limits' | 'drain'>
  readonly networks: readonly Network[]
  readonly memoryBudget: MemoryBudget
  readonly sockets: SocketLimits
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly accessLog: AccessLog
  /** For HTTPS. */
  readonly tls?: TlsServers | undefined
}

export interface RpcListener extends Listener {
  /** A reload: later calls go to these networks, and the WebSockets of networks that are no longer served close with 1001. */
  reload(networks: readonly Network[], config: Pick<GatewayConfig, 'drain'>): void
  /**
   * Still serves, for `graceMs`, while load balancers and callers move to other gateways: each HTTP response closes its
   * connection, and WebSockets close with 1001, spread over that time. Call stop() afterwards.
   */
  enterLameDuck(graceMs: number): Promise<void>
}

/** Opens the RPC listener: HTTP and WebSocket. Rejects with ListenError, nothing left open. */
export const openRpcListener = async (options: RpcListenerOptions): Promise<RpcListener> => {
  const { config, networks, sockets, clock, log, metrics, accessLog, tls } = options
  const limits = { ...config.limits, ...batchLimits, depth: maxMessageDepth }
  const handlerBase = { parse: createMessageParser(limits), limits, clock, log, accessLog }
  const endpoints = new ReloadableEndpoints(networks, handlerBase)
  const { rpc, trustedProxies } = config.listen
  const onAddress = (socket: Socket) => connections.recordAddress(socket)
  const proxyProtocol = config.listen.proxyProtocol ? new ProxyProtocol({ trustedProxies, clock, log, onAddress }) : undefined
  const services = createServices(options, endpoints.byHost, new FairScheduler(clock), proxyProtocol)
  const wsServer = new WsServer(services, clock)
  const server = createRpcServer(services, createRpcApp(services, wsServer).listener(), tls)
  paceConnections(server, { scheduler: services.scheduler, trustedProxies, isTls: tls !== undefined, proxyProtocol })
  const port = await listen(server, rpc)
  const readAddress = createConnectionAddressReader(trustedProxies, proxyProtocol)
  const { maxConnections, recordRefused } = sockets
  const connections = new OpenConnections(server, { peer: 'caller', maxConnections, recordRefused, readAddress })
  metrics.gauge(metricDefinitions.maxConnections, {}).set(maxConnections)
  measureLoad(metrics, services, { connections, wsServer })
  wsServer.start()
  let { drain: drainConfig } = config
  return {
    url: urlOf(rpc.host, port, tls && 'https'),
    reload(networks, { drain }) {
      endpoints.replace(networks)
      drainConfig = drain
      wsServer.closeRemoved()
    },
    enterLameDuck(graceMs) {
      services.activeRequests.isDraining = true
      return wsServer.closeGradually(graceMs)
    },
    stop: () => drain(services, { server, connections, wsServer, clock, timeoutMs: drainConfig.timeout }),
  }
}

const createServices = (
  { config: { limits, listen }, memoryBudget, clock, log, metrics, accessLog }: RpcListenerOptions,
  endpointByHost: EndpointByHost,
  scheduler: FairScheduler,
  proxyProtocol: ProxyProtocol | undefined,
): RpcServices => ({
  endpointByHost,
  readClientAddress: createClientAddressReader(listen.trustedProxies, proxyProtocol),
  limits,
  log,
  activeRequests: new ActiveRequests(),
  scheduler,
  readPacing: new ReadPacing(scheduler, createConnectionAddressReader(listen.trustedProxies, proxyProtocol)),
  memoryBudget,
  hintGc: openGcHints(),
  sendSingleWrite: openSingleWrite(keepAliveTimeoutMs),
  compressor: new ResponseCompressor(),
  httpDate: openHttpDate(clock),
  countResponse: createResponseCounter(metrics),
  clock,
  accessLog,
})

/** Opens the admin listener. Rejects with ListenError. */
export const openAdminListener = (address: Address, options: AdminOptions, tls?: TlsServers): Promise<Listener> =>
  openAppListener(address, async () => (await import('./admin.ts')).createAdminApp(options).callback(), { ...options, tls, peer: 'admin' })

/** A listener whose application is loaded with the first request. */
interface AppListener extends Listener {
  /** The next request loads the application anew: what it was loaded with has changed. */
  reload(): void
}

interface AppListenerOptions {
  readonly peer: ConnectionPeer
  readonly tls: TlsServers | undefined
  readonly trustedProxies: readonly string[]
  readonly clock: Clock
  readonly log: Log
  /** Of this process. */
  readonly ownMetrics: Metrics
}

/** TLS handshakes are paced, as callers of the RPC listener wait while the event loop computes them. Rejects with ListenError. */
export const openAppListener = async (
  { host, port }: Address,
  loadApp: (url: string) => Promise<RequestListener>,
  { peer, tls, trustedProxies, clock, log, ownMetrics }: AppListenerOptions,
): Promise<AppListener> => {
  let url = ''
  const newApp = () => lazyListener(() => loadApp(url), log)
  let serve = newApp()
  const server = createHttpServer(
    (req, res) => {
      const connection = callerConnectionOf(req.socket)
      connection.begin()
      res.once('close', () => connection.end(undefined))
      serve(req, res)
    },
    { tls },
  )
  if (tls !== undefined) paceConnections(server, { scheduler: new FairScheduler(clock), trustedProxies, isTls: true })
  url = urlOf(host, await listen(server, { host, port }), tls && 'https')
  const { recordRefused } = new RefusedSockets({ clock, log, metrics: ownMetrics })
  const readAddress = createConnectionAddressReader(trustedProxies)
  const connections = new OpenConnections(server, { peer, maxConnections: maxOperatorSockets(), recordRefused, readAddress })
  return {
    url,
    reload() {
      serve = newApp()
    },
    async stop() {
      const closed = closeServer(server)
      // Streams of events would never end.
      connections.destroyAll()
      await closed
    },
  }
}

/** Loads a listener with its first request. Where that fails, as without a file descriptor, the next request tries again. */
const lazyListener = (load: () => Promise<RequestListener>, log: Log): RequestListener => {
  const loadOnce = openOnce(load)
  const respondUnavailable = (res: ServerResponse, error: unknown): void => {
    log.error({ err: error }, 'request failed: the application of the listener could not be loaded')
    res.writeHead(503).end()
  }
  return (req, res) =>
    void loadOnce().then(
      serve => serve(req, res),
      (error: unknown) => respondUnavailable(res, error),
    )
}

interface MeasuredSockets {
  readonly connections: Pick<OpenConnections, 'count'>
  readonly wsServer: Pick<WsServer, 'count'>
}

/** What callers take of the RPC listener, measured when metrics are read. */
const measureLoad = (
  metrics: Metrics,
  { scheduler, memoryBudget }: Pick<RpcServices, 'scheduler' | 'memoryBudget'>,
  { connections, wsServer }: MeasuredSockets,
): void => {
  const connectionCount = metrics.gauge(metricDefinitions.connections, {})
  const websocketCount = metrics.gauge(metricDefinitions.websockets, {})
  const waitingMessages = metrics.gauge(metricDefinitions.waitingMessages, {})
  const inFlightBytes = metrics.gauge(metricDefinitions.inFlightBytes, {})
  metrics.gauge(metricDefinitions.inFlightMaxBytes, {}).set(memoryBudget.maxBytes)
  metrics.collect(() => {
    connectionCount.set(connections.count)
    websocketCount.set(wsServer.count)
    waitingMessages.set(scheduler.waitingCount)
    inFlightBytes.set(memoryBudget.reservedBytes)
  })
}
