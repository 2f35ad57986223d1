import type { NetworkConfig, GatewayConfig } from '../config/types.ts'
import { openOperatorApp, openPortal, recordIncidents, recordStoreLimits } from '../portal/index.ts'
import type { OperatorListenerAppOptions, PortalListener, PortalOptions, PortalReload } from '../portal/index.ts'
import { openAdminListener, openRpcListener } from '../server/index.ts'
import type { AdminOptions, Listener, RpcListener, RpcListenerOptions } from '../server/index.ts'
import { networkStatuses } from '../server/network-status.ts'
import { openAdminCertificate, openTlsCertificate } from '../server/tls-certificate.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { RootLog } from '../services/log.ts'
import type { PluginProblems } from '../services/plugin-problems.ts'
import type { NodeStatuses } from '../services/node-status.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import type { TlsTexts } from '../services/tls-files.ts'
import { readProcessTraffic } from '../services/traffic/process-traffic.ts'
import { closeAll } from './open-services.ts'
import type { Closers } from './open-services.ts'
import type { RunningNetworks } from './running-networks.ts'
import { version } from './version.ts'

interface ListenerContext extends Omit<RpcListenerOptions, 'config' | 'networks' | 'tls'>, Pick<PortalOptions, 'store'> {
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
  readonly urls: { readonly rpc: string; readonly portal?: string; readonly admin?: string }
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
  const { running, headsSource, nodeStatuses, pluginProblems, store, accessLog, isReady, reloader, clock, log, metrics } = context
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
  const incidents = recordIncidents({ clock, log, observedNetworks: async () => readNetworks() })
  afterCalls.push(incidents.stop)
  let reloadable: ReturnType<OperatorListenerAppOptions['reloadable']> = config
  let portal: PortalListener | undefined
  const describeMethods = async () => new Map(running.current.map(network => [network.name, network.describeMethods()]))
  const operator = await openOperatorListener(config, {
    describeMethods,
    isReady,
    reloader,
    accessLog,
    clock,
    log,
    incidents: incidents.whenOpen,
    async networks() {
      await headsSource.refresh()
      return readNetworks()
    },
    metrics: metrics.families,
    traffic: async () => [readProcessTraffic(metrics)],
    ownMetrics: metrics,
    logLevel: log,
    store,
    reloadable: () => reloadable,
    portalUrl: () => portal?.url,
  })
  if (operator !== undefined) afterCalls.push(operator.stop)
  portal = await openPortalListener(config, {
    networks: networkConfigs,
    store,
    tls,
    rpcUrl: rpc.url,
    networkStatuses: readNetworks,
    incidents: incidents.whenOpen,
    describeMethods,
    clock,
    log,
    metrics,
  })
  if (portal !== undefined) afterCalls.push(portal.stop)
  return {
    urls: { rpc: rpc.url, ...(portal && { portal: portal.url }), ...(operator && { admin: operator.url }) },
    enterLameDuck: rpc.enterLameDuck,
    reload({ drain, plans, requestLog }, networks) {
      reloadable = { plans, requestLog }
      rpc.reload(running.current, { drain })
      portal?.reload({ networks, plans, requestLog })
    },
  }
}

interface OperatorListenerOptions
  extends Omit<AdminOptions, 'operatorApp' | 'token' | 'tokens' | 'url' | 'trustedProxies'>,
    Pick<OperatorListenerAppOptions, 'store' | 'reloadable' | 'describeMethods' | 'traffic' | 'incidents'> {
  readonly log: RootLog
  /** The URL of the listener of the dashboard; undefined without one. */
  portalUrl(): string | undefined
}

/** Opens the admin listener, with the page and the API of operators; undefined where none is configured. Rejects with ListenError. */
export const openOperatorListener = async (
  { admin, listen, portal, store: storeAddress }: GatewayConfig,
  { store, reloadable, describeMethods, portalUrl, traffic, incidents, ...options }: OperatorListenerOptions,
): Promise<Listener | undefined> => {
  if (listen.admin === undefined) return undefined
  const { networks, metrics, ownMetrics, reloader, logLevel, clock, log } = options
  const { token, tokens, url, tls } = admin
  // Without a token nobody can sign in.
  const operatorApp =
    token &&
    openOperatorApp({
      store,
      storeAddress,
      reloadable,
      describeMethods,
      networks,
      incidents,
      url,
      metrics,
      traffic,
      reloader,
      logLevel,
      version,
      clock,
      log,
      dashboardUrl: () => portal.url ?? portalUrl(),
      config: { listen, portal },
      isTls: tls !== undefined,
    })
  const limits = storeAddress.kind === 'redis' ? recordStoreLimits({ store, metrics: ownMetrics, clock, log }) : undefined
  const certificate = openAdminCertificate(admin, { clock, log, metrics: ownMetrics })
  const appOptions = { ...options, token, tokens, url, trustedProxies: listen.trustedProxies, operatorApp: operatorApp?.serve }
  const listener = await openAdminListener(listen.admin, appOptions, certificate).catch((error: unknown) => {
    certificate?.stop()
    void limits?.stop()
    throw error
  })
  return {
    url: listener.url,
    async stop() {
      await listener.stop()
      certificate?.stop()
      await limits?.stop()
      await operatorApp?.close()
    },
  }
}

type PortalListenerOptions = Pick<
  PortalOptions,
  'networks' | 'store' | 'tls' | 'rpcUrl' | 'networkStatuses' | 'incidents' | 'describeMethods' | 'clock' | 'log' | 'metrics'
>

/** Opens the dashboard for developers; undefined where none is configured. Rejects with ListenError. */
export const openPortalListener = async (
  {
    listen: { portal: address, trustedProxies },
    portal,
    admin,
    plans,
    requestLog,
    store: storeAddress,
    usage: { retention },
  }: GatewayConfig,
  options: PortalListenerOptions,
): Promise<PortalListener | undefined> =>
  address &&
  openPortal({
    ...portal,
    ...options,
    operatorUrl: admin.url,
    address,
    trustedProxies,
    plans,
    requestLog,
    storeAddress,
    usageRetentionMs: retention,
    version,
  })
