import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { reloadGatewayConfig } from './config-changes.ts'
import type { GatewayConfig } from '../config/types.ts'
import { openListeners } from './listeners.ts'
import type { Listeners } from './listeners.ts'
import { ownerOf } from './pipeline.ts'
import type { HostServices } from './stage-services.ts'
import { Reloader } from './reloader.ts'
import type { PreparedReload, ReadConfig, Reloadable, ValidConfig } from './reloader.ts'
import { ReloadError, RunningNetworks } from './running-networks.ts'
import { openTracing } from './tracing.ts'
import { openAccountRemoval } from '../services/accounts/account-deletion.ts'
import { openAccounts } from '../services/accounts/index.ts'
import type { ReloadableAccounts } from '../services/accounts/index.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { openSharedCaches } from '../services/shared-cache/index.ts'
import { openAccessLog } from '../services/access-log.ts'
import type { AccessLog, AccessLogConfig, AccessLogControl, PreparedAccessLog } from '../services/access-log.ts'
import type { Clock } from '../services/clock.ts'
import { openHeadsSource } from '../services/chain-heads/index.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import { openSingletons } from './singletons.ts'
import { openFilterRecords } from '../services/filter-records.ts'
import { openLedger } from '../services/ledger/index.ts'
import { LogFileError } from '../services/log.ts'
import type { RootLog } from '../services/log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import { collectProcessMetrics } from '../services/process-metrics.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { openOnlyPeer } from '../services/peers.ts'
import type { Peers } from '../services/peers.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import { results } from '../services/results.ts'
import { SocketLimits } from '../services/socket-limits.ts'
import { openUsage } from '../services/usage/index.ts'
import { openHeightBroadcasts, openSharedRateLimits, openStore } from '../store/open-store.ts'
import { withStoreMetrics } from '../store/store-metrics.ts'
import type { Store } from '../store/store.ts'
import { version } from './version.ts'

export type { ValidConfig } from './reloader.ts'

/** A running gateway. */
export interface Gateway extends Pick<Listeners, 'urls'>, Reloadable {
  readonly metrics: MetricsRegistry
  readonly accessLog: AccessLogControl
  /** Present when the gateway knows how to read its configuration anew. */
  readonly reloader?: Reloader
  /**
   * `/readyz` answers 503 at once; for `graceMs` (`drain.grace` unless given) calls are still served, and connections are closed
   * gradually. Then no new calls are accepted; calls in flight finish, networks stop, services close: what was opened last is
   * closed first.
   */
  stop(graceMs?: number): Promise<void>
}

export interface GatewayOptions {
  /** The gateway polls the heads of its upstreams itself unless a source of heads is given. */
  readonly headsSource?: HeadsSource
  /** The workers that serve a network; without it, the gateway is one process. */
  peersOf?(network: string): Peers
  /** Those of this process unless given; with Redis as the store, those of all gateways that share it. */
  readonly rateLimits?: RateLimits
  /** For reloads that this process decides on. */
  readonly readConfig?: ReadConfig
}

