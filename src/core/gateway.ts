import type { Config, GatewayConfig, NetworkConfig } from '../config/types.ts'
import { buildNetwork } from './network.ts'
import type { HostServices, Network } from './network.ts'
import { openAdminListener, openRpcListener } from '../server/index.ts'
import { openAccounts } from '../services/accounts/index.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { createMemoryBudget } from '../services/memory-budget.ts'
import type { MemoryBudget } from '../services/memory-budget.ts'
import { openSharedCaches } from '../services/shared-cache/index.ts'
import type { Clock } from '../services/clock.ts'
import { openHeadsSource } from '../services/chain-heads/index.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import { openSingletons } from './singletons.ts'
import { openLedger } from '../services/ledger/index.ts'
import type { Log } from '../services/log.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { results } from '../services/results.ts'
import { openUsage } from '../services/usage/index.ts'
import { openHeightBroadcasts, openStore } from '../store/open-store.ts'
import { sleep } from '../util/sleep.ts'
import { version } from './version.ts'

/** A gateway that serves. */
export interface Gateway {
  readonly urls: { readonly rpc: string; readonly admin?: string }
  readonly metrics: MetricsRegistry
  /**
   * `/readyz` answers 503 at once; after `drain.grace` no new calls are accepted; calls in flight finish, networks stop,
   * services close: what was opened last is closed first.
   */
  stop(): Promise<void>
}

/** A configuration without problems. */
export type ValidConfig = Config & { readonly gateway: GatewayConfig }

/**
 * Opens services, starts the networks, then listens. When it rejects, nothing is left open. It asks nodes for their heads
 * itself, unless a source of them is given.
 */
export const openGateway = async ({ gateway, networks }: ValidConfig, clock: Clock, log: Log, source?: HeadsSource): Promise<Gateway> => {
  const closers: (() => Promise<void>)[] = []
  let isStopping = false
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) {
      await closer().catch((error: unknown) => log.error({ err: error }, 'something did not close'))
    }
  }
  try {
    const memoryBudget = createMemoryBudget(Math.floor(gateway.limits.inFlight / gateway.workers))
    const headsSource = source ?? (await openOwnHeadsSource(gateway, clock, closers))
    const hostServices = { ...(await openServices(gateway, networks.length, { room: memoryBudget, clock, log }, closers)), headsSource }
    const runningNetworks = await startNetworks(networks, hostServices, closers)
    await headsSource.ready()
    const rpc = await openRpcListener({
      config: gateway,
      networks: runningNetworks,
      memoryBudget,
      clock,
      log,
      metrics: hostServices.metrics,
    })
    closers.push(() => rpc.stop())
    const readiness = {
      isReady: () => !isStopping,
      networks: () => runningNetworks.map(({ name, heads }) => ({ name, ...heads.status })),
      metrics: hostServices.metrics.families,
    }
    const admin = gateway.listen.admin && (await openAdminListener(gateway.listen.admin, readiness, log))
    // Closed after the calls in flight have finished, so that it can be asked until then.
    if (admin !== undefined) closers.splice(-1, 0, () => admin.stop())
    const stop = async () => {
      isStopping = true
      await sleep(clock, gateway.drain.grace)
      await close()
    }
    return { urls: { rpc: rpc.url, ...(admin && { admin: admin.url }) }, metrics: hostServices.metrics, stop }
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

const openServices = async (
  config: GatewayConfig,
  networkCount: number,
  { room, clock, log }: { room: MemoryBudget; clock: Clock; log: Log },
  closers: Closers,
): Promise<Omit<HostServices, 'headsSource'> & { metrics: MetricsRegistry }> => {
  const store = await openStore(config.store, clock)
  closers.push(() => store.close())
  const ledger = openLedger(store, clock, { log })
  await ledger.start()
  closers.push(() => ledger.stop())
  const usage = openUsage(store, clock, { log, retentionMs: config.usage.retention })
  await usage.start()
  closers.push(() => usage.stop())
  const upstreamClient = openUpstreamClient(clock, room)
  closers.push(() => upstreamClient.close())
  const metrics = createMetricsRegistry()
  const cache = openSharedCaches({ clock, log, metrics })
  closers.push(() => cache.close())
  return {
    clock,
    log,
    upstreamClient,
    sharedCaches: cache,
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
