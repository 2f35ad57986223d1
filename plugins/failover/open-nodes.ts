import { metricDefinitions } from '../../src/plugin/internal.ts'
import type { Services, Target } from '../../src/plugin/plugin.ts'
import type { FailoverOptions } from './failover-options.ts'
import { PartnerNode } from './partner-node.ts'
import { HedgeBudget, RetryBudget } from './retries.ts'
import { SlowNodes } from './slow-nodes.ts'
import { OwnNode } from './upstream-node.ts'
import type { UpstreamNode } from './upstream-node.ts'

/** The nodes of all calls, and what limits how often calls are attempted. */
export const openNodes = ({ upstreams, partner, breaker, hedge }: FailoverOptions, services: Services) => {
  // Breakers outlive a reload that changes neither them nor the node; with other rules of methods they count other calls together.
  const learnedWith = { breaker, rules: services.methods.rulesId }
  const nodeOf = <N extends UpstreamNode>(node: { readonly name: string }, create: () => N): N => {
    holdSeries(node.name, services)
    return services.singleton('node', { node, ...learnedWith }, create)
  }
  const all: readonly UpstreamNode[] = upstreams.map(targetOf).map(target => nodeOf(target, () => new OwnNode(target, breaker, services)))
  const activeNodes: ReadonlySet<UpstreamNode> = new Set(all.filter((_, i) => upstreams[i]?.weight !== 0))
  showTurns(upstreams, services)
  const retriesOf = (kind: string) => services.metrics.counter(metricDefinitions.retries, { kind })
  return {
    /** Own nodes. */
    all,
    partnerNode: partner && nodeOf(partner, () => new PartnerNode(partner, breaker, services)),
    /** Without those that have a weight of 0. */
    activeNodes,
    /** Those that may get hedges. */
    hedgeNodes: hedge ? activeNodes : noNodes,
    /** Of `all`, by position. */
    weights: upstreams.map(({ weight }) => weight),
    hedgeBudget: services.singleton('hedge budget', {}, () => new HedgeBudget(services.clock)),
    retryBudget: services.singleton('retry budget', {}, () => new RetryBudget(services.clock)),
    retries: { retry: retriesOf('retry'), hedge: retriesOf('hedge'), partner: retriesOf('partner') },
    slowNodes: new SlowNodes(activeNodes, services.clock, services.methods.isHedgedClass),
  }
}

export type FailoverNodes = ReturnType<typeof openNodes>

/** Nodes outlive a reload that changes their weights: turns are those of the pipeline. */
const showTurns = (upstreams: FailoverOptions['upstreams'], { nodes, singleton }: Pick<Services, 'nodes' | 'singleton'>): void => {
  const isWeighted = upstreams.some(({ weight }) => weight !== undefined)
  const turns = upstreams.map(({ name, weight = 1 }, i) => ({ upstream: name, place: i + 1, weight: isWeighted ? weight : undefined }))
  singleton('turns of nodes', { turns }, () => ({ close: nodes.addTurns(turns) }))
}

/** The series of a node are removed when no pipeline has a node of its name. Held first, so that they are released last. */
const holdSeries = (upstream: string, { metrics, singleton }: Pick<Services, 'metrics' | 'singleton'>): void => {
  singleton(`series of ${upstream}`, null, () => ({ close: metrics.holdSeries({ upstream }, seriesOfNodes) }))
}

const { upstreamFailures, upstreamRequestDuration, upstreamRequestsInFlight, upstreamReduced } = metricDefinitions
const seriesOfNodes = [upstreamFailures, upstreamRequestDuration, upstreamRequestsInFlight, upstreamReduced]

const targetOf = ({ weight: _, methods: __, archive: ___, history: ____, ...upstream }: FailoverOptions['upstreams'][number]): Target => ({
  ...(/^ws/i.test(upstream.url.reveal()) && { ws: upstream.url }),
  ...upstream,
  source: 'node',
})

const noNodes: ReadonlySet<UpstreamNode> = new Set()
