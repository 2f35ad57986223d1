import type { NetworkConfig } from '../config/types.ts'
import type { HostServices } from '../core/stage-services.ts'
import { openSingletons } from '../core/singletons.ts'
import { version } from '../core/version.ts'
import type { Account, Secret, Target } from '../plugin/plugin.ts'
import type { Plan } from '../plugin/call.ts'
import { openAccounts } from '../services/accounts/index.ts'
import type { Plans } from '../services/accounts/effective-plan.ts'
import { EvidenceWriter } from '../services/evidence.ts'
import { openPluginRecords } from '../services/plugin-records.ts'
import { HeadTracker } from '../services/chain-heads/index.ts'
import type { HeadsSource, TrackOptions } from '../services/chain-heads/index.ts'
import { openLedger } from '../services/ledger/index.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { MemoryBudget } from '../services/memory-budget.ts'
import { results } from '../services/results.ts'
import type { SharedCache, SharedCacheEntry } from '../services/shared-cache/index.ts'
import { openUpstreamClient } from '../services/upstream-client/index.ts'
import type { UpstreamClient } from '../services/upstream-client/index.ts'
import { parseEndpoint } from '../services/upstream-client/endpoint.ts'
import type { Endpoint } from '../services/upstream-client/endpoint.ts'
import { PluginProblems } from '../services/plugin-problems.ts'
import { NodeStatuses } from '../services/node-status.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import { openUsage } from '../services/usage/index.ts'
import { FakeChain } from './fake-chain.ts'
import { FakeUpstreams, scriptIssues } from './fake-upstreams.ts'
import type { FakeUpstream, UpstreamRequest } from './fake-upstreams.ts'
import { InMemoryKeys, InMemoryLedgerStore, InMemoryUsageStore, openInMemoryFilterRecords, openInMemoryRecords } from './in-memory-store.ts'
import type { TestKey } from './in-memory-store.ts'
import type { TestClock } from './test-clock.ts'
import type { TestLog } from './test-log.ts'

/** The world around a network of a test. */
export interface WorldOptions {
  /** The responses of every upstream, by method. Each reports a chain that grows with the clock, unless a method is scripted. */
  readonly upstream?: FakeUpstream
  /** The responses of single upstreams, by their names. */
  readonly upstreams?: Readonly<Record<string, FakeUpstream>>
  /** The API keys by name; one key `test` unless given. */
  readonly keys?: Readonly<Record<string, TestKey>>
  /** The plans of the accounts; one plan `core` with 1,000,000 credits a day unless given. */
  readonly plans?: Readonly<Record<string, Partial<Omit<Plan, 'name'>>>>
  readonly clock?: TestClock
}

const defaultPlanName = 'core'
const defaultKeyName = 'test'

interface FakeServicesOptions extends WorldOptions {
  readonly clock: TestClock
  readonly log: TestLog
  readonly metrics: MetricsRegistry
  /** Gets the requests that go upstream because of calls. */
  readonly requests: UpstreamRequest[]
}

interface FakeServices {
  readonly services: HostServices
  readonly keys: InMemoryKeys
  /** Of today; what a process has leased is left, too. */
  creditsLeft(account: Account): number
  stop(): Promise<void>
}

const memoryBytes = 256 * 2 ** 20
const usageRetentionMs = 86_400_000

