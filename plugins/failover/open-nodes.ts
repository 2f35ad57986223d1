import { metricDefinitions, revealSecrets } from '../../src/plugin/plugin.ts'
import type { ChainCheck, Services, Target } from '../../src/plugin/plugin.ts'
import type { FailoverOptions } from './failover-options.ts'
import { HedgeBudget } from './hedging.ts'
import { createSelectionOrder } from './node-selection.ts'
import { PartnerNode } from './partner-node.ts'
import { RetryBudget } from './retries.ts'
import { SlowNodes } from './slow-nodes.ts'
import { allClasses } from './node-breakers.ts'
import { UpstreamNode } from './upstream-node.ts'

/** A node that is tracked: it gets calls once it is known to be on the network's chain. */
class OwnNode extends UpstreamNode {
  readonly #chainCheck: ChainCheck

  constructor(target: Target, breaker: FailoverOptions['breaker'], services: Services) {
    super(target, breaker, services)
    this.#chainCheck = services.heads.chainCheckOf(target)
  }

  override isUsable(methodClass: string = allClasses): boolean {
    return this.#chainCheck.result === 'passed' && super.isUsable(methodClass)
  }
}

/** The nodes, and what limits how often calls are attempted. */
export const openNodes = ({ upstreams, partner, breaker, hedge }: FailoverOptions, services: Services) => {
  // Breakers outlive a reload that changes neither them nor the node; with other rules of methods they count other calls together.
  const learnedWith = { breaker, rules: services.methods.rulesId }
  const nodeOf = <N extends UpstreamNode>(node: { readonly name: string }, create: () => N): N => {
    holdSeries(node.name, services)
    return services.singleton('node', revealSecrets({ node, ...learnedWith }), create)
  }
  const all: readonly UpstreamNode[] = upstreams.map(targetOf).map(target => nodeOf(target, () => new OwnNode(target, breaker, services)))
  const activeNodes: ReadonlySet<UpstreamNode> = new Set(all.filter((_, i) => upstreams[i]?.weight !== 0))
  const retriesOf = (kind: string) => services.metrics.counter(metricDefinitions.retries, { kind })
  return {
    all,
    partnerNode: partner && nodeOf(partner, () => new PartnerNode(partner, breaker, services)),
    activeNodes,
    hedgeNodes: hedge ? activeNodes : noNodes,
    selectionOrder: createSelectionOrder(
      all,
      upstreams.map(upstream => upstream.weight),
    ),
    hedgeBudget: services.singleton('hedge budget', {}, () => new HedgeBudget(services.clock)),
    retryBudget: services.singleton('retry budget', {}, () => new RetryBudget(services.clock)),
    retries: { retry: retriesOf('retry'), hedge: retriesOf('hedge'), partner: retriesOf('partner') },
    slowNodes: new SlowNodes(activeNodes, services.clock, services.methods.isHedgedClass),
  }
}

/** The series of a node are removed when no pipeline has a node of its name. Held first, so that they are released last. */
const holdSeries = (upstream: string, { metrics, singleton }: Pick<Services, 'metrics' | 'singleton'>): void => {
  singleton(`series of ${upstream}`, null, () => ({ close: () => metrics.removeSeries({ upstream }, seriesOfNodes) }))
}

const { upstreamFailures, upstreamRequestDuration, upstreamRateLimited, upstreamRequestsInFlight } = metricDefinitions
const { upstreamBreakerOpen, upstreamReduced } = metricDefinitions
const seriesOfNodes = [
  upstreamFailures,
  upstreamRequestDuration,
  upstreamRateLimited,
  upstreamRequestsInFlight,
  upstreamBreakerOpen,
  upstreamReduced,
]

const targetOf = ({ weight: _, methods: __, archive: ___, history: ____, ...upstream }: FailoverOptions['upstreams'][number]): Target => ({
  ...(/^ws/i.test(upstream.url.reveal()) && { ws: upstream.url }),
  ...upstream,
  source: 'node',
})

const noNodes: ReadonlySet<UpstreamNode> = new Set()
