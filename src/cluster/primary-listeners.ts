import type { Address, GatewayConfig } from '../config/types.ts'
import { describeNetworks } from '../core/dry-run.ts'
import type { Gateway, ValidConfig } from '../core/gateway.ts'
import { openOperatorListener, openPortalListener } from '../core/listeners.ts'
import { recordIncidents } from '../portal/index.ts'
import { closeAll } from '../core/open-services.ts'
import type { Closers } from '../core/open-services.ts'
import type { PortalListener, PortalOptions } from '../portal/index.ts'
import type { AdminOptions } from '../server/index.ts'
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

interface PrimaryListenerContext extends Pick<AdminOptions, 'isReady' | 'accessLog' | 'logLevel' | 'reloader'>, Pick<PortalOptions, 'tls'> {
  /** The address on which workers accept calls. */
  readonly rpc: Address
  readonly sharedHeads: SharedHeads
  readonly pool: Pick<WorkerPool, 'metrics' | 'nodes' | 'problems' | 'traffic'>
  readonly metrics: MetricsRegistry
  readonly log: RootLog
}

interface PrimaryListeners extends Pick<Gateway, 'urls'> {
  /** `current` has been replaced. */
  reload(): void
  stop(): Promise<void>
}

/**
 * Opens what the primary of a gateway with workers serves itself: the admin listener and the dashboard. Rejects with ListenError or
 * StoreError, nothing left open.
 */
export const openPrimaryListeners = async (
  { gateway }: ValidConfig,
  current: PrimaryConfig,
  { rpc, tls, sharedHeads, pool, metrics, log, ...context }: PrimaryListenerContext,
): Promise<PrimaryListeners> => {
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
  try {
    const openOperatorStore = openOnce(() => openStore(gateway.store, systemClock))
    closers.push(async () => (await openOperatorStore.opened())?.close())
    const describeMethods = () => describeNetworks(current)
    const readMetrics = async () => mergeMetrics([...(await pool.metrics()), metrics.families()])
    const incidents = recordIncidents({ clock: systemClock, log, observedNetworks: readNetworks })
    closers.push(incidents.stop)
    let portal: PortalListener | undefined
    const admin = await openOperatorListener(gateway, {
      ...context,
      incidents: incidents.whenOpen,
      async networks() {
        await sharedHeads.refresh()
        return readNetworks()
      },
      metrics: readMetrics,
      traffic: async () => [...(await pool.traffic()), readProcessTraffic(metrics)],
      ownMetrics: metrics,
      store: lazyStore(openOperatorStore),
      describeMethods,
      reloadable: () => current.gateway,
      portalUrl: () => portal?.url,
      clock: systemClock,
      log,
    })
    if (admin !== undefined) closers.push(admin.stop)
    portal = await openPrimaryPortal(
      current,
      {
        rpcUrl,
        tls,
        networkStatuses: shareFor(maxStatusAgeMs, readNetworks, systemClock),
        incidents: incidents.whenOpen,
        describeMethods,
        log,
        metrics,
      },
      closers,
    )
    return {
      urls: { rpc: rpcUrl, ...(portal && { portal: portal.url }), ...(admin && { admin: admin.url }) },
      reload() {
        const { plans, requestLog } = current.gateway
        portal?.reload({ networks: current.networks, plans, requestLog })
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** With a connection to the store of its own, as calls are served by other processes. */
const openPrimaryPortal = async (
  current: PrimaryConfig,
  options: Pick<PortalOptions, 'rpcUrl' | 'tls' | 'networkStatuses' | 'incidents' | 'describeMethods' | 'log' | 'metrics'>,
  closers: Closers,
): Promise<PortalListener | undefined> => {
  const { listen, store: storeAddress } = current.gateway
  if (listen.portal === undefined) return undefined
  const clock = systemClock
  const store = await openStore(storeAddress, clock)
  closers.push(() => store.close())
  const { gateway, networks } = current
  const portal = await openPortalListener(gateway, { ...options, networks, store, clock })
  if (portal !== undefined) closers.push(portal.stop)
  return portal
}
