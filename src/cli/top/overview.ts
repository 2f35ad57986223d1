import { metricDefinitions as metrics } from '../../services/metric-definitions.ts'
import type { Labels, MetricFamily } from '../../services/metrics.ts'
import { formatByClass } from '../../services/node-reasons.ts'
import { countTraffic, trafficBetween } from '../../services/traffic/counters.ts'
import type { NetworkCounters } from '../../services/traffic/counters.ts'
import { callFigures, nodeFigures } from '../../services/traffic/figures.ts'
import { Gauges } from '../../services/traffic/gauges.ts'

/** What `tollgate top` shows; rates and quantiles are of the interval, undefined where nothing has happened in it. */
export interface Overview {
  readonly gateway: GatewayOverview
  readonly networks: readonly NetworkOverview[]
}

export interface GatewayOverview {
  readonly connections: number | undefined
  readonly websockets: number | undefined
  readonly inFlightBytes: number | undefined
  readonly inFlightMaxBytes: number | undefined
  /** CPU seconds per second. */
  readonly cpu: number
  readonly residentBytes: number | undefined
  readonly eventLoopLagMs: number | undefined
  readonly storeErrorsPerSecond: number
}

export interface NetworkOverview {
  readonly network: string
  readonly callsPerSecond: number
  readonly p50Ms: number | undefined
  readonly p95Ms: number | undefined
  readonly p99Ms: number | undefined
  /** Shares from 0 to 1. */
  readonly cacheHits: number | undefined
  readonly failedCalls: number | undefined
  readonly creditsPerSecond: number
  readonly inFlight: number | undefined
  readonly head: number | undefined
  readonly nodes: readonly NodeOverview[]
}

export interface NodeOverview {
  readonly upstream: string
  readonly requestsPerSecond: number
  readonly p50Ms: number | undefined
  readonly p95Ms: number | undefined
  readonly p99Ms: number | undefined
  readonly inFlight: number | undefined
  readonly head: number | undefined
  readonly lagBlocks: number | undefined
  readonly failuresPerSecond: number
  /** Why the node gets no calls, or not all; empty for a healthy one. */
  readonly problems: readonly string[]
}

/** What `/metrics` returned at one moment. */
export interface Scrape {
  /** On a monotonic clock. */
  readonly atMs: number
  readonly families: readonly MetricFamily[]
}

export const overviewOf = (before: Scrape, now: Scrape): Overview => {
  const traffic = trafficBetween(toReading(before), toReading(now))
  const seconds = (now.atMs - before.atMs) / 1_000
  const perSecond = (increase: number): number => (seconds > 0 ? increase / seconds : 0)
  const gauges = new Gauges(now.families)
  const lagSeconds = gauges.valueOf(metrics.eventLoopDelayP99)
  return {
    gateway: {
      connections: gauges.valueOf(metrics.connections),
      websockets: gauges.valueOf(metrics.websockets),
      inFlightBytes: gauges.valueOf(metrics.inFlightBytes),
      inFlightMaxBytes: gauges.valueOf(metrics.inFlightMaxBytes),
      cpu: perSecond(traffic.cpuSeconds),
      residentBytes: gauges.valueOf(metrics.processMemory),
      eventLoopLagMs: lagSeconds === undefined ? undefined : 1_000 * lagSeconds,
      storeErrorsPerSecond: perSecond(traffic.storeErrors),
    },
    networks: gauges
      .labelValues(metrics.callsInFlight, 'network')
      .map(network => networkOf(network, traffic.networks[network] ?? noCounters, gauges, perSecond)),
  }
}

/** `/metrics` has all processes together. */
const toReading = ({ atMs, families }: Scrape) => ({ atMs, processes: new Map([['', countTraffic(families)]]) })

const noCounters: NetworkCounters = { calls: {}, durations: [], credits: 0, lookups: {}, nodes: {} }

type PerSecond = (increase: number) => number

const networkOf = (network: string, counters: NetworkCounters, gauges: Gauges, perSecond: PerSecond): NetworkOverview => {
  const { calls, failedCalls, credits, cacheHits, p50Ms, p95Ms, p99Ms } = callFigures([counters])
  const upstreams = new Set(
    [metrics.upstreamRequestsInFlight, metrics.upstreamUp].flatMap(metric => gauges.labelValues(metric, 'upstream', { network })),
  )
  return {
    network,
    callsPerSecond: perSecond(calls),
    p50Ms,
    p95Ms,
    p99Ms,
    cacheHits,
    failedCalls: calls > 0 ? failedCalls / calls : undefined,
    creditsPerSecond: perSecond(credits),
    inFlight: gauges.valueOf(metrics.callsInFlight, { network }),
    head: knownHead(gauges.valueOf(metrics.head, { network })),
    nodes: [...upstreams].sort().map(upstream => nodeOf({ network, upstream }, counters, gauges, perSecond)),
  }
}

const nodeOf = (
  node: { readonly network: string; readonly upstream: string },
  { nodes }: NetworkCounters,
  gauges: Gauges,
  perSecond: PerSecond,
): NodeOverview => {
  const { requests, failures, p50Ms, p95Ms, p99Ms } = nodeFigures(nodes[node.upstream] ?? { durations: [], failures: {} })
  const head = knownHead(gauges.valueOf(metrics.upstreamHead, node))
  const networkHead = knownHead(gauges.valueOf(metrics.head, { network: node.network }))
  // The head of a node that does not answer is an old one.
  const isUnknown = head === undefined || networkHead === undefined || gauges.valueOf(metrics.upstreamUp, node) === 0
  return {
    upstream: node.upstream,
    requestsPerSecond: perSecond(requests),
    p50Ms,
    p95Ms,
    p99Ms,
    inFlight: gauges.valueOf(metrics.upstreamRequestsInFlight, node),
    head,
    lagBlocks: isUnknown ? undefined : Math.max(0, networkHead - head),
    failuresPerSecond: perSecond(failures),
    problems: problemsOf(node, gauges),
  }
}

/** The gauges of heads are 0 until a node is polled, which the first call begins. */
const knownHead = (head: number | undefined): number | undefined => (head === 0 ? undefined : head)

const problemsOf = (node: Labels, gauges: Gauges): readonly string[] => [
  ...(gauges.valueOf(metrics.upstreamUp, node) === 0 ? ['down'] : []),
  ...gauges
    .seriesOf(metrics.upstreamReduced, node)
    .flatMap(({ labels: { class: methodClass = '', reason = '' }, values }) =>
      (values[0] ?? 0) > 0 ? [formatByClass(reason, methodClass)] : [],
    )
    .sort(),
]
