import { randomBytes } from 'node:crypto'
import type { GatewayConfig } from '../config/types.ts'
import { openAccessLog } from '../services/access-log.ts'
import type { CallObserver } from '../services/access-log.ts'
import { openAccountRemoval } from '../services/accounts/account-deletion.ts'
import { openAccounts } from '../services/accounts/index.ts'
import { DrainedNodes } from '../services/drained-nodes.ts'
import { EvidenceWriter } from '../services/evidence.ts'
import { openPluginRecords } from '../services/plugin-records.ts'
import { openHeadsSource } from '../services/chain-heads/index.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { ReloadableJwt } from '../services/jwt/index.ts'
import { openLedger } from '../services/ledger/index.ts'
import type { LedgerClientOptions } from '../services/ledger/ledger-client.ts'
import { storeEmptied } from '../services/ledger/store-outage.ts'
import type { StoreOutage } from '../services/ledger/store-outage.ts'
import type { Log, RootLog } from '../services/log.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import { PluginProblems } from '../services/plugin-problems.ts'
import { NodeStatuses } from '../services/node-status.ts'
import { collectProcessMetrics } from '../services/process-metrics.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import { RequestLog } from '../services/request-log.ts'
import { results } from '../services/results.ts'
import { openSharedCaches } from '../services/shared-cache/index.ts'
import { SocketLimits } from '../services/socket-limits.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import { openUsage } from '../services/usage/index.ts'
import { openHeightBroadcasts, openSharedRateLimits, openStore } from '../store/open-store.ts'
import { openFilterRecords } from '../store/record-store.ts'
import { withStoreMetrics } from '../store/store-metrics.ts'
import { ownerOf } from './shared-calls.ts'
import { openSingletons } from './singletons.ts'
import { version } from './version.ts'

/** What closes a gateway: what was opened last is closed first. */
export type Closers = (() => Promise<void>)[]

export const closeAll = async (closers: Closers, log: Log): Promise<void> => {
  for (const closer of closers.splice(0).reverse()) {
    await closer().catch((error: unknown) => log.error({ err: error }, 'a component did not close'))
  }
}

/** The heads of a gateway without workers, which polls its upstreams itself. */
export const openOwnHeadsSource = async ({ store }: GatewayConfig, clock: Clock, closers: Closers): Promise<HeadsSource> => {
  const heights = await openHeightBroadcasts(store, clock)
  closers.push(() => heights.close())
  return openHeadsSource(heights.heightBroadcastsOf)
}

/** The store, the logs, the verifier of tokens, and what measures the process and bounds its memory and sockets. */
export const openBase = async (
  { store: storeAddress, limits, workers, accessLog: accessLogConfig, jwt: jwtOptions }: GatewayConfig,
  clock: Clock,
  log: RootLog,
  closers: Closers,
  observer?: CallObserver,
) => {
  const memoryBudget = new MemoryBudget(Math.floor(limits.inFlight / workers))
  const metrics = createMetricsRegistry()
  const stopMeasuring = collectProcessMetrics(metrics, version, clock)
  closers.push(async () => stopMeasuring())
  const store = withStoreMetrics(await openStore(storeAddress, clock), metrics, clock)
  closers.push(() => store.close())
  for (const warning of store.warnings) log.warn({}, warning)
  closers.push(openAccountRemoval({ store, clock, log }).stop)
  const accessLog = openAccessLog(accessLogConfig, clock, log, observer)
  closers.push(() => accessLog.close())
  const jwt = new ReloadableJwt({ clock, log, metrics })
  closers.push(async () => jwt.close())
  ;(await jwt.prepare(jwtOptions)).commit()
  const sockets = new SocketLimits({ connections: Math.ceil(limits.connections / workers), clock, log, metrics })
  return { store, memoryBudget, metrics, accessLog, jwt, sockets, clock, log }
}

/** What services and listeners share. */
export type BaseServices = Awaited<ReturnType<typeof openBase>>

/** The rate limits that gateways share by their store; undefined where they cannot. */
export const openRateLimits = async (
  { store }: GatewayConfig,
  { clock, log }: BaseServices,
  closers: Closers,
): Promise<RateLimits | undefined> => {
  const shared = await openSharedRateLimits(store, clock, log)
  if (shared !== undefined) closers.push(() => shared.close())
  return shared
}

/** The ledger knows whether the store can be used, and the look-ups of keys whether it has lost them. */
const measureStoreOutages = ({ metrics, log }: Pick<BaseServices, 'metrics' | 'log'>) => {
  const gaugeOf = (reason: StoreOutage) => metrics.gauge(metricDefinitions.storeUnavailable, { reason })
  const unavailable = (['unreachable', 'removed'] as const).map(reason => ({ reason, gauge: gaugeOf(reason) }))
  const emptied = gaugeOf('emptied')
  let wasEmptied = false
  return {
    onOutage(reason: StoreOutage | undefined): void {
      for (const each of unavailable) each.gauge.set(each.reason === reason ? 1 : 0)
    },
    onEmptied(isEmptied: boolean): void {
      if (isEmptied === wasEmptied) return
      wasEmptied = isEmptied
      emptied.set(isEmptied ? 1 : 0)
      if (isEmptied) log.error({ event: 'store-emptied' }, `the store ${storeEmptied}`)
      else log.info({ event: 'store-refilled' }, 'the store has accounts and keys again')
    },
  }
}

/** What plugins use, opened in the order in which one needs the other. */
export const openServices = async (
  config: GatewayConfig,
  { store, jwt, memoryBudget, metrics, sockets, clock, log }: BaseServices,
  closers: Closers,
  recallCredits?: LedgerClientOptions['recall'],
) => {
  const process = randomBytes(8).toString('hex')
  // The usage before the ledger, so that the store knows that the process reports use and counts together; stopped after it.
  const requestLog = new RequestLog(store, clock, config.requestLog)
  closers.push(() => requestLog.stop())
  requestLog.start()
  const usage = openUsage(store, clock, { log, retentionMs: config.usage.retention, process, requestLog })
  closers.push(() => usage.stop())
  const storeOutages = measureStoreOutages({ metrics, log })
  const ledger = openLedger(store, clock, {
    log,
    process,
    onOutage: storeOutages.onOutage,
    ...(recallCredits && { recall: recallCredits }),
  })
  closers.push(() => ledger.stop())
  await usage.start()
  await ledger.start()
  const drainedNodes = new DrainedNodes({ store, clock, log })
  closers.push(() => drainedNodes.stop())
  await drainedNodes.start()
  const evidenceWriter = new EvidenceWriter({ store, clock, log, drainedNodes })
  closers.push(() => evidenceWriter.whenIdle())
  const upstreamClient = openUpstreamClient(clock, memoryBudget, { sockets })
  const upstreamClientOf = (network: string) => upstreamClient.withMemory(memoryBudget.responseMemoryOf(network), ownerOf)
  closers.push(() => upstreamClient.close())
  const sharedCaches = openSharedCaches({ clock, log, metrics })
  closers.push(() => sharedCaches.close())
  return {
    upstreamClientOf,
    sharedCaches,
    filterRecords: openFilterRecords(store),
    evidenceWriter,
    pluginRecords: openPluginRecords({ store, clock }),
    ledger,
    usage,
    requestLog,
    nodeStatuses: new NodeStatuses(metrics, drainedNodes),
    pluginProblems: new PluginProblems({ clock, metrics }),
    results,
    version,
    accounts: openAccounts(store, config.plans, clock, { jwt, onEmptied: storeOutages.onEmptied }),
    singletons: openSingletons(),
  }
}
