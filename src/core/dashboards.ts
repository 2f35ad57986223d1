import type { GatewayConfig } from '../config/types.ts'
import { openOperatorApp, openPortal, recordIncidents, recordStoreLimits } from '../portal/index.ts'
import type { OperatorListenerAppOptions, PortalOptions, PortalReload } from '../portal/index.ts'
import { openAdminListener } from '../server/index.ts'
import type { AdminOptions } from '../server/index.ts'
import type { NetworkStatus } from '../server/network-status.ts'
import { openAdminCertificate } from '../server/tls-certificate.ts'
import type { RootLog } from '../services/log.ts'
import type { Store } from '../store/store.ts'
import type { MaybePromise } from '../util/async.ts'
import type { Closers } from './open-services.ts'
import { version } from './version.ts'

/** What both show: the gateway with all its processes. */
export interface DashboardSource
  extends Pick<AdminOptions, 'isReady' | 'reloader' | 'accessLog' | 'logLevel' | 'metrics' | 'ownMetrics'>,
    Pick<OperatorListenerAppOptions, 'store' | 'traffic'>,
    Pick<PortalOptions, 'networks' | 'tls' | 'rpcUrl' | 'networkStatuses' | 'describeMethods' | 'clock'> {
  readonly log: RootLog
  /** As of now; `networkStatuses` may be a second old. */
  readNetworks(): MaybePromise<readonly NetworkStatus[]>
  /** Reads the heads that nobody has read lately. */
  refreshHeads(): Promise<void>
  /** For the dashboard, which needs the store from the start; `store` may be opened when it is first used. */
  openStore(): Promise<Store>
}

export interface Dashboards {
  readonly urls: { readonly portal?: string; readonly admin?: string }
  /** These plans, settings of the log and networks from now on. */
  reload(config: Pick<GatewayConfig, 'plans' | 'requestLog'>, networks: PortalReload['networks']): void
}

/**
 * Opens the admin listener for operators and the dashboard for developers, where they are configured; `closers` close them. Rejects with
 * ListenError or StoreError.
 */
export const openDashboards = async (config: GatewayConfig, source: DashboardSource, closers: Closers): Promise<Dashboards> => {
  const { clock, log } = source
  const { whenOpen: incidents, stop } = recordIncidents({ clock, log, observedNetworks: async () => source.readNetworks() })
  closers.push(stop)
  let reloadable: Pick<GatewayConfig, 'plans' | 'requestLog'> = config
  let { networks } = source
  let portalUrl: string | undefined
  const admin = await openOperatorListener(
    config,
    {
      ...{ ...source, incidents, reloadable: () => reloadable, portalUrl: () => portalUrl },
      hasOwnPlugins: () => networks.some(({ steps }) => steps.some(({ file }) => file !== undefined)),
    },
    closers,
  )
  const portal = await openPortalListener(config, { ...source, incidents }, closers)
  portalUrl = portal?.url
  return {
    urls: { ...(portal && { portal: portal.url }), ...(admin && { admin: admin.url }) },
    reload({ plans, requestLog }, reloaded) {
      reloadable = { plans, requestLog }
      networks = reloaded
      portal?.reload({ networks, plans, requestLog })
    },
  }
}

interface OperatorListenerOptions extends DashboardSource, Pick<OperatorListenerAppOptions, 'reloadable' | 'incidents' | 'hasOwnPlugins'> {
  /** The URL of the listener of the dashboard; undefined without one. */
  portalUrl(): string | undefined
}

/** With the page and the API of operators; undefined where no admin listener is configured. */
const openOperatorListener = async (
  { admin, listen, portal, store: storeAddress }: GatewayConfig,
  source: OperatorListenerOptions,
  closers: Closers,
) => {
  if (listen.admin === undefined) return undefined
  const { store, ownMetrics, clock, log } = source
  const { token, tokens, url, tls } = admin
  const networks = async () => {
    await source.refreshHeads()
    return source.readNetworks()
  }
  // Without a token nobody can sign in.
  const operatorApp =
    token &&
    openOperatorApp({
      ...source,
      storeAddress,
      networks,
      url,
      version,
      dashboardUrl: () => portal.url ?? source.portalUrl(),
      config: { listen, portal },
      isTls: tls !== undefined,
    })
  if (operatorApp !== undefined) closers.push(operatorApp.close)
  closers.push(recordStoreLimits({ store, metrics: ownMetrics, clock, log }).stop)
  const certificate = openAdminCertificate(admin, { clock, log, metrics: ownMetrics })
  closers.push(async () => certificate?.stop())
  const options = { ...source, networks, token, tokens, url, trustedProxies: listen.trustedProxies, operatorApp: operatorApp?.serve }
  const listener = await openAdminListener(listen.admin, options, certificate)
  closers.push(listener.stop)
  return listener
}

type PortalListenerOptions = DashboardSource & Pick<PortalOptions, 'incidents'>

/** Undefined where no dashboard is configured. */
const openPortalListener = async (
  { listen, portal, admin, plans, requestLog, store: storeAddress, usage }: GatewayConfig,
  source: PortalListenerOptions,
  closers: Closers,
) => {
  if (listen.portal === undefined) return undefined
  const listener = await openPortal({
    ...source,
    ...portal,
    store: await source.openStore(),
    metrics: source.ownMetrics,
    operatorUrl: admin.url,
    address: listen.portal,
    trustedProxies: listen.trustedProxies,
    plans,
    requestLog,
    storeAddress,
    usageRetentionMs: usage.retention,
    version,
  })
  closers.push(listener.stop)
  return listener
}
