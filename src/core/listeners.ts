import type { NetworkConfig, GatewayConfig } from '../config/types.ts'
import type { PortalReload } from '../portal/index.ts'
import { openRpcListener } from '../server/index.ts'
import type { AdminOptions, RpcListener, RpcListenerOptions } from '../server/index.ts'
import { networkStatuses } from '../server/network-status.ts'
import { openTlsCertificate } from '../server/tls-certificate.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { RootLog } from '../services/log.ts'
import type { PluginProblems } from '../services/plugin-problems.ts'
import type { NodeStatuses } from '../services/node-status.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import type { TlsTexts } from '../services/tls-files.ts'
import { readProcessTraffic } from '../services/traffic/process-traffic.ts'
import type { Store } from '../store/store.ts'
import { openDashboards } from './dashboards.ts'
import type { Dashboards } from './dashboards.ts'
import { closeAll } from './open-services.ts'
import type { Closers } from './open-services.ts'
import type { RunningNetworks } from './running-networks.ts'

interface ListenerContext extends Omit<RpcListenerOptions, 'config' | 'networks' | 'tls'> {
  readonly store: Store
  readonly running: RunningNetworks
  readonly headsSource: HeadsSource
  readonly metrics: MetricsRegistry
  readonly nodeStatuses: NodeStatuses
  readonly pluginProblems: PluginProblems
  readonly log: RootLog
  readonly isReady: AdminOptions['isReady']
  readonly reloader: AdminOptions['reloader']
  /** As TlsCertificateOptions has them. */
  readonly texts?: TlsTexts | undefined
}

export interface Listeners extends Pick<RpcListener, 'enterLameDuck'> {
  readonly urls: Dashboards['urls'] & { readonly rpc: string }
  /** The networks that run, and these options, from now on. */
  reload(config: Pick<GatewayConfig, 'drain' | 'plans' | 'requestLog'>, networks: PortalReload['networks']): void
}

/** Opens all listeners, which `closers` close: first that of calls, once they have finished. */
export const openListeners = async (
  config: GatewayConfig,
  networkConfigs: readonly NetworkConfig[],
  context: ListenerContext,
  closers: Closers,
): Promise<Listeners> => {
  const { running, headsSource, nodeStatuses, pluginProblems, store, log, metrics } = context
  const tls = openTlsCertificate(config.listen, context)
  if (tls !== undefined) closers.push(async () => tls.stop())
  // While calls finish, operators and the dashboard are answered.
  const afterCalls: Closers = []
  closers.push(() => closeAll(afterCalls, log))
  const rpc = await openRpcListener({ ...context, config, networks: running.current, tls })
  closers.push(() => rpc.stop())
  const readNetworks = () =>
    networkStatuses(
      running.current.map(({ name, heads }) => ({ name, ...heads.status })),
      nodeStatuses.read(),
      pluginProblems.read(),
    )
  const source = {
    ...context,
    logLevel: log,
    metrics: metrics.families,
    ownMetrics: metrics,
    traffic: async () => [readProcessTraffic(metrics)],
    openStore: async () => store,
    networks: networkConfigs,
    tls,
    rpcUrl: rpc.url,
    describeMethods: async () => new Map(running.current.map(network => [network.name, network.describeMethods()])),
    readNetworks,
    networkStatuses: readNetworks,
    refreshHeads: () => headsSource.refresh(),
  }
  const dashboards = await openDashboards(config, source, afterCalls)
  return {
    urls: { rpc: rpc.url, ...dashboards.urls },
    enterLameDuck: rpc.enterLameDuck,
    reload(changed, networks) {
      rpc.reload(running.current, { drain: changed.drain })
      dashboards.reload(changed, networks)
    },
  }
}
