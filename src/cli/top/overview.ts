import { metricDefinitions as metrics } from '../../services/metric-definitions.ts'
import type { Labels } from '../../services/metrics.ts'
import { labelValues, valueIn } from './samples.ts'
import type { Interval } from './samples.ts'

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
  readonly p99Ms: number | undefined
  readonly inFlight: number | undefined
  readonly head: number | undefined
  readonly lagBlocks: number | undefined
  readonly failuresPerSecond: number
  /** Why the node gets no calls, or not all; empty for a healthy one. */
  readonly problems: readonly string[]
}

export const overviewOf = (interval: Interval): Overview => ({
  gateway: gatewayOf(interval),
  networks: labelValues(interval.now, metrics.callsInFlight.name, 'network').map(network => networkOf(interval, network)),
})

const gatewayOf = (interval: Interval): GatewayOverview => {
  const gauge = ({ name }: { readonly name: string }) => valueIn(interval.now, name)
  const lagSeconds = gauge(metrics.eventLoopDelayP99)
  return {
    connections: gauge(metrics.connections),
    websockets: gauge(metrics.websockets),
    inFlightBytes: gauge(metrics.inFlightBytes),
    inFlightMaxBytes: gauge(metrics.inFlightMaxBytes),
    cpu: interval.perSecond(metrics.processCpu.name),
    residentBytes: gauge(metrics.processMemory),
    eventLoopLagMs: lagSeconds === undefined ? undefined : 1_000 * lagSeconds,
    storeErrorsPerSecond: interval.perSecond(metrics.storeErrors.name),
  }
}

/** Outcomes that are the fault of nodes or of the gateway. */
const failedOutcomes = ['unavailable', 'internal', 'timeout']
const cacheHitResults = ['memory', 'redis', 'joined']

const networkOf = (interval: Interval, network: string): NetworkOverview => {
  const { now } = interval
  const sumOf = (name: string, label: string, values: readonly string[]): number =>
    values.reduce((sum, value) => sum + interval.increaseOf(name, { network, [label]: value }), 0)
  const calls = interval.increaseOf(metrics.calls.name, { network })
  const lookups = interval.increaseOf(metrics.cacheLookups.name, { network })
  const upstreams = new Set(
    [metrics.upstreamRequestsInFlight, metrics.upstreamUp].flatMap(({ name }) => labelValues(now, name, 'upstream', { network })),
  )
  return {
    network,
    callsPerSecond: interval.perSecond(metrics.calls.name, { network }),
    p50Ms: interval.quantileMs(metrics.callDuration.name, 0.5, { network }),
    p99Ms: interval.quantileMs(metrics.callDuration.name, 0.99, { network }),
    cacheHits: share(sumOf(metrics.cacheLookups.name, 'result', cacheHitResults), lookups),
    failedCalls: share(sumOf(metrics.calls.name, 'outcome', failedOutcomes), calls),
    creditsPerSecond: interval.perSecond(metrics.credits.name, { network }),
    inFlight: valueIn(now, metrics.callsInFlight.name, { network }),
    head: valueIn(now, metrics.head.name, { network }),
    nodes: [...upstreams].sort().map(upstream => nodeOf(interval, { network, upstream })),
  }
}

const share = (part: number, whole: number): number | undefined => (whole > 0 ? part / whole : undefined)

const nodeOf = (interval: Interval, node: { readonly network: string; readonly upstream: string }): NodeOverview => {
  const { now } = interval
  const duration = metrics.upstreamRequestDuration.name
  const head = valueIn(now, metrics.upstreamHead.name, node)
  const networkHead = valueIn(now, metrics.head.name, { network: node.network })
  return {
    upstream: node.upstream,
    requestsPerSecond: interval.perSecond(`${duration}_count`, node),
    p50Ms: interval.quantileMs(duration, 0.5, node),
    p99Ms: interval.quantileMs(duration, 0.99, node),
    inFlight: valueIn(now, metrics.upstreamRequestsInFlight.name, node),
    head,
    lagBlocks: head === undefined || networkHead === undefined ? undefined : Math.max(0, networkHead - head),
    failuresPerSecond: interval.perSecond(metrics.upstreamFailures.name, node),
    problems: problemsOf(interval, node),
  }
}

const reduced = metrics.upstreamReduced.name

const problemsOf = ({ now }: Interval, node: { readonly network: string; readonly upstream: string }): readonly string[] => {
  /** The values of the label of the series that are 1. */
  const active = (name: string, labels: Labels, label: string): readonly string[] =>
    labelValues(now, name, label, labels).filter(value => (valueIn(now, name, { ...labels, [label]: value }) ?? 0) > 0)
  return [
    ...(valueIn(now, metrics.upstreamUp.name, node) === 0 ? ['down'] : []),
    ...active(reduced, node, 'reason').flatMap(reason =>
      active(reduced, { ...node, reason }, 'class').map(methodClass => (methodClass === 'all' ? reason : `${reason}: ${methodClass}`)),
    ),
  ]
}
