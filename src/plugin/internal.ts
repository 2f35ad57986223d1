/**
 * What the built-in plugins use beside `tollgate/plugin`. package.json does not export this file: nothing here is a promise to
 * authors of plugins, and an import of `tollgate/internal` fails.
 */
export { directStage } from './direct-stage.ts'
export type { DirectHandler, DirectNext } from './direct-stage.ts'
export { isCharged, refuseUnknownMethod, resultMemoryOf, verifications, withCredits, withSameText } from './reply.ts'
export type { Charge, CreditQuota, RateQuota, RpcError, Verification } from './reply.ts'
export { AddressSet, networkOf } from '../util/address-set.ts'
export { Backoff, singleFlight, sleep, thenMaybe } from '../util/async.ts'
export type { MaybePromise } from '../util/async.ts'
export { fetchText } from '../util/fetch-text.ts'
export { HedgedSources } from '../util/hedged-sources.ts'
export { getOrCreate, memoizeFrozen } from '../util/memoize.ts'
export { ShortLivedMap } from '../util/short-lived-map.ts'
export { formatCount, formatDuration, formatSize } from '../util/units.ts'
export { closestMatch, formatSuggestion } from '../util/did-you-mean.ts'
export type { ResultMemory } from '../json/result-memory.ts'
export { isFinalityTag, namedBlocksOf } from '../services/method-table/block-selector.ts'
export type { BlockNumberOrTag, BlockRange } from '../services/method-table/block-selector.ts'
export { CircuitBreaker } from '../services/circuit-breaker.ts'
export type { CallOutcome } from '../services/circuit-breaker.ts'
export { LatencyTracker } from '../services/upstream-client/latency-tracker.ts'
export { activityOf, UpstreamActivity } from '../services/upstream-client/upstream-activity.ts'
export { RateLimitBackoff, rateOf, UpstreamRate } from '../services/upstream-client/upstream-rate-limits.ts'
export { memberIsOneOf, memberIsWithin, MemberSearch } from '../services/member-search.ts'
export { rateLimitProperties } from '../services/rate-limit-options.ts'
export { allClasses, nodeReasons } from '../services/node-reasons.ts'
export type { ExclusionReason, NodeReason } from '../services/node-reasons.ts'
export type { NodeError, NodeStatus } from '../services/node-status.ts'
export { metricDefinitions } from '../services/metric-definitions.ts'
export { ChainIdCheck } from '../services/chain-heads/chain-id-check.ts'
export type {
  BlockId,
  BlockReport,
  CachePolicy,
  CallRecord,
  ChainCheck,
  ChainSnapshot,
  ChainUpdate,
  ChargeResult,
  Clock,
  CountedCall,
  EventsUpdate,
  ExpectedMember,
  Feed,
  FeedBlock,
  FeedListener,
  FeedSubscription,
  FeedUpdate,
  FinalityTag,
  Heads,
  KeyChargeResult,
  Ledger,
  LinkedBlock,
  Lookup,
  MethodDescription,
  MethodOverride,
  MethodTable,
  OutageGrace,
  RateLimitOptions,
  RequestOptions,
  ResultKind,
  Results,
  SharedCache,
  SharedCacheEntry,
  SpanReference,
  TokenRequest,
  TooFewTokens,
  TypedMetric,
} from '../services/index.ts'
export { StoreError } from '../services/index.ts'
export { ChunkedBytes } from '../json/chunked-bytes.ts'
export type { RawJson } from '../json/chunked-bytes.ts'
export type { ErrorCategory, RefusalKind } from './error-table.ts'
export { deferPlugin } from './deferred-plugin.ts'
export type { LoadablePlugin } from './deferred-plugin.ts'
export { Misconfigured } from './define-plugin.ts'
export { parseJsonHexQuantity } from '../util/json.ts'
export type { Path } from '../util/json.ts'
export type { Plan, Push } from './call.ts'