/** Opens the services, starts the networks, then listens. When it rejects, everything is closed again. */
export const openGateway = async (
  config: ValidConfig,
  clock: Clock,
  log: RootLog,
  { headsSource: givenHeads, peersOf = openOnlyPeer, rateLimits: givenRateLimits, readConfig }: GatewayOptions = {},
): Promise<Gateway> => {
  const closers: Closers = []
  let { gateway } = config
  let isStopping = false
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) {
      await closer().catch((error: unknown) => log.error({ err: error }, 'a component did not close'))
    }
  }
  try {
    const tracing = await openTracing(log)
    if (tracing !== undefined) closers.push(() => tracing.flush(clock))
    const memoryBudget = new MemoryBudget(Math.floor(gateway.limits.inFlight / gateway.workers))
    const headsSource = givenHeads ?? (await openOwnHeadsSource(gateway, clock, closers))
    const metrics = createMetricsRegistry()
    const stopMeasuring = collectProcessMetrics(metrics, version, clock)
    closers.push(async () => stopMeasuring())
    const store = withStoreMetrics(await openStore(gateway.store, clock), metrics, clock)
    closers.push(() => store.close())
    for (const warning of store.warnings) log.warn({}, warning)
    const accountRemoval = openAccountRemoval({ store, clock, log })
    closers.push(accountRemoval.stop)
    const accessLog = openAccessLog(gateway.accessLog, clock, log)
    closers.push(() => accessLog.close())
    const sockets = new SocketLimits({ connections: Math.ceil(gateway.limits.connections / gateway.workers), clock, log, metrics })
    const base = { store, memoryBudget, metrics, accessLog, sockets, clock, log }
    const { accounts, ...opened } = await openServices(gateway, base, closers)
    const sharedRateLimits = await openSharedRateLimits(gateway.store, clock, log)
    if (sharedRateLimits !== undefined) closers.push(() => sharedRateLimits.close())
    const rateLimits = sharedRateLimits ?? givenRateLimits ?? new TokenBuckets(clock)
    const services = { ...opened, tracing, headsSource, peersOf, rateLimits, accounts: { find: accounts.find } }
    const running = new RunningNetworks()
    closers.push(() => running.stop())
    const prepare = async ({ gateway: next, networks }: ValidConfig) => {
      const ofConfig = { cacheBytes: cacheBytesOf(next, networks.length), measuresPlugins: next.metrics.plugins }
      const prepared = await running.prepare(networks, { ...services, ...ofConfig })
      await headsSource.ready()
      return prepared
    }
    running.commit(await prepare(config), base, 0)
    const prepareReload = async (read: ValidConfig): Promise<PreparedReload> => {
      const next = { ...read, gateway: reloadGatewayConfig(gateway, read.gateway) }
      const preparedLog = prepareAccessLog(accessLog, gateway.accessLog, next.gateway.accessLog)
      const prepared = await prepare(next).catch(async (error: unknown) => {
        await preparedLog?.abandon()
        throw error
      })
      return {
        async abandon() {
          await running.abandon(prepared)
          await preparedLog?.abandon()
        },
        commit() {
          preparedLog?.commit()
          if (next.gateway.log !== gateway.log) log.level = next.gateway.log
          gateway = next.gateway
          accounts.setPlans(gateway.plans)
          running.commit(prepared, base, gateway.drain.timeout)
          listeners.reload(gateway, next.networks)
        },
      }
    }
    const reloader = readConfig && new Reloader({ config, readConfig, prepareReload, ...base })
    const context = { ...services, ...base, running, isReady: () => !isStopping, reloader }
    const listeners = await openListeners(gateway, config.networks, context, closers)
    const stop = async (graceMs = gateway.drain.grace) => {
      isStopping = true
      reloader?.stop()
      await listeners.enterLameDuck(graceMs)
      await reloader?.whenIdle()
      await close()
    }
    return { urls: listeners.urls, metrics, accessLog, prepareReload, ...(reloader && { reloader }), stop }
  } catch (error) {
    await close()
    throw error
  }
}

/** Undefined where nothing has changed: what was set over the admin listener stays. */
const prepareAccessLog = (accessLog: AccessLog, before: AccessLogConfig, after: AccessLogConfig): PreparedAccessLog | undefined => {
  if (isDeepStrictEqual(before, after)) return undefined
  try {
    return accessLog.prepare(after)
  } catch (error) {
    throw error instanceof LogFileError ? new ReloadError(`accessLog: ${error.message}`) : error
  }
}

/** The caches of the machine share its memory. */
const cacheBytesOf = ({ memory, workers }: GatewayConfig, networkCount: number): number => Math.floor(memory / networkCount / workers)

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
  readonly accessLog: AccessLog
  readonly sockets: SocketLimits
  readonly clock: Clock
  readonly log: RootLog
}

const openServices = async (
  config: GatewayConfig,
  { store, memoryBudget, metrics, sockets, clock, log }: BaseServices,
  closers: Closers,
): Promise<Omit<HostServices, 'headsSource' | 'cacheBytes' | 'accounts' | 'rateLimits'> & { readonly accounts: ReloadableAccounts }> => {
  const process = randomBytes(8).toString('hex')
  const newProcessName = () => process
  // Before the ledger, so that the store knows that the process reports use and counts together; stopped after it.
  const usage = openUsage(store, clock, { log, retentionMs: config.usage.retention, newProcessName })
  closers.push(() => usage.stop())
  const ledger = openLedger(store, clock, { log, newProcessName })
  const leases = metrics.gauge(metricDefinitions.leases, {})
  metrics.collect(() => leases.set(ledger.leaseCount))
  closers.push(() => ledger.stop())
  await usage.start()
  await ledger.start()
  const upstreamClient = openUpstreamClient(clock, memoryBudget, sockets)
  const upstreamClientOf = (network: string) => upstreamClient.withMemory(memoryBudget.shareOf(`network ${network}`), ownerOf)
  closers.push(() => upstreamClient.close())
  const sharedCaches = openSharedCaches({ clock, log, metrics })
  closers.push(() => sharedCaches.close())
  return {
    clock,
    log,
    upstreamClientOf,
    sharedCaches,
    filterRecords: openFilterRecords(store),
    ledger,
    usage,
    metrics,
    results,
    version,
    accounts: openAccounts(store, config.plans, clock),
    singletons: openSingletons(),
  }
}
