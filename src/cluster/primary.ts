import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Address, GatewayConfig } from '../config/types.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import { configId, reloadGatewayConfig } from '../core/config-changes.ts'
import { version } from '../core/version.ts'
import { Reloader } from '../core/reloader.ts'
import type { PreparedReload, ReadConfig } from '../core/reloader.ts'
import { openAdminListener } from '../server/index.ts'
import type { AdminOptions } from '../server/index.ts'
import { schemeOf, urlOf } from '../server/http-server.ts'
import { openAdminCertificate } from '../server/tls-certificate.ts'
import { AcceptedConnections } from '../runtime/connection-handover.ts'
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
import { mergeMetrics } from './merge-metrics.ts'
import { openPrimaryPortal, openPrimaryOperatorApp } from './primary-portal.ts'
import type { PrimaryPortal } from './primary-portal.ts'
import { SharedHeads } from './shared-heads.ts'
import type { SharedHeadsOptions } from './shared-heads.ts'
import { SharedAccessLog, sharedLogLevel } from './shared-logs.ts'
import { SharedRateLimits } from './shared-rate-limits.ts'
import { openWorkerPool } from './worker-pool.ts'
import type { WorkerPool, WorkerPoolOptions } from './worker-pool.ts'

export interface PrimaryOptions {
  /** The directory of the configuration. */
  readonly dir: string
  readonly log: RootLog
  readonly readConfig: ReadConfig
}

/** gateway.yaml and the networks in force, which a reload replaces. */
interface PrimaryConfig {
  gateway: GatewayConfig
  networks: ValidConfig['networks']
  portal: PrimaryPortal | undefined
}

/**
 * Opens several workers that share one port. The primary itself serves the admin listener and the portal, and tracks the heads. Rejects with
 * ListenError, WorkerSpawnError or WorkerExitError.
 */
export const openPrimary = async (
  config: ValidConfig,
  { dir, log, readConfig }: PrimaryOptions,
): Promise<Pick<Gateway, 'urls' | 'accessLog' | 'stop' | 'reloader'>> => {
  const current: PrimaryConfig = { gateway: config.gateway, networks: config.networks, portal: undefined }
  const stopTimeoutMs = () => current.gateway.drain.timeout + stopMarginMs
  /** Called in this order: what answers operators is closed after the workers. */
  const closers: ((graceMs?: number) => Promise<unknown>)[] = []
  const close = async (graceMs?: number) => {
    for (const closer of closers.splice(0)) await closer(graceMs)
  }
  try {
    const rpc = await resolvePort(config.gateway.listen.rpc)
    const metrics = createMetricsRegistry()
    collectProcessMetrics(metrics, version, systemClock)
    const isServed = (network: string) => current.networks.some(({ name }) => name === network)
    const heads = await openSharedHeads(config.gateway, { log, metrics, isServed })
    closers.push(() => heads.close())
    const { sharedHeads } = heads
    const env = { [rpcPortVariable]: String(rpc.port) }
    const poolOptions = poolOptionsOf(config, { dir, env, metrics, log, sharedHeads, stopTimeoutMs: stopTimeoutMs() })
    const pool = await openWorkerPool(poolOptions, systemClock, log)
    closers.unshift(graceMs => pool.stop(graceMs, stopTimeoutMs()))
    const accessLog = new SharedAccessLog(config.gateway.accessLog, pool)
    const logLevel = sharedLogLevel(log, pool)
    const prepareReload = reloadWorkers(current, { pool, accessLog, logLevel })
    const reloader = new Reloader({ config, readConfig, prepareReload, clock: systemClock, log, metrics })
    let isDraining = false
    const isReady = () => !isDraining && pool.readyCount > 0
    const urls = await openListeners(config, current, {
      ...{ isReady, rpc, sharedHeads, pool, metrics, accessLog, logLevel, reloader, log },
      closers,
    })
    const stop = async (graceMs = current.gateway.drain.grace) => {
      isDraining = true
      reloader.stop()
      await close(graceMs)
    }
    return { urls, accessLog, reloader, stop }
  } catch (error) {
    await close()
    throw error
  }
}

interface ReloadTargets {
  readonly pool: WorkerPool
  readonly accessLog: SharedAccessLog
  readonly logLevel: Pick<RootLog, 'level'>
}

/** All workers prepare before one of them commits. */
const reloadWorkers =
  (current: PrimaryConfig, { pool, accessLog, logLevel }: ReloadTargets) =>
  async (next: ValidConfig): Promise<PreparedReload> => {
    const prepared = await pool.prepareReload(configId(next))
    return {
      ...prepared,
      commit() {
        prepared.commit()
        if (next.gateway.log !== current.gateway.log) logLevel.level = next.gateway.log
        accessLog.reload(next.gateway.accessLog)
        current.gateway = reloadGatewayConfig(current.gateway, next.gateway)
        current.networks = next.networks
        current.portal?.reload(current)
      },
    }
  }

interface PrimaryListenerContext extends ReloadTargets {
  readonly isReady: AdminOptions['isReady']
  readonly rpc: Address
  readonly sharedHeads: SharedHeads
  readonly metrics: MetricsRegistry
  readonly reloader: Reloader
  readonly log: RootLog
  readonly closers: (() => Promise<unknown>)[]
}

