import type { MetricDefinition } from './metrics.ts'

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
  httpResponses: {
    name: 'tollgate_http_responses_total',
    type: 'counter',
    labels: ['status'],
    help: 'HTTP responses, refused WebSocket upgrades included. CORS preflights are not counted. Status 499: the caller left before the response.',
  },
  socketsRefused: {
    name: 'tollgate_sockets_refused_total',
    type: 'counter',
    labels: ['peer'],
    help: 'Sockets that the limits of the gateway or of its machine did not allow. The peer is "caller" or "upstream".',
  },
  upstreamRequestDuration: {
    name: 'tollgate_upstream_request_duration_seconds',
    type: 'histogram',
    labels: ['network', 'upstream'],
    help: 'Time of each attempt to have a call answered by an upstream, whatever its result. The count is the number of attempts: the share of an upstream is its part of all.',
  },
  upstreamFailures: {
    name: 'tollgate_upstream_failures_total',
    type: 'counter',
    labels: ['network', 'upstream'],
    help: 'Calls that an upstream failed.',
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
  upstreamLag: {
    name: 'tollgate_upstream_lag_blocks',
    type: 'gauge',
    labels: ['network', 'upstream'],
    help: 'Blocks between the head of the network and the newest block of an upstream.',
  },
  upstreamRateLimited: {
    name: 'tollgate_upstream_rate_limited',
    type: 'gauge',
    labels: ['network', 'upstream'],
    help: '1 while an upstream gets no calls from a worker because it has limited their rate.',
  },
  upstreamBreakerOpen: {
    name: 'tollgate_upstream_breaker_open',
    type: 'gauge',
    labels: ['network', 'upstream', 'class'],
    help: '1 while the circuit breaker of an upstream and a class of methods is open in any worker.',
  },
  upstreamExcluded: {
    name: 'tollgate_upstream_excluded',
    type: 'gauge',
    labels: ['network', 'upstream', 'reason'],
    help: '1 while an upstream is excluded. The reason is "chain" (another chain id), "lag" (too far behind) or "ahead" (implausibly high head).',
  },
  configReloadSuccessful: {
    name: 'tollgate_config_last_reload_successful',
    type: 'gauge',
    labels: [],
    help: '1 when the last reload of the configuration was applied, 0 when it was refused and the configuration from before serves on.',
  },
  configReloadTimestamp: {
    name: 'tollgate_config_last_reload_success_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the configuration was last loaded, in seconds since 1970.',
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
    help: 'How often the reported height went back, because no upstream has the block any more: callers may be answered from older blocks than before.',
  },
  subscriptions: {
    name: 'tollgate_subscriptions',
    type: 'gauge',
    labels: ['network', 'kind'],
    help: 'Open subscriptions of WebSockets by kind, such as "newHeads".',
    aggregation: 'sum',
  },
  subscriptionEvents: {
    name: 'tollgate_subscription_events_total',
    type: 'counter',
    labels: ['network', 'kind'],
    help: 'Events that subscriptions were sent.',
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
} as const satisfies Readonly<Record<string, MetricDefinition>>
