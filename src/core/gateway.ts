import { randomBytes } from 'node:crypto'
import type { Config, GatewayConfig, NetworkConfig } from '../config/types.ts'
import { buildNetwork } from './network.ts'
import type { HostServices, Network } from './network.ts'
import { openPortal } from '../portal/index.ts'
import { openAdminListener, openRpcListener } from '../server/index.ts'
import type { RpcListener } from '../server/index.ts'
import { openAccounts } from '../services/accounts/index.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { openSharedCaches } from '../services/shared-cache/index.ts'
import type { Clock } from '../services/clock.ts'
import { openHeadsSource } from '../services/chain-heads/index.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import { openSingletons } from './singletons.ts'
import { openLedger } from '../services/ledger/index.ts'
import type { RootLog } from '../services/log.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { results } from '../services/results.ts'
import { SocketLimits } from '../services/socket-limits.ts'
import { openUsage } from '../services/usage/index.ts'
import { openHeightBroadcasts, openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'
import { version } from './version.ts'

/** A running gateway. */
export interface Gateway {
  readonly urls: { readonly rpc: string; readonly portal?: string; readonly admin?: string }
  readonly metrics: MetricsRegistry
  /**
   * `/readyz` answers 503 at once; for `graceMs` (`drain.grace` unless given) calls are still served, and connections are closed
   * gradually. Then no new calls are accepted; calls in flight finish, networks stop, services close: what was opened last is
   * closed first.
   */
  stop(graceMs?: number): Promise<void>
}

/** A configuration without problems. */
export type ValidConfig = Config & { readonly gateway: GatewayConfig }

/**
 * Opens the services, starts the networks, then listens. When it rejects, everything is closed again. The gateway polls
 * the heads of its upstreams itself unless a source of heads is given.
 */
export const openGateway = async (
  { gateway, networks }: ValidConfig,
  clock: Clock,
  log: RootLog,
  sharedHeads?: HeadsSource,
): Promise<Gateway> => {
  const closers: Closers = []
  let isStopping = false
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) {
      await closer().catch((error: unknown) => log.error({ err: error }, 'a component did not close'))
    }
  }
  try {
    const memoryBudget = new MemoryBudget(Math.floor(gateway.limits.inFlight / gateway.workers))
    const headsSource = sharedHeads ?? (await openOwnHeadsSource(gateway, clock, closers))
    const store = await openStore(gateway.store, clock)
    closers.push(() => store.close())
    for (const warning of store.warnings) log.warn({}, warning)
    const metrics = createMetricsRegistry()
    const sockets = new SocketLimits({ connections: Math.ceil(gateway.limits.connections / gateway.workers), clock, log, metrics })
    const base = { store, memoryBudget, metrics, sockets, clock, log }
    const services = await openServices(gateway, networks.length, base, closers)
    const runningNetworks = await startNetworks(networks, { ...services, headsSource }, closers)
    await headsSource.ready()
    const isReady = () => !isStopping
    const context = { ...services, ...base, networks: runningNetworks, headsSource, isReady }
    const { urls, enterLameDuck } = await openListeners({ gateway, networks }, context, closers)
    const stop = async (graceMs = gateway.drain.grace) => {
      isStopping = true
      await enterLameDuck(graceMs)
      await close()
    }
    return { urls, metrics, stop }
  } catch (error) {
    await close()
    throw error
  }
}

type Closers = (() => Promise<void>)[]

const openOwnHeadsSource = async ({ store }: GatewayConfig, clock: Clock, closers: Closers): Promise<HeadsSource> => {
  const heights = await openHeightBroadcasts(store, clock)
  closers.push(() => heights.close())
  return openHeadsSource(heights.heightBroadcastsOf)
}

/** What services and listeners share. */
interface BaseServices {
  readonly store: Store
  readonly memoryBudget: MemoryBudget
  readonly metrics: MetricsRegistry
  readonly sockets: SocketLimits
  readonly clock: Clock
  readonly log: RootLog
}

