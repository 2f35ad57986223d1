import type { Address, NetworkConfig, StoreAddress } from '../config/types.ts'
import type { Secret } from '../plugin/secret.ts'
import type { ServeRequest } from '../server/admin.ts'
import type { AdminToken } from '../server/admin-token.ts'
import { openAppListener } from '../server/index.ts'
import type { Listener } from '../server/index.ts'
import type { TlsServers } from '../server/http-server.ts'
import type { Metrics } from '../services/metrics.ts'
import type { MethodDescription } from '../services/index.ts'
import { openOnce } from '../util/async.ts'
import type { OperatorReceivers } from './alerts/operator-alerts.ts'
import { openAfterStart, recordAfterStart } from './background.ts'
import type { Brand, BrandOptions } from './brand.ts'
import type { PortalLimits } from './portal-limits.ts'
import { openMailer } from './mail/mailer.ts'
import type { MailOptions } from './mail/mailer.ts'
import type { OidcOptions } from './people/oidc-provider.ts'
import type { NodeIncidentsOptions } from './operator/node-incidents.ts'
import type { OperatorAppOptions } from './operator/operator-app.ts'
import type { QueryProcess } from './queries/query-process.ts'
import type { UsageWebhookOptions } from './usage-webhook.ts'
import type { OutageHistory } from './alerts/outage-days.ts'
import type { PortalNetwork, PortalServices } from './portal-services.ts'

/** What the portal makes itself. */
type OwnServices =
  | 'brand'
  | 'outageHistory'
  | 'networks'
  | 'url'
  | 'limits'
  | 'queries'
  | 'startQueries'
  | 'sendMail'
  | 'oidc'
  | 'portalSecret'

export interface PortalOptions extends Omit<PortalServices, OwnServices> {
  readonly address: Address
  /** For HTTPS. */
  readonly tls?: TlsServers | undefined
  /** The address of `store`, which the process of queries opens too. */
  readonly storeAddress: StoreAddress
  /** Addresses and subnets of proxies, which say where a request comes from. */
  readonly trustedProxies: readonly string[]
  /** The URL that browsers use, when it is another than that of the address. */
  readonly url?: string
  /** Of the mail server. */
  readonly smtp?: MailOptions
  /** The OpenID Connect provider. */
  readonly oidc?: OidcOptions
  /** What is shown in place of Tollgate. */
  readonly brand?: BrandOptions
  /** Signs cookies and webhooks; without it, keys in the store do. */
  readonly secret?: Secret
  /** Gets the usage of each day that is over. */
  readonly usageWebhook?: Pick<UsageWebhookOptions, 'url'>
  /** Who is told of incidents. */
  readonly operatorAlerts?: OperatorReceivers
  /** The URL of the operator's page, where the operator has given it. */
  readonly operatorUrl?: string | undefined
  readonly metrics: Metrics
  /** The base URL of a network, with `{host}` in place of its host; that of the RPC listener unless given. */
  readonly networkUrl?: string
  /** Where accounts pay, with {account} for the id of one. */
  readonly billingUrl?: string
  /** The URL of the RPC listener. */
  readonly rpcUrl: string
  readonly networks: readonly Pick<NetworkConfig, 'name' | 'chainId' | 'hosts' | 'steps'>[]
  /** By network; read with the first request. */
  describeMethods(): Promise<ReadonlyMap<string, readonly MethodDescription[]>>
}

/** What a reload may change. */
export type PortalReload = Pick<PortalOptions, 'networks' | 'plans' | 'requestLog'>

interface PortalListener extends Listener {
  reload(changes: PortalReload): void
}

/** What the app and what runs beside it are made from; the rest is for the listener. */
type PortalAppOptions = Omit<PortalOptions, 'address' | 'tls' | 'trustedProxies' | 'storeAddress'>

/** Opens the dashboard for developers. Rejects with ListenError. */
export const openPortal = async ({
  address,
  tls,
  storeAddress,
  trustedProxies,
  ...initialOptions
}: PortalOptions): Promise<PortalListener> => {
  let options = initialOptions
  let limits: PortalLimits | undefined
  let brand: Brand | undefined
  let outageHistory: OutageHistory | undefined
  const { clock, log, smtp, oidc, secret: portalSecret } = options
  const sendMail = smtp && openMailer(smtp, log)
  const browserUrl = (listenerUrl: string): string => (options.url ?? listenerUrl).replace(/\/$/, '')
  const openQueries = openOnce(async () => (await import('./queries/query-process.ts')).openQueryProcess(storeAddress, clock))
  const listener = await openAppListener(
    address,
    async listenerUrl => {
      const { createBrand, createPortalApp, openOidcProvider, openOutageHistory, openPortalLimits } = await import('./portal-app.ts')
      brand ??= options.brand && createBrand(options.brand)
      limits ??= openPortalLimits(clock)
      const { queries, start: startQueries } = await openQueries()
      const url = browserUrl(listenerUrl)
      const made = {
        brand,
        url,
        limits,
        queries,
        startQueries,
        sendMail,
        portalSecret,
        outageHistory: (outageHistory ??= openOutageHistory(options.store, clock)),
        oidc: oidc && openOidcProvider(oidc, `${url}/sign-in`, options),
      }
      // Streams that were opened before a reload have the plans of after it.
      const services = {
        ...options,
        ...made,
        networks: await toPortalNetworks(options),
        get plans() {
          return options.plans
        },
      }
      return createPortalApp(services, { listenHost: address.host, trustedProxies }).callback()
    },
    { peer: 'portal', tls, trustedProxies, clock, log, ownMetrics: options.metrics },
  )
  const alerts = openAfterStart({
    name: 'alerts',
    clock,
    log,
    async open() {
      const { operatorAlerts: receivers, operatorUrl } = options
      const operators = receivers && { receivers, operatorUrl }
      const made = { portalSecret, sendMail, portalUrl: browserUrl(listener.url), allowedSubnets: options.webhooks?.allow ?? [], operators }
      return (await import('./alerts/alert-rounds.ts')).startAlerts({
        ...options,
        ...made,
        plans: () => options.plans,
        networkNames: () => options.networks.map(({ name }) => name),
        networkStatuses: () => options.networkStatuses(),
      })
    },
  })
  const usageWebhook = openUsageWebhook(options, openQueries)
  return {
    ...listener,
    reload(changes) {
      options = { ...options, ...changes }
      listener.reload()
    },
    async stop() {
      await Promise.all([alerts.stop(), usageWebhook?.stop()])
      await listener.stop()
      await (await openQueries.opened())?.close()
    },
  }
}

