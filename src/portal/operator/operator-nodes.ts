import type { NetworkStatus, UpstreamStatus } from '../../server/network-status.ts'
import { metricDefinitions as metrics } from '../../services/metric-definitions.ts'
import { schemaRef } from '../openapi.ts'
import { defineOperatorRoute } from './operator-route.ts'
import type { SeriesOwner, TrafficInterval } from './recent-traffic.ts'

/** What calls meet. */
export interface NodesReport {
  /** How long the interval of the counts and durations is. */
  readonly seconds: number
  readonly networks: readonly ReturnType<typeof describeNetwork>[]
}

export const operatorNodeRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/nodes',
    summary: 'What calls meet: each network with its head, and its upstreams with state, lag, share and latency.',
    response: schemaRef('Nodes'),
    async handle(_request, { networks, metrics: readMetrics, recentTraffic }): Promise<NodesReport> {
      const statuses = await networks()
      const traffic = recentTraffic.read(await readMetrics())
      return { seconds: traffic.seconds, networks: statuses.map(network => describeNetwork(network, traffic)) }
    },
  }),
]

const describeNetwork = (network: NetworkStatus, traffic: TrafficInterval) => {
  const { name, head = null, finalized = null, upstreams } = network
  const owner = { network: name }
  const { count: calls, ...durations } = traffic.durationsOf(metrics.callDuration, owner)
  const described = upstreams.map(upstream => ({
    ...describeState(upstream),
    lagBlocks: head === null || upstream.head === undefined ? null : Math.max(0, head - upstream.head),
    ...describeTraffic({ ...owner, upstream: upstream.name }, traffic),
  }))
  const requests = described.reduce((sum, upstream) => sum + upstream.requests, 0)
  return {
    ...{ name, head, finalized, calls, ...durations },
    credits: traffic.increaseOf(metrics.credits, owner),
    inFlight: traffic.valueOf(metrics.callsInFlight, owner),
    upstreams: described.map(upstream => ({ ...upstream, share: requests === 0 ? null : upstream.requests / requests })),
  }
}

const describeState = ({ reasons = [], ...upstream }: UpstreamStatus) => ({
  ...{ name: upstream.name, usable: upstream.usable, reasons },
  because: upstream.because ?? null,
  head: upstream.head ?? null,
  subscribed: upstream.subscribed ?? false,
})

const describeTraffic = (owner: SeriesOwner, traffic: TrafficInterval) => {
  const { count: requests, ...durations } = traffic.durationsOf(metrics.upstreamRequestDuration, owner)
  return {
    requests,
    ...durations,
    failures: traffic.increaseOf(metrics.upstreamFailures, owner),
    inFlight: traffic.valueOf(metrics.upstreamRequestsInFlight, owner),
  }
}
