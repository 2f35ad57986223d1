/**
 * What the built-in plugins use beside `tollgate/plugin`. package.json does not export this file: nothing here is a promise to
 * authors of plugins, and an import of `tollgate/internal` fails.
 */
export { directStage } from './direct-stage.ts'
export type { DirectHandler, DirectNext } from './direct-stage.ts'
export { resultMemoryOf, verifications, withCredits } from './reply.ts'
export type { Charge, CreditQuota, RateQuota } from './reply.ts'
export { AddressSet, networkOf } from '../util/address-set.ts'
export { Backoff, singleFlight, sleep, thenMaybe } from '../util/async.ts'
export type { MaybePromise } from '../util/async.ts'
export { getOrCreate } from '../util/memoize.ts'
export { ShortLivedMap } from '../util/short-lived-map.ts'
export { formatCount, formatDuration, formatSize } from '../util/units.ts'
export { closestMatch, formatSuggestion } from '../util/did-you-mean.ts'
export type { ResultMemory } from '../json/result-memory.ts'
export { isFinalityTag, namedBlocksOf } from '../services/method-table/block-selector.ts'
export type { BlockNumberOrTag } from '../services/method-table/block-selector.ts'
export { CircuitBreaker } from '../services/circuit-breaker.ts'
export type { CallOutcome } from '../services/circuit-breaker.ts'
export { LatencyTracker } from '../services/upstream-client/latency-tracker.ts'
export { UpstreamActivity, activityOf } from '../services/upstream-client/upstream-activity.ts'
export { RateLimitBackoff, UpstreamRate, rateOf } from '../services/upstream-client/upstream-rate-limits.ts'
export { MemberSearch, memberIsOneOf, memberIsWithin } from '../services/member-search.ts'
export { rateLimitProperties } from '../services/rate-limit-options.ts'
export { nodeReasons } from '../services/node-reasons.ts'
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
  ChainUpdate,
  ChargeResult,
  CountedCall,
  EventsUpdate,
  ExpectedMember,
  Feed,
  FeedBlock,
  FeedListener,
  FeedSubscription,
  FeedUpdate,
  FinalityTag,
  KeyChargeResult,
  Ledger,
  LinkedBlock,
  MethodOverride,
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
} from '../services/index.ts'
