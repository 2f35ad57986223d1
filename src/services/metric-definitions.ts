import { formatAlternatives } from '../util/did-you-mean.ts'
import type { TypedMetric } from './metrics.ts'
import { nodeReasons } from './node-reasons.ts'
import { systemMetricDefinitions } from './system-metric-definitions.ts'

/** Not by Intl, which takes 4 MB when it is first used. */
const reasonNames = formatAlternatives(Object.keys(nodeReasons).map(reason => `"${reason}"`))

/** All metrics of the gateway and of the plugins that come with it, in the order of the reference page. */
export const metricDefinitions = {
  calls: {
    name: 'tollgate_calls_total',
    type: 'counter',
    labels: ['network', 'method', 'outcome'],
    help: 'JSON-RPC calls that reached a pipeline. The method is "other" when the network does not offer it. The outcome is "ok", "node" for an error of the node, or the kind of the refusal.',
  },
  callDuration: {
    name: 'tollgate_call_duration_seconds',
    type: 'histogram',
    labels: ['network'],
    help: 'Time from a JSON-RPC call that reached a pipeline to its reply.',
  },
  callsInFlight: {
    name: 'tollgate_calls_in_flight',
    type: 'gauge',
    labels: ['network'],
    help: 'JSON-RPC calls that are in a pipeline now.',
    aggregation: 'sum',
  },
  credits: {
    name: 'tollgate_credits_total',
    type: 'counter',
    labels: ['network'],
    help: 'Credits that calls have cost. Refunds of responses that could not be delivered are not subtracted.',
  },
  httpResponses: {
    name: 'tollgate_http_responses_total',
    type: 'counter',
    labels: ['status'],
    help: 'HTTP responses, refused WebSocket upgrades included, CORS preflights not. Status 499: the caller left before the response.',
  },
  retries: {
    name: 'tollgate_retries_total',
    type: 'counter',
    labels: ['network', 'kind'],
    help: 'Further requests to upstreams for a call: "retry" after a failure, "hedge" beside a slow request, or "partner" in an outage.',
  },
  upstreamRequestDuration: {
    name: 'tollgate_upstream_request_duration_seconds',
    type: 'histogram',
    labels: ['network', 'upstream'],
    help: 'Time of each attempt to have a call answered by an upstream, whatever its result.',
  },
  upstreamRequestsInFlight: {
    name: 'tollgate_upstream_requests_in_flight',
    type: 'gauge',
    labels: ['network', 'upstream'],
    help: 'Calls that an upstream has not answered yet.',
    aggregation: 'sum',
  },
  upstreamFailures: {
    name: 'tollgate_upstream_failures_total',
    type: 'counter',
    labels: ['network', 'upstream', 'error'],
    help: 'Attempts that an upstream failed, by HTTP status, network error or category of its error. Ten errors of an upstream have series of their own; the rest is `other`.',
  },
  upstreamUp: {
    name: 'tollgate_upstream_up',
    type: 'gauge',
    labels: ['network', 'upstream'],
    help: '1 while an upstream answers the requests about its chain, 0 while it does not. Polls stop 30 s after the last call.',
  },
  upstreamHead: {
    name: 'tollgate_upstream_head',
    type: 'gauge',
    labels: ['network', 'upstream'],
    help: 'The number of the newest block that an upstream has reported.',
  },
  pluginProblem: {
    name: 'tollgate_plugin_problem',
    type: 'gauge',
    labels: ['network', 'plugin', 'problem', 'severity'],
    help: '1 while a plugin reports the problem, in any worker. The severity is "critical", which callers notice, or "warning".',
  },
  upstreamReduced: {
    name: 'tollgate_upstream_reduced',
    type: 'gauge',
    labels: ['network', 'upstream', 'class', 'reason'],
    help: `1 while an upstream gets no calls of a class, or fewer than usual, in any worker; the class "all" stands for every class. The reason is ${reasonNames}.`,
  },
  head: {
    name: 'tollgate_head_block',
    type: 'gauge',
    labels: ['network'],
    help: 'The number of the newest block of the network.',
  },
  finalized: {
    name: 'tollgate_finalized_block',
    type: 'gauge',
    labels: ['network'],
    help: 'The number of the newest finalized block of the network.',
  },
  reportedHeight: {
    name: 'tollgate_reported_height',
    type: 'gauge',
    labels: ['network'],
    help: 'The greatest block number that callers have been given.',
  },
  reorgs: {
    name: 'tollgate_reorgs_total',
    type: 'counter',
    labels: ['network'],
    help: 'Reorganizations of the chain that were observed.',
  },
  reportedHeightReverts: {
    name: 'tollgate_reported_height_reverts_total',
    type: 'counter',
    labels: ['network'],
    help: 'How often the reported height went back, because no upstream has the block.',
  },
  subscriptions: {
    name: 'tollgate_subscriptions',
    type: 'gauge',
    labels: ['network', 'kind'],
    help: 'Open subscriptions by kind, such as "newHeads"; "fullPendingTransactions" have whole transactions. The kind "filter" counts filters that were created or polled in the last 5 minutes, in each worker.',
    aggregation: 'sum',
  },
  cacheLookups: {
    name: 'tollgate_cache_lookups_total',
    type: 'counter',
    labels: ['network', 'method', 'result'],
    help: 'Calls that the cache could answer, by what has answered them: "memory", "redis", "joined" for a call that waited for an identical call in flight, or "miss".',
  },
  cacheBytes: {
    name: 'tollgate_cache_bytes',
    type: 'gauge',
    labels: ['network'],
    help: 'Memory that cached answers take.',
    aggregation: 'sum',
  },
  sharedCacheUp: {
    name: 'tollgate_shared_cache_up',
    type: 'gauge',
    labels: ['redis'],
    help: '1 while every worker uses the shared cache.',
    aggregation: 'min',
  },
  sharedCacheLookups: {
    name: 'tollgate_shared_cache_lookups_total',
    type: 'counter',
    labels: ['redis', 'outcome'],
    help: 'Look-ups in the shared cache. The outcome is "hit", "miss", "late", "failed" or "skipped".',
  },
  ...systemMetricDefinitions,
} as const satisfies Readonly<Record<string, TypedMetric>>
