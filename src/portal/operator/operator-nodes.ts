import type { NetworkStatus } from '../../server/network-status.ts'
import { metricDefinitions as metrics } from '../../services/metric-definitions.ts'
import { schemaRef } from '../openapi.ts'
import { defineOperatorRoute } from './operator-route.ts'
import type { SeriesOwner, TrafficInterval } from './recent-traffic.ts'

/** What networks and their nodes have done lately. */
export interface NodeTrafficReport {
  /** How long the interval of the counts and durations is. */
  readonly seconds: number
  readonly networks: readonly ReturnType<typeof describeNetwork>[]
}

export const operatorNodeRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/nodes/traffic',
    summary: 'Calls, shares, failures and latency of each network and its nodes in the last minute.',
    response: schemaRef('NodeTraffic'),
    async handle(_request, { networks, metrics: readMetrics, recentTraffic }): Promise<NodeTrafficReport> {
      const statuses = await networks()
      const traffic = recentTraffic.read(await readMetrics())
      return { seconds: traffic.seconds, networks: statuses.map(network => describeNetwork(network, traffic)) }
    },
  }),
]

const describeNetwork = ({ name, upstreams }: NetworkStatus, traffic: TrafficInterval) => {
  const owner = { network: name }
  const { count: calls, ...durations } = traffic.durationsOf(metrics.callDuration, owner)
  const described = upstreams.map(upstream => ({
    name: upstream.name,
    ...describeTraffic({ ...owner, upstream: upstream.name }, traffic),
  }))
  const requests = described.reduce((sum, upstream) => sum + upstream.requests, 0)
  return {
    ...{ name, calls, ...durations },
    credits: traffic.increaseOf(metrics.credits, owner),
    inFlight: traffic.valueOf(metrics.callsInFlight, owner),
    upstreams: described.map(upstream => ({ ...upstream, share: requests === 0 ? null : upstream.requests / requests })),
  }
}

const describeTraffic = (owner: SeriesOwner, traffic: TrafficInterval) => {
  const { count: requests, ...durations } = traffic.durationsOf(metrics.upstreamRequestDuration, owner)
  return {
    requests,
    ...durations,
    failures: traffic.increaseOf(metrics.upstreamFailures, owner),
  }
}