const openServices = async (
  config: GatewayConfig,
  networkCount: number,
  { store, memoryBudget, metrics, sockets, clock, log }: BaseServices,
  closers: Closers,
): Promise<Omit<HostServices, 'headsSource'>> => {
  const process = randomBytes(8).toString('hex')
  const newProcessName = () => process
  // Before the ledger, so that the store knows that the process reports use and counts together; stopped after it.
  const usage = openUsage(store, clock, { log, retentionMs: config.usage.retention, newProcessName })
  closers.push(() => usage.stop())
  const ledger = openLedger(store, clock, { log, newProcessName })
  closers.push(() => ledger.stop())
  await usage.start()
  await ledger.start()
  const upstreamClient = openUpstreamClient(clock, memoryBudget, sockets)
  const upstreamClientOf = (network: string) => upstreamClient.withMemory(memoryBudget.shareOf(`network ${network}`))
  closers.push(() => upstreamClient.close())
  const sharedCaches = openSharedCaches({ clock, log, metrics })
  closers.push(() => sharedCaches.close())
  return {
    clock,
    log,
    upstreamClientOf,
    sharedCaches,
    ledger,
    usage,
    metrics,
    results,
    version,
    accounts: openAccounts(store, config.plans, clock),
    cacheBytes: Math.floor(config.memory / networkCount / config.workers),
    singletons: openSingletons(),
  }
}

const startNetworks = async (
  configs: readonly NetworkConfig[],
  hostServices: HostServices,
  closers: Closers,
): Promise<readonly Network[]> => {
  const runningNetworks: Network[] = []
  for (const config of configs) {
    const { network, problems } = await buildNetwork(config, hostServices)
    if (network === undefined) throw new Error(`network ${config.name} was not checked: ${problems[0]?.message}`)
    closers.push(() => network.stop())
    await network.start()
    runningNetworks.push(network)
  }
  return runningNetworks
}

interface ListenerContext extends BaseServices {
  readonly networks: readonly Network[]
  readonly version: string
  readonly headsSource: HeadsSource
  isReady(): boolean
}

const openListeners = async (
  { gateway: config, networks: networkConfigs }: Pick<ValidConfig, 'gateway' | 'networks'>,
  { networks, store, clock, log, metrics, memoryBudget, sockets, headsSource, version, isReady }: ListenerContext,
  closers: Closers,
): Promise<Pick<Gateway, 'urls'> & Pick<RpcListener, 'enterLameDuck'>> => {
  const rpc = await openRpcListener({ config, networks, memoryBudget, sockets, clock, log, metrics })
  closers.push(() => rpc.stop())
  const { admin: adminAddress, portal: portalAddress } = config.listen
  const headsStatus = () => networks.map(({ name, heads }) => ({ name, ...heads.status }))
  const adminOptions = {
    isReady,
    async networks() {
      await headsSource.refresh()
      return headsStatus()
    },
    metrics: metrics.families,
    logLevel: log,
    token: config.admin.token,
    hosts: config.admin.hosts,
    log,
  }
  const admin = adminAddress && (await openAdminListener(adminAddress, adminOptions))
  // Closed after the calls in flight have finished, so that they answer until then.
  if (admin !== undefined) closers.splice(-1, 0, () => admin.stop())
  const portal =
    portalAddress &&
    (await openPortal({
      ...config.portal,
      address: portalAddress,
      trustedProxies: config.listen.trustedProxies,
      rpcUrl: rpc.url,
      networks: networkConfigs,
      describeMethods: async () => new Map(networks.map(network => [network.name, network.describeMethods()])),
      plans: config.plans,
      ...{ store, headsStatus, clock, log, version },
    }))
  if (portal !== undefined) closers.splice(-1, 0, () => portal.stop())
  const urls = { rpc: rpc.url, ...(portal && { portal: portal.url }), ...(admin && { admin: admin.url }) }
  return { urls, enterLameDuck: rpc.enterLameDuck }
}
