import { createServer } from 'node:net'
import type { Address, GatewayConfig } from '../config/types.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import { configId, reloadGatewayConfig } from '../core/config-changes.ts'
import { version } from '../core/version.ts'
import { Reloader } from '../core/reloader.ts'
import type { PreparedReload, ReadConfig } from '../core/reloader.ts'
import { AcceptedConnections } from '../runtime/connection-handover.ts'
import { listen } from '../server/http-server.ts'
import { openTlsCertificate } from '../server/tls-certificate.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { systemClock } from '../services/clock.ts'
import type { RootLog } from '../services/log.ts'
import { RefusedSockets, maxCallerSockets } from '../services/socket-limits.ts'
import { collectProcessMetrics } from '../services/process-metrics.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { openHeightBroadcasts } from '../store/open-store.ts'
import { rpcPortVariable } from './worker-messages.ts'
import type { SharedConfiguration } from './worker-messages.ts'
import { openPrimaryListeners } from './primary-listeners.ts'
import type { PrimaryConfig } from './primary-listeners.ts'
import { SharedHeads } from './shared-heads.ts'
import type { SharedHeadsOptions } from './shared-heads.ts'
import { SharedAccessLog, sharedLogLevel } from './shared-logs.ts'
import { SharedRateLimits } from './shared-rate-limits.ts'
import { openWorkerPool } from './worker-pool.ts'
import type { WorkerPool, WorkerPoolOptions } from './worker-pool.ts'

interface PrimaryOptions {
  /** The directory of the configuration. */
  readonly dir: string
  readonly log: RootLog
  readonly readConfig: ReadConfig
}

/**
 * Opens several workers that share one port. The primary itself serves the admin listener and the portal, and tracks the heads. Rejects with
 * ListenError, WorkerSpawnError or WorkerExitError.
 */
export const openPrimary = async (
  config: ValidConfig,
  { dir, log, readConfig }: PrimaryOptions,
): Promise<Pick<Gateway, 'urls' | 'accessLog' | 'stop' | 'reloader'>> => {
  const current: PrimaryConfig = { gateway: config.gateway, networks: config.networks, listeners: undefined }
  const stopTimeoutMs = () => current.gateway.drain.timeout + stopMarginMs
  /** Called in this order: what answers operators is closed after the workers. */
  const closers: ((graceMs?: number) => Promise<unknown>)[] = []
  const close = async (graceMs?: number) => {
    for (const closer of closers.splice(0)) await closer(graceMs)
  }
  try {
    const metrics = createMetricsRegistry()
    collectProcessMetrics(metrics, version, systemClock)
    const connections = openConnections(config.gateway, { log, metrics })
    closers.push(async () => connections.closeUnused())
    const rpc = await reservePort(config.gateway.listen.rpc, connections)
    const isServed = (network: string) => current.networks.some(({ name }) => name === network)
    const errorCategoryOf: SharedHeadsOptions['errorCategoryOf'] = network => (error, method) =>
      current.networks.find(({ name }) => name === network)?.methods.errorCategory(error, method)
    const heads = await openSharedHeads(config.gateway, { log, metrics, isServed, errorCategoryOf })
    closers.push(() => heads.close())
    const { sharedHeads } = heads
    const env = { [rpcPortVariable]: String(rpc.port) }
    const tls = openTlsCertificate(config.gateway.listen, { clock: systemClock, log, metrics })
    closers.push(async () => tls?.stop())
    const poolOptions = {
      ...poolOptionsOf(config, { dir, env, metrics, connections, sharedHeads, stopTimeoutMs: stopTimeoutMs() }),
      tlsTexts: () => tls?.texts,
    }
    const pool = await openWorkerPool(poolOptions, systemClock, log)
    closers.unshift(graceMs => pool.stop(graceMs, stopTimeoutMs()))
    const accessLog = new SharedAccessLog(config.gateway.accessLog, pool)
    const logLevel = sharedLogLevel(log, pool)
    const prepareReload = reloadWorkers(current, { pool, accessLog })
    const reloader = new Reloader({ config, readConfig, prepareReload, log, logLevel, metrics })
    let isDraining = false
    const isReady = () => !isDraining && pool.readyCount > 0
    const listeners = await openPrimaryListeners(current, {
      isReady,
      rpc,
      tls,
      sharedHeads,
      pool,
      metrics,
      accessLog,
      logLevel,
      reloader,
      log,
    })
    closers.push(listeners.stop)
    current.listeners = listeners
    const stop = async (graceMs = current.gateway.drain.grace) => {
      isDraining = true
      reloader.stop()
      await close(graceMs)
    }
    return { urls: listeners.urls, accessLog, reloader, stop }
  } catch (error) {
    await close()
    throw error
  }
}

