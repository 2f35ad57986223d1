import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Address, GatewayConfig } from '../config/types.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import { configId, reloadGatewayConfig } from '../core/config-changes.ts'
import { version } from '../core/version.ts'
import { Reloader } from '../core/reloader.ts'
import type { PreparedReload, ReadConfig } from '../core/reloader.ts'
import { openAdminListener } from '../server/index.ts'
import { schemeOf, urlOf } from '../server/http-server.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { systemClock } from '../services/clock.ts'
import type { RootLog } from '../services/log.ts'
import { collectProcessMetrics } from '../services/process-metrics.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { openHeightBroadcasts } from '../store/open-store.ts'
import { rpcPortVariable } from './channel.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'
import { mergeMetrics } from './merge-metrics.ts'
import { openPrimaryPortal, openPrimaryOperatorApp } from './primary-portal.ts'
import type { PrimaryPortal } from './primary-portal.ts'
import { SharedHeads } from './shared-heads.ts'
import type { SharedHeadsOptions } from './shared-heads.ts'
import { SharedAccessLog, sharedLogLevel } from './shared-logs.ts'
import { SharedRateLimits } from './shared-rate-limits.ts'
import { openWorkerPool } from './worker-pool.ts'
import type { WorkerPoolOptions } from './worker-pool.ts'

export interface PrimaryOptions {
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
  let { gateway, networks } = config
  const rpc = await resolvePort(gateway.listen.rpc)
  const env = { [rpcPortVariable]: String(rpc.port) }
  const metrics = createMetricsRegistry()
  collectProcessMetrics(metrics, version, systemClock)
  const isServed = (network: string) => networks.some(({ name }) => name === network)
  const { sharedHeads, close } = await openSharedHeads(gateway, { log, metrics, isServed })
  const stopTimeoutMs = () => gateway.drain.timeout + stopMarginMs
  const poolOptions = poolOptionsOf(config, { dir, env, metrics, sharedHeads, stopTimeoutMs: stopTimeoutMs() })
  const pool = await openWorkerPool(poolOptions, systemClock, log).catch(async (error: unknown) => {
    await close()
    throw error
  })
  const accessLog = new SharedAccessLog(gateway.accessLog, pool)
  const logLevel = sharedLogLevel(log, pool)
  let isDraining = false
  const prepareReload = async (next: ValidConfig): Promise<PreparedReload> => {
    const prepared = await pool.prepareReload(configId(next))
    return {
      ...prepared,
      commit() {
        prepared.commit()
        if (next.gateway.log !== gateway.log) logLevel.level = next.gateway.log
        accessLog.reload(next.gateway.accessLog)
        gateway = reloadGatewayConfig(gateway, next.gateway)
        networks = next.networks
        portal?.reload({ gateway, networks })
      },
    }
  }
  const reloader = new Reloader({ config, readConfig, prepareReload, clock: systemClock, log, metrics })
  let portal: PrimaryPortal | undefined
  const headsStatus = () => networks.map(({ name }) => ({ name, ...sharedHeads.statusOf(name) }))
  const adminBase = {
    isReady: () => !isDraining && pool.readyCount > 0,
    async networks() {
      await sharedHeads.refresh()
      return headsStatus()
    },
    metrics: async () => mergeMetrics([...(await pool.metrics()), metrics.families()]),
    logLevel,
    accessLog,
    reloader,
    token: gateway.admin.token,
    hosts: gateway.admin.hosts,
    trustedProxies: gateway.listen.trustedProxies,
    clock: systemClock,
    log,
  }
  const operatorApp = openPrimaryOperatorApp(gateway, {
    plans: () => gateway.plans,
    networks: adminBase.networks,
    metrics: adminBase.metrics,
    dashboardUrl: () => gateway.portal.url ?? portal?.url,
    secrets: gateway.portal.secrets,
    ...{ version, clock: systemClock, log },
  })
  const adminOptions = { ...adminBase, operatorApp: operatorApp.serve }
  const closeAll = async (error: unknown): Promise<never> => {
    await pool.stop()
    await close()
    throw error
  }
  const admin = gateway.listen.admin && (await openAdminListener(gateway.listen.admin, adminOptions).catch(closeAll))
  const rpcUrl = urlOf(rpc.host, rpc.port, schemeOf(gateway.listen, 'rpc'))
  portal = await openPrimaryPortal(config, { rpcUrl, headsStatus, log, metrics }).catch(async (error: unknown) => {
    await admin?.stop()
    return closeAll(error)
  })
  return {
    urls: { rpc: rpcUrl, ...(portal && { portal: portal.url }), ...(admin && { admin: admin.url }) },
    accessLog,
    reloader,
    async stop(graceMs = gateway.drain.grace) {
      isDraining = true
      reloader.stop()
      await pool.stop(graceMs, stopTimeoutMs())
      await close()
      await admin?.stop()
      await operatorApp.close()
      await portal?.stop()
    },
  }
}

interface PoolContext {
  readonly dir: string
  readonly env: Readonly<Record<string, string>>
  readonly metrics: MetricsRegistry
  readonly sharedHeads: SharedHeads
  readonly stopTimeoutMs: number
}

/** Workers run this program again. What they ask for is answered by the rate limits or by the heads. */
const poolOptionsOf = (config: ValidConfig, { dir, env, metrics, sharedHeads, stopTimeoutMs }: PoolContext): WorkerPoolOptions => {
  const size = config.gateway.workers
  const rateLimits = new SharedRateLimits(systemClock, size)
  const handleMessage = (worker: WorkerChannel, message: WorkerMessage): void =>
    message.kind === 'takeTokens' ? rateLimits.answer(worker, message) : sharedHeads.handleMessage(worker, message)
  return {
    exec: process.argv[1] ?? '',
    args: ['start', '--config', dir],
    ...{ env, size, stopTimeoutMs, metrics },
    sharedHeads: { handleMessage, removeWorker: (worker: WorkerChannel) => sharedHeads.removeWorker(worker) },
    configId: configId(config),
  }
}

/** What a worker may take to exit after its last call: it returns its leases to a store that may be slow. */
const stopMarginMs = 10_000

/** The memory for responses that contain heads. */
const maxHeadResponseBytes = 67_108_864

const openSharedHeads = async (
  { store }: GatewayConfig,
  options: Pick<SharedHeadsOptions, 'log' | 'metrics' | 'isServed'>,
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
