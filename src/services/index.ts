import type { Call, CallContext } from '../plugin/call.ts'
import type { Result } from '../plugin/reply.ts'
import type { Accounts } from './accounts/index.ts'
import type { UpstreamClient } from './upstream-client/index.ts'
import type { SharedCaches } from './shared-cache/index.ts'
import type { Clock } from './clock.ts'
import type { EventRules } from './event-rules.ts'
import type { EvidenceRecords } from './evidence.ts'
import type { PluginRecords } from './plugin-records.ts'
import type { ProblemReports } from './plugin-problems.ts'
import type { FilterRecords } from '../store/record-store.ts'
import type { Heads } from './chain-heads/index.ts'
import type { Ledger } from './ledger/index.ts'
import type { Log } from './log.ts'
import type { MethodDescription, MethodTable } from './method-table/index.ts'
import type { Metrics } from './metrics.ts'
import type { NodeStatusReports } from './node-status.ts'
import type { RateLimits } from './rate-limits.ts'
import type { Results } from './results.ts'
import type { Usage } from './usage/index.ts'

export type { Lookup } from './accounts/index.ts'
export type { UpstreamClient, RequestOptions } from './upstream-client/index.ts'
export type { SharedCaches, SharedCacheEntry, SharedCache } from './shared-cache/index.ts'
export type { Clock, Timer } from './clock.ts'
export type { ChainCheck, FinalityTag, Heads, BlockId, ChainSnapshot } from './chain-heads/index.ts'
export type {
  ChainUpdate,
  EventsUpdate,
  Feed,
  FeedBlock,
  LinkedBlock,
  FeedListener,
  FeedSubscription,
  FeedUpdate,
} from './chain-heads/index.ts'
export type { FilterRecords } from '../store/record-store.ts'
export type { KeyChargeResult, EventRules } from './event-rules.ts'
export type { OutageGrace, Ledger, ChargeResult } from './ledger/index.ts'
export type { Log } from './log.ts'
export type {
  BlockReport,
  CachePolicy,
  Method,
  MethodDescription,
  MethodTable,
  MethodOverride,
  ResultKind,
} from './method-table/index.ts'
export type { Counter, Gauge, Histogram, MetricDefinition, Metrics, TypedMetric } from './metrics.ts'
export type { ExpectedMember } from './member-search.ts'
export type { Results } from './results.ts'
export type { RateLimitOptions } from './rate-limit-options.ts'
export type { TokenRequest, TooFewTokens } from './rate-limits.ts'
export type { CallRecord, CountedCall } from './usage/index.ts'
export { StoreError } from '../store/store.ts'

/** A network, as its file describes it. */
interface NetworkSettings {
  readonly name: string
  readonly chainId: number
  /** Usual time between blocks, in ms. */
  readonly blockTime: number
  /** Its nodes are for development: callers take the chain back, and change it without a new block. */
  readonly devNode: boolean
}

/** The services of a plugin. Log lines have the network and the plugin as fields, metrics the network as a label. */
export interface Services {
  /** The network whose pipeline has the plugin. */
  readonly network: NetworkSettings
  /** The only way to read the time and to wait. */
  readonly clock: Clock
  /** Lines of the log, labeled with the network and the plugin. */
  readonly log: Log
  /** Prometheus metrics with the label `network` set. */
  readonly metrics: Metrics<'network'>
  /** For the plugins that come with the gateway. */
  readonly accounts: Accounts
  /** For the plugins that come with the gateway. */
  readonly ledger: Ledger
  /** For the plugins that come with the gateway. */
  readonly usage: Usage
  /** The method table of the network. */
  readonly methods: MethodTable
  /** False when a plugin of the pipeline refuses the method whatever its parameters are; known once calls arrive. */
  offers(method: string): boolean
  /**
   * The methods that no plugin of the pipeline refuses, as developers read of them: with the context of a call, those that its
   * caller may call. Known once calls arrive.
   */
  describeMethods(context?: Partial<CallContext>): readonly MethodDescription[]
  /**
   * The credits that the call costs, as the stages of the pipeline say: what is charged, and what counts for limits of credits; with its result, what is kept of
   * them. Known once calls arrive.
   */
  priceOf(call: Call<'request'>, result?: Result): number
  /** Sends requests to nodes; returns a reply, whatever the node does. */
  readonly upstreamClient: UpstreamClient
  /** The newest and the finalized block of this network. */
  readonly heads: Heads
  /** What calls meet at the nodes of this network, for operators and metrics. */
  readonly nodes: NodeStatusReports
  /** Token buckets that all networks and workers share. */
  readonly rateLimits: RateLimits
  /** Splits results and joins them without parsing. */
  readonly results: Results
  /** For the plugin that sends events: the rules of the pipeline that serves, whichever pipeline a WebSocket was opened with. */
  readonly events: EventRules
  /** Is the network in the configuration that serves? True when a pipeline stops because another has taken over, with whatever settings. */
  isServed(): boolean
  /** Wrong results of nodes, for operators. */
  readonly evidence: EvidenceRecords
  /** JSON values of this plugin in the store: they outlive a restart. */
  readonly records: PluginRecords
  /** States of this plugin that an operator should act on. */
  readonly problems: ProblemReports
  /** For the plugin `subscriptions`. */
  readonly filterRecords: FilterRecords
  /** Replies shared with other processes and machines. */
  readonly sharedCaches: SharedCaches
  /** Bytes that the caches of this network may take in this process. */
  readonly cacheBytes: number
  /**
   * The same name and settings (plain data; a Secret is its text) give this plugin the same object, also in the pipeline that takes over after a
   * reload. When no pipeline uses the object any more, its close() or stop() is called, if it has one.
   */
  singleton<T>(name: string, settings: unknown, make: () => T): T
  /**
   * What `vary` of the plugins below returns for the call, as one text. For the plugin that `shares`: a part of every key of a
   * shared reply, and the `variant` of the call that it passes on.
   */
  vary(call: Call): string
  /**
   * The W3C trace context that the call belongs to, for requests to own nodes: of the span that runs now, or as the caller has sent it where
   * no spans are recorded; undefined without either. A shared call belongs to the trace of the caller for whom it began.
   */
  traceparent(call: Call): string | undefined
  /** The span that runs now, for a plugin whose calls wait for the work of another call; undefined where it is not recorded. */
  currentSpan(): SpanReference | undefined
}

/** A span of OpenTelemetry. */
export interface SpanReference {
  /** Adds a link to this span to the span that then runs. */
  linkFromCurrent(): void
}
