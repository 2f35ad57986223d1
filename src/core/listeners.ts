import type { NetworkConfig, GatewayConfig } from '../config/types.ts'
import { openOperatorApp, openPortal } from '../portal/index.ts'
import type { PortalListener, PortalOptions, PortalReload } from '../portal/index.ts'
import { openAdminListener, openRpcListener } from '../server/index.ts'
import type { AdminOptions, RpcListener, RpcListenerOptions } from '../server/index.ts'
import { openAdminCertificate, openTlsCertificate } from '../server/tls-certificate.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { RootLog } from '../services/log.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { closeAll } from './open-services.ts'
import type { Closers } from './open-services.ts'
import type { RunningNetworks } from './running-networks.ts'

interface ListenerContext extends Omit<RpcListenerOptions, 'config' | 'networks' | 'tls'>, Pick<PortalOptions, 'store' | 'version'> {
  readonly running: RunningNetworks
  readonly headsSource: HeadsSource
  readonly metrics: MetricsRegistry
  readonly log: RootLog
  readonly isReady: AdminOptions['isReady']
  readonly reloader: AdminOptions['reloader']
}

export interface Listeners extends Pick<RpcListener, 'enterLameDuck'> {
  readonly urls: { readonly rpc: string; readonly portal?: string; readonly admin?: string }
  /** The networks that run, and these options, from now on. */
  reload(config: Pick<GatewayConfig, 'headers' | 'drain' | 'plans'>, networks: PortalReload['networks']): void
}

/** Opens all listeners, which `closers` close: first that of calls, once they have finished. */
export const openListeners = async (
  config: GatewayConfig,
  networkConfigs: readonly NetworkConfig[],
  context: ListenerContext,
  closers: Closers,
): Promise<Listeners> => {
  const { running, log } = context
  const tls = openTlsCertificate(config.listen, config.listen.portal === undefined ? ['rpc'] : ['rpc', 'portal'], context)
  if (tls !== undefined) closers.push(async () => tls.stop())
  const tlsOf = (listener: 'rpc' | 'portal') => (config.listen.tls?.listeners.includes(listener) === true ? tls : undefined)
  // While calls finish, operators and the dashboard are answered.
  const afterCalls: Closers = []
  closers.push(() => closeAll(afterCalls, log))
  const rpc = await openRpcListener({ ...context, config, networks: running.current, tls: tlsOf('rpc') })
  closers.push(() => rpc.stop())
  const headsStatus = () => running.current.map(({ name, heads }) => ({ name, ...heads.status }))
  let { plans } = config
  let portal: PortalListener | undefined
  const adminUrl = await openOperatorListener(config, context, {
    headsStatus,
    plans: () => plans,
    portalUrl: () => portal?.url,
    closers: afterCalls,
  })
  const portalAddress = config.listen.portal
  portal =
    portalAddress &&
    (await openPortal({
      ...portalOptionsOf(config, networkConfigs, context),
      ...{ address: portalAddress, tls: tlsOf('portal'), rpcUrl: rpc.url, headsStatus },
    }))
  if (portal !== undefined) afterCalls.push(portal.stop)
  return {
    urls: { rpc: rpc.url, ...(portal && { portal: portal.url }), ...(adminUrl !== undefined && { admin: adminUrl }) },
    enterLameDuck: rpc.enterLameDuck,
    reload({ headers, drain, plans: nextPlans }, networks) {
      plans = nextPlans
      rpc.reload(running.current, { headers, drain })
      portal?.reload({ networks, plans })
    },
  }
}

interface OperatorOptions {
  readonly headsStatus: () => Awaited<ReturnType<AdminOptions['networks']>>
  readonly plans: () => GatewayConfig['plans']
  readonly portalUrl: () => string | undefined
  readonly closers: Closers
}

/** Opens the admin listener, with the page and the API of operators. Returns its URL; undefined where none is configured. */
const openOperatorListener = async (
  config: GatewayConfig,
  context: ListenerContext,
  { headsStatus, plans, portalUrl, closers }: OperatorOptions,
): Promise<string | undefined> => {
  const { store, clock, log, version } = context
  const address = config.listen.admin
  if (address === undefined) return undefined
  const options = adminOptionsOf(config, context, headsStatus)
  const operatorApp = openOperatorApp({
    openStore: async () => store,
    plans,
    networks: options.networks,
    metrics: options.metrics,
    dashboardUrl: () => config.portal.url ?? portalUrl(),
    secrets: config.portal.secrets,
    canMail: config.portal.smtp !== undefined,
    storeAddress: config.store,
    url: config.admin.url,
    isTls: config.admin.tls !== undefined,
    version,
    clock,
    log,
  })
  closers.push(operatorApp.close)
  const tls = openAdminCertificate(config.admin, context)
  if (tls !== undefined) closers.push(async () => tls.stop())
  const admin = await openAdminListener(address, { ...options, operatorApp: operatorApp.serve }, tls)
  closers.push(() => admin.stop())
  return admin.url
}

const portalOptionsOf = (
  { portal, listen, plans, store: storeAddress, usage }: GatewayConfig,
  networks: readonly NetworkConfig[],
  { running, store, clock, log, metrics, version }: ListenerContext,
): Omit<PortalOptions, 'address' | 'tls' | 'rpcUrl' | 'headsStatus'> => ({
  ...portal,
  trustedProxies: listen.trustedProxies,
  usageRetentionMs: usage.retention,
  describeMethods: async () => new Map(running.current.map(network => [network.name, network.describeMethods()])),
  ...{ storeAddress, store, networks, plans, clock, log, metrics, version },
})

const adminOptionsOf = (
  { admin: { token, hosts }, listen: { trustedProxies } }: GatewayConfig,
  { isReady, reloader, headsSource, metrics, accessLog, clock, log }: ListenerContext,
  headsStatus: () => Awaited<ReturnType<AdminOptions['networks']>>,
): Omit<AdminOptions, 'operatorApp'> => ({
  isReady,
  async networks() {
    await headsSource.refresh()
    return headsStatus()
  },
  metrics: metrics.families,
  logLevel: log,
  accessLog,
  reloader,
  token,
  hosts,
  trustedProxies,
  clock,
  log,
})