interface ReloadTargets {
  readonly pool: WorkerPool
  readonly accessLog: SharedAccessLog
}

/** All workers prepare before one of them commits. */
const reloadWorkers =
  (current: PrimaryConfig, { pool, accessLog }: ReloadTargets) =>
  async (next: ValidConfig): Promise<PreparedReload> => {
    const gateway = reloadGatewayConfig(current.gateway, next.gateway)
    const prepared = await pool.prepareReload(toSharedConfiguration({ ...next, gateway }))
    return {
      ...prepared,
      commit() {
        prepared.commit()
        accessLog.reload(next.gateway.accessLog)
        current.gateway = gateway
        current.networks = next.networks
        current.listeners?.reload(gateway, next.networks)
      },
    }
  }

interface PoolContext {
  readonly dir: string
  readonly env: Readonly<Record<string, string>>
  readonly metrics: MetricsRegistry
  readonly connections: AcceptedConnections
  readonly sharedHeads: SharedHeads
  readonly stopTimeoutMs: number
}

/** Workers run this program again. What they ask for is answered by the rate limits or by the heads. */
const poolOptionsOf = (
  config: ValidConfig,
  { dir, env, metrics, connections, sharedHeads, stopTimeoutMs }: PoolContext,
): WorkerPoolOptions => {
  const { workers: size } = config.gateway
  const rateLimits = new SharedRateLimits(systemClock, size)
  return {
    exec: process.argv[1] ?? '',
    args: ['start', '--config', dir],
    env,
    size,
    stopTimeoutMs,
    metrics,
    connections,
    handlersOf: worker => ({
      ...sharedHeads.handlersOf(worker),
      takeTokens: ({ request, most }, reply) => reply(rateLimits.take(request, most)),
    }),
    onExit: worker => sharedHeads.removeWorker(worker),
    configuration: toSharedConfiguration(config),
  }
}

const toSharedConfiguration = (config: ValidConfig): SharedConfiguration => ({ configId: configId(config), texts: config.texts ?? {} })

/** What a worker may take to exit after its last call: it returns its leases to a store that may be slow. */
const stopMarginMs = 10_000

/** The memory for responses that contain heads. */
const maxHeadResponseBytes = 67_108_864

const openSharedHeads = async (
  { store }: GatewayConfig,
  options: Pick<SharedHeadsOptions, 'log' | 'metrics' | 'isServed' | 'errorCategoryOf'>,
): Promise<{ sharedHeads: SharedHeads; close(): Promise<void> }> => {
  const clock = systemClock
  const broadcasts = await openHeightBroadcasts(store, clock)
  const upstreamClient = openUpstreamClient(clock, new MemoryBudget(maxHeadResponseBytes))
  const sharedHeads = new SharedHeads({ ...options, upstreamClient, clock, heightBroadcastsOf: broadcasts.heightBroadcastsOf })
  return {
    sharedHeads,
    async close() {
      sharedHeads.stop()
      await Promise.all([upstreamClient.close(), broadcasts.close()])
    },
  }
}

const openConnections = (
  { limits }: GatewayConfig,
  { log, metrics }: { readonly log: RootLog; readonly metrics: MetricsRegistry },
): AcceptedConnections => {
  const { recordRefused } = new RefusedSockets({ clock: systemClock, log, metrics })
  return new AcceptedConnections({
    maxPending: maxCallerSockets(limits.connections),
    onRefused: reason => recordRefused('caller', reason),
  })
}

/**
 * The address with port 0 replaced by a free port, which is kept for the workers: they ask for it seconds later, and all of them for the same one.
 * A port that the operator has chosen is opened by the first worker, so that callers are refused until it can answer. Rejects with ListenError.
 */
const reservePort = async (address: Address, connections: AcceptedConnections): Promise<Address> => {
  if (address.port !== 0) return address
  const server = createServer()
  const port = await listen(server, address)
  connections.reserve(server)
  return { ...address, port }
}