/** The real services over a store in memory, and over upstreams without sockets. */
export const openFakeServices = async (config: NetworkConfig, options: FakeServicesOptions): Promise<FakeServices> => {
  const { clock, log, metrics } = options
  const plans = plansOf(options)
  const keys = new InMemoryKeys(options.keys ?? { [defaultKeyName]: {} }, Object.keys(plans)[0] ?? defaultPlanName)
  const upstreamClientOf = openFakeUpstreamClient(config, options)
  const usage = openUsage(new InMemoryUsageStore(clock), clock, { log, retentionMs: usageRetentionMs })
  const ledgerStore = new InMemoryLedgerStore(clock)
  const ledger = openLedger(ledgerStore, clock, { log })
  const services: HostServices = {
    clock,
    log,
    metrics,
    nodeStatuses: new NodeStatuses(metrics),
    pluginProblems: new PluginProblems({ clock, metrics }),
    ledger,
    usage,
    results,
    version,
    checksContext: true,
    singletons: openSingletons(),
    headsSource: openTestHeads(),
    cacheBytes: memoryBytes,
    accounts: openAccounts(keys, plans, clock),
    upstreamClientOf,
    sharedCaches: openInMemoryCaches(),
    filterRecords: openInMemoryFilterRecords(clock),
    evidenceWriter: new EvidenceWriter({ store: openInMemoryRecords(), clock, log }),
    pluginRecords: openPluginRecords({ store: openInMemoryRecords(), clock }),
    rateLimits: new TokenBuckets(clock),
  }
  // Last: what throws before has opened nothing.
  await ledger.start()
  const creditsLeft = ({ id, plan }: Account): number => {
    const { leased, held } = ledgerStore.dayTotals(id)
    return Math.max(0, plan.dailyCredits - leased) + held
  }
  return { services, keys, creditsLeft, stop: () => ledger.stop() }
}

const plansOf = ({ plans = { [defaultPlanName]: {} } }: WorldOptions): Plans =>
  Object.fromEntries(
    Object.entries(plans).map(([name, plan]): [string, Plan] => [name, { dailyCredits: 1_000_000, forwarding: false, ...plan, name }]),
  )

/** Records what calls request; what the gateway asks about the chain itself passes the limit on concurrency. */
const openFakeUpstreamClient = (
  config: NetworkConfig,
  { upstream = {}, upstreams = {}, clock, requests }: FakeServicesOptions,
): (() => UpstreamClient) => {
  const scripts: Readonly<Record<string, FakeUpstream>> = { '*': upstream, ...upstreams }
  const [issue] = scriptIssues(upstream, ['upstream']).concat(
    Object.entries(upstreams).flatMap(([name, each]) => scriptIssues(each, ['upstreams', name])),
  )
  if (issue !== undefined) throw new TypeError(`${issue.path.join('.')}: ${issue.message}`)
  const nameByUrl = new Map<string, string>()
  const urlOf = ({ origin, path }: Endpoint) => origin + path
  const httpClient = new FakeUpstreams({
    upstreams: scripts,
    clock,
    chain: new FakeChain({ ...config, clock }),
    nameOf: endpoint => nameByUrl.get(urlOf(endpoint)) ?? '',
  })
  const client = openUpstreamClient(clock, new MemoryBudget(memoryBytes).shareOf('test'), { httpClient })
  return () => ({
    request(target, request, requestOptions) {
      nameByUrl.set(urlOf(parseEndpoint(target.url)), target.name)
      const { method, params } = request
      if (requestOptions.bypassConcurrencyLimit !== true) requests.push({ upstream: target.name, method, params })
      return client.request(target, request, requestOptions)
    },
    disconnects: target => client.disconnects(target),
  })
}

/** Heads by polling alone: a subscription would open a socket. */
class PolledHeads extends HeadTracker {
  override track(targets: readonly Target[], options?: TrackOptions): () => void {
    return super.track(
      targets.map(({ ws, ...target }) => target),
      options,
    )
  }
}

const openTestHeads = (): HeadsSource => ({
  open: (_network, options) => new PolledHeads(options),
  ready: async () => undefined,
  refresh: async () => undefined,
})

/** Caches in memory; entries never expire. */
const openInMemoryCaches = (): HostServices['sharedCaches'] => {
  const entries = new Map<string, SharedCacheEntry>()
  const cacheOf = (redis: Secret): SharedCache => ({
    async get(name, maxBytes, accept) {
      const entry = entries.get(`${redis.reveal()} ${name}`)
      return entry !== undefined && entry.result.byteLength <= maxBytes && (await accept(entry)) ? entry : undefined
    },
    set: (name, entry) => void entries.set(`${redis.reveal()} ${name}`, entry),
  })
  return { open: cacheOf }
}