/** Undefined without a receiver. */
const openUsageWebhook = (
  { usageWebhook: receiver, usageRetentionMs: retentionMs, secret: portalSecret, ...services }: PortalAppOptions,
  openQueries: () => Promise<QueryProcess>,
) =>
  receiver &&
  openAfterStart({
    name: 'webhook of usage',
    clock: services.clock,
    log: services.log,
    async open() {
      const { startUsageWebhook } = await import('./usage-webhook.ts')
      const { queries } = await openQueries()
      return startUsageWebhook({ ...services, ...receiver, portalSecret, retentionMs, queries })
    },
  })

const toPortalNetworks = async ({ networks, describeMethods, networkUrl, rpcUrl }: PortalAppOptions): Promise<readonly PortalNetwork[]> => {
  const methods = await describeMethods()
  return networks.map(({ name, chainId, hosts, steps }) => {
    const http = networkUrl?.replace('{host}', hosts[0] ?? '') ?? urlOnListener(hosts, rpcUrl)
    const [rateLimits = null] = steps.flatMap(({ plugin, options }) => plugin.limitsRates?.(options as never) ?? []) // the loader checked them against its schema
    return { name, chainId, http, ws: http.replace(/^http/, 'ws'), methods: methods.get(name) ?? [], rateLimits }
  })
}

/** Without a public URL: the address of the listener where it names the network by itself, else the network's host on its port. */
const urlOnListener = (hosts: readonly string[], rpcUrl: string): string => {
  const url = new URL(rpcUrl)
  const host = hosts.includes(url.hostname) ? url.hostname : (hosts[0] ?? url.hostname)
  url.hostname = host.includes(':') ? `[${host}]` : host
  return url.origin
}

/** What kept calls from nodes and networks in the last day, for operators and developers alike. */
export const recordIncidents = ({ log, ...options }: NodeIncidentsOptions & Pick<PortalOptions, 'log'>) =>
  recordAfterStart({
    name: 'the log of incidents',
    clock: options.clock,
    log,
    open: async () => new (await import('./operator/node-incidents.ts')).NodeIncidents(options),
  })

/** How near the store is to its limits. */
export const recordStoreLimits = ({ store, metrics, clock, log }: Pick<PortalOptions, 'store' | 'metrics' | 'clock' | 'log'>) =>
  recordAfterStart({
    name: 'the limits of the store',
    clock,
    log,
    open: async () => new (await import('../services/store-limits.ts')).StoreLimits(store, metrics),
  })

export interface OperatorListenerAppOptions extends Omit<OperatorAppOptions, 'history' | 'observer'> {
  hasOwnPlugins(): boolean
}

/** What the operator uses on the admin listener, loaded with its first request; with the next one, where that fails. */
export const openOperatorApp = (options: OperatorListenerAppOptions) => {
  const { clock, log, traffic } = options
  const history = recordAfterStart({
    name: 'the history of traffic',
    clock,
    log,
    async open() {
      const opened = new (await import('../services/traffic/history.ts')).TrafficHistory({ clock, read: traffic })
      const follow = (networks: readonly string[]): Promise<void> =>
        opened
          .followOutages(networks)
          .catch((error: unknown) => log.error({ err: error }, 'calls in outages are not counted because of a bug'))
      ;(await options.incidents()).onNetworksDown(networks => void follow(networks))
      return opened
    },
  })
  const observer = recordAfterStart({
    name: 'problems of the gateway',
    clock,
    log,
    open: async () => new (await import('./operator/observe-gateway.ts')).GatewayObserver({ ...options, history: history.whenOpen }),
  })
  const networks = async () => {
    const [found, recorded] = await Promise.all([options.networks(), options.incidents()])
    recorded.recordStates(found)
    return found
  }
  const open = openOnce(async (token: AdminToken) =>
    (await import('./operator/operator-app.ts')).createOperatorApp(
      { ...options, networks, history: history.whenOpen, observer: observer.whenOpen },
      token,
    ),
  )
  return {
    serve: async (token: AdminToken): Promise<ServeRequest> => (await open(token)).serve,
    async close(): Promise<void> {
      await observer.stop()
      await history.stop()
      await (await open.opened())?.close()
    },
  }
}