/** The admin listener and the portal; each is added to `closers`. */
const openListeners = async (config: ValidConfig, current: PrimaryConfig, context: PrimaryListenerContext): Promise<Gateway['urls']> => {
  const { rpc, sharedHeads, metrics, log, closers } = context
  const { listen, portal: portalConfig, admin: adminConfig } = config.gateway
  const headsStatus = () => current.networks.map(({ name }) => ({ name, ...sharedHeads.statusOf(name) }))
  const options = adminOptionsOf(adminConfig, listen, context, headsStatus)
  const operatorApp = openPrimaryOperatorApp(config.gateway, {
    plans: () => current.gateway.plans,
    networks: options.networks,
    metrics: options.metrics,
    dashboardUrl: () => current.gateway.portal.url ?? current.portal?.url,
    secrets: portalConfig.secrets,
    canMail: portalConfig.smtp !== undefined,
    ...{ version, clock: systemClock, log },
  })
  const tls = openAdminCertificate(adminConfig, { clock: systemClock, log, metrics })
  if (tls !== undefined) closers.push(async () => tls.stop())
  const admin = listen.admin && (await openAdminListener(listen.admin, { ...options, operatorApp: operatorApp.serve }, tls))
  if (admin !== undefined) closers.push(() => admin.stop())
  closers.push(() => operatorApp.close())
  const rpcUrl = urlOf(rpc.host, rpc.port, schemeOf(listen, 'rpc'))
  const portal = await openPrimaryPortal(config, { rpcUrl, headsStatus, log, metrics })
  if (portal !== undefined) closers.push(() => portal.stop())
  current.portal = portal
  return { rpc: rpcUrl, ...(portal && { portal: portal.url }), ...(admin && { admin: admin.url }) }
}

const adminOptionsOf = (
  { token, hosts }: GatewayConfig['admin'],
  { trustedProxies }: GatewayConfig['listen'],
  { isReady, sharedHeads, pool, metrics, accessLog, logLevel, reloader, log }: PrimaryListenerContext,
  headsStatus: () => Awaited<ReturnType<AdminOptions['networks']>>,
): Omit<AdminOptions, 'operatorApp'> => ({
  isReady,
  async networks() {
    await sharedHeads.refresh()
    return headsStatus()
  },
  metrics: async () => mergeMetrics([...(await pool.metrics()), metrics.families()]),
  clock: systemClock,
  ...{ logLevel, accessLog, reloader, token, hosts, trustedProxies, log },
})

interface PoolContext {
  readonly dir: string
  readonly env: Readonly<Record<string, string>>
  readonly metrics: MetricsRegistry
  readonly log: RootLog
  readonly sharedHeads: SharedHeads
  readonly stopTimeoutMs: number
}

/** Workers run this program again. What they ask for is answered by the rate limits or by the heads. */
const poolOptionsOf = (config: ValidConfig, { dir, env, metrics, log, sharedHeads, stopTimeoutMs }: PoolContext): WorkerPoolOptions => {
  const { workers: size, limits } = config.gateway
  const { recordRefused } = new RefusedSockets({ clock: systemClock, log, metrics })
  const rateLimits = new SharedRateLimits(systemClock, size)
  return {
    exec: process.argv[1] ?? '',
    args: ['start', '--config', dir],
    ...{ env, size, stopTimeoutMs, metrics },
    connections: new AcceptedConnections({
      maxPending: maxCallerSockets(limits.connections),
      onRefused: reason => recordRefused('caller', reason),
    }),
    handleMessage: (worker, message) =>
      message.kind === 'takeTokens' ? rateLimits.answer(worker, message) : sharedHeads.handleMessage(worker, message),
    onExit: worker => sharedHeads.removeWorker(worker),
    configId: configId(config),
  }
}

/** What a worker may take to exit after its last call: it returns its leases to a store that may be slow. */
const stopMarginMs = 10_000

/** The memory for responses that contain heads. */
const maxHeadResponseBytes = 67_108_864

const openSharedHeads = async (
  { store, httpClient }: GatewayConfig,
  options: Pick<SharedHeadsOptions, 'log' | 'metrics' | 'isServed'>,
): Promise<{ sharedHeads: SharedHeads; close(): Promise<void> }> => {
  const clock = systemClock
  const broadcasts = await openHeightBroadcasts(store, clock)
  const upstreamClient = openUpstreamClient(clock, new MemoryBudget(maxHeadResponseBytes), { implementation: httpClient })
  const sharedHeads = new SharedHeads({ ...options, upstreamClient, clock, heightBroadcastsOf: broadcasts.heightBroadcastsOf })
  return {
    sharedHeads,
    async close() {
      sharedHeads.stop()
      await Promise.all([upstreamClient.close(), broadcasts.close()])
    },
  }
}

/** The address with port 0 replaced by a free port: a worker that is started later must get the same port. */
const resolvePort = (address: Address): Promise<Address> => {
  if (address.port !== 0) return Promise.resolve(address)
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, address.host, () => {
      const { port } = probe.address() as AddressInfo // a TCP server has no other kind of address
      probe.close(() => resolve({ ...address, port }))
    })
  })
}
