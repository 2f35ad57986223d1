import type { Address, GatewayConfig } from '../config/types.ts'
import { describeNetworks } from '../core/dry-run.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import { openDashboards } from '../core/dashboards.ts'
import type { DashboardSource, Dashboards } from '../core/dashboards.ts'
import { closeAll } from '../core/open-services.ts'
import type { Closers } from '../core/open-services.ts'
import { schemeOf, urlOf } from '../server/listener-urls.ts'
import { networkStatuses } from '../server/network-status.ts'
import { systemClock } from '../services/clock.ts'
import type { RootLog } from '../services/log.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { readProcessTraffic } from '../services/traffic/process-traffic.ts'
import { lazyStore } from '../store/lazy-store.ts'
import { openStore } from '../store/open-store.ts'
import { openOnce, shareFor } from '../util/async.ts'
import { mergeMetrics } from './merge-metrics.ts'
import type { SharedHeads } from './shared-heads.ts'
import type { WorkerPool } from './worker-pool.ts'

/** Whoever asks the dashboard how the networks are: the workers are not asked more often. */
const maxStatusAgeMs = 1_000

/** gateway.yaml and the networks in force, which a reload replaces. */
export interface PrimaryConfig {
  gateway: GatewayConfig
  networks: ValidConfig['networks']
  listeners: Pick<PrimaryListeners, 'reload'> | undefined
}

interface PrimaryListenerContext extends Pick<DashboardSource, 'isReady' | 'accessLog' | 'logLevel' | 'reloader' | 'tls'> {
  /** The address on which workers accept calls. */
  readonly rpc: Address
  readonly sharedHeads: SharedHeads
  readonly pool: Pick<WorkerPool, 'metrics' | 'nodes' | 'problems' | 'traffic'>
  readonly metrics: MetricsRegistry
  readonly log: RootLog
}

interface PrimaryListeners extends Pick<Gateway, 'urls'>, Pick<Dashboards, 'reload'> {
  stop(): Promise<void>
}

/**
 * Opens what the primary of a gateway with workers serves itself: the admin listener and the dashboard. Rejects with ListenError or
 * StoreError, nothing left open.
 */
export const openPrimaryListeners = async (
  current: PrimaryConfig,
  { rpc, sharedHeads, pool, metrics, log, ...context }: PrimaryListenerContext,
): Promise<PrimaryListeners> => {
  const { gateway } = current
  const rpcUrl = urlOf(rpc.host, rpc.port, schemeOf(gateway.listen))
  const readNetworks = async () => {
    const [nodes, problems] = await Promise.all([pool.nodes(), pool.problems()])
    return networkStatuses(
      current.networks.map(({ name }) => ({ name, ...sharedHeads.statusOf(name) })),
      nodes,
      problems,
    )
  }
  const closers: Closers = []
  const stop = () => closeAll(closers, log)
  const openSharedStore = openOnce(() => openStore(gateway.store, systemClock))
  closers.push(async () => (await openSharedStore.opened())?.close())
  const source = {
    ...context,
    metrics: async () => mergeMetrics([...(await pool.metrics()), metrics.families()]),
    ownMetrics: metrics,
    traffic: async () => [...(await pool.traffic()), readProcessTraffic(metrics)],
    store: lazyStore(openSharedStore),
    openStore: openSharedStore,
    networks: current.networks,
    rpcUrl,
    describeMethods: () => describeNetworks(current),
    readNetworks,
    networkStatuses: shareFor(maxStatusAgeMs, readNetworks, systemClock),
    refreshHeads: () => sharedHeads.refresh(),
    clock: systemClock,
    log,
  }
  try {
    const { urls, reload } = await openDashboards(gateway, source, closers)
    return { urls: { rpc: rpcUrl, ...urls }, reload, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
