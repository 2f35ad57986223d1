import { metricDefinitions } from '../../src/plugin/internal.ts'
import type { ChainCheck } from '../../src/plugin/internal.ts'
import { revealSecrets } from '../../src/plugin/plugin.ts'
import type { Clock, Heads, Method, Services, Target } from '../../src/plugin/plugin.ts'
import type { UpstreamCapabilities } from './upstream-capabilities.ts'
import type { FailoverOptions } from './failover-options.ts'
import { allClasses } from './node-breakers.ts'
import { PartnerNode } from './partner-node.ts'
import { requiredBlockOf } from './required-block.ts'
import type { RequiredBlock } from './required-block.ts'
import { HedgeBudget, RetryBudget } from './retries.ts'
import { SlowNodes } from './slow-nodes.ts'
import { UpstreamNode } from './upstream-node.ts'
import type { FailoverCall } from './upstream-node.ts'

/** The variant of calls that get one attempt. */
export const singleAttempt = 'single-attempt'
/** The variant of calls that may go to the partner. */
export const forwarding = 'forwarding'

/** The nodes that a call may use, and how it may be repeated. */
export interface NodeSelection {
  readonly method: Method | undefined
  readonly methodClass: string
  /** Own nodes, in the order in which the call tries them. */
  readonly candidates: readonly UpstreamNode[]
  /** Undefined for calls that are not forwarded. */
  readonly partner: UpstreamNode | undefined
  /** Undefined where each node may be requested. */
  readonly requiredBlock: RequiredBlock | undefined
  /** False when a call gets one attempt. */
  readonly mayRetry: boolean
  /** Whether it is noted when the call is late: it could go elsewhere. */
  readonly isHedgeable: boolean
  /** What all calls share. */
  readonly nodes: FailoverNodes
  readonly heads: Heads
  readonly clock: Clock
}

/** The nodes of all calls, and what limits how often calls are attempted. */
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
    /** Own nodes. */
    all,
    partnerNode: partner && nodeOf(partner, () => new PartnerNode(partner, breaker, services)),
    /** Without those that have a weight of 0. */
    activeNodes,
    /** Those that may get hedges. */
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

type FailoverNodes = ReturnType<typeof openNodes>

/** Which nodes a call may go to, in order, and how it may be repeated. */
export const createNodeSelector = (
  nodes: FailoverNodes,
  upstreamCapabilities: UpstreamCapabilities | undefined,
  { heads, clock, methods }: Services,
) => {
  const { all, activeNodes, partnerNode, selectionOrder } = nodes
  const hasAlternatives = all.length > 1 || partnerNode !== undefined
  return ({ context: { request }, variant }: FailoverCall): NodeSelection => {
    const method = methods.get(request.method)
    const methodClass = method?.class ?? 'other'
    const capableNodes = upstreamCapabilities?.select(all, request, method) ?? all
    const requiredBlock = requiredBlockOf(request, method)
    const mayAnswer = (node: UpstreamNode) => node.isUsable(methodClass) && capableNodes.includes(node)
    const ordered = heads.orderUpstreams(
      orderByShare(selectionOrder(mayAnswer), activeNodes, methodClass, mayAnswer),
      requiredBlock?.number ?? heads.snapshot.reportedHeight,
    )
    const candidates = upstreamCapabilities?.select(ordered, request, method) ?? ordered
    const partner = variant === forwarding ? partnerNode : undefined
    const mayRetry = variant !== singleAttempt && method?.retryable !== false
    const isHedgeable = hasAlternatives && mayRetry && method?.idempotent === true && methods.isHedgedClass(methodClass)
    return { method, methodClass, candidates, partner, requiredBlock, mayRetry, isHedgeable, nodes, heads, clock }
  }
}

/** The order in which a call tries nodes. */
type SelectionOrder = (isUsable: (node: UpstreamNode) => boolean) => readonly UpstreamNode[]

/** As listed; with weights, usable nodes take turns as the first by the smooth weighted round robin of nginx. */
export const createSelectionOrder = (nodes: readonly UpstreamNode[], weights: readonly (number | undefined)[]): SelectionOrder => {
  if (weights.every(weight => weight === undefined)) return () => nodes
  const weighted = nodes.map((node, i) => ({ node, weight: weights[i] ?? 1, currentWeight: 0 }))
  const byWeight = weighted.toSorted((a, b) => b.weight - a.weight)
  return isUsable => {
    const usable = weighted.filter(({ node, weight }) => weight > 0 && isUsable(node))
    for (const each of usable) each.currentWeight += each.weight
    const first = usable.toSorted((a, b) => b.currentWeight - a.currentWeight)[0]
    if (first === undefined) return byWeight.map(({ node }) => node)
    first.currentWeight -= usable.reduce((sum, { weight }) => sum + weight, 0)
    return [first.node, ...byWeight.flatMap(each => (each === first ? [] : [each.node]))]
  }
}

/**
 * The same order, where nodes that get fewer calls than usual come first only when it is their turn; suspended nodes come
 * last, before those with a weight of 0, which are not active.
 */
const orderByShare = (
  nodes: readonly UpstreamNode[],
  activeNodes: ReadonlySet<UpstreamNode>,
  methodClass: string,
  /** Whether the call may go to the node at all: a turn of another node would be lost. */
  mayAnswer: (node: UpstreamNode) => boolean,
): readonly UpstreamNode[] => {
  if (nodes.every(({ traffic }) => !traffic.wasReduced || traffic.isFull(methodClass))) return nodes
  const first = nodes.find(node => activeNodes.has(node) && mayAnswer(node) && node.traffic.takesTurn(methodClass))
  const rankOf = (node: UpstreamNode): number => {
    if (node === first) return 0
    if (!activeNodes.has(node)) return 3
    return node.traffic.isSuspended(methodClass) ? 2 : 1
  }
  return nodes.toSorted((one, other) => rankOf(one) - rankOf(other))
}

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

/** The series of a node are removed when no pipeline has a node of its name. Held first, so that they are released last. */
const holdSeries = (upstream: string, { metrics, singleton }: Pick<Services, 'metrics' | 'singleton'>): void => {
  singleton(`series of ${upstream}`, null, () => ({ close: metrics.holdSeries({ upstream }, seriesOfNodes) }))
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
