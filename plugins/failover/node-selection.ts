import { metricDefinitions } from '../../src/plugin/internal.ts'
import type { ChainCheck, ChainProblem } from '../../src/plugin/internal.ts'
import { revealSecrets } from '../../src/plugin/plugin.ts'
import type { Clock, Heads, Method, Services, Target } from '../../src/plugin/plugin.ts'
import { capableOf } from './upstream-capabilities.ts'
import type { UpstreamCapabilities } from './upstream-capabilities.ts'
import type { FailoverOptions } from './failover-options.ts'
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
    turns: new Turns(
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
  const { all, partnerNode, turns } = nodes
  const hasAlternatives = all.length > 1 || partnerNode !== undefined
  return ({ context: { request }, variant }: FailoverCall): NodeSelection => {
    const method = methods.get(request.method)
    const methodClass = method?.class ?? 'other'
    const fitnessOf = upstreamCapabilities?.fitnessFor(request, method)
    const capable = fitnessOf === undefined ? all : capableOf(all, fitnessOf)
    const requiredBlock = requiredBlockOf(request, method)
    const block = requiredBlock?.number ?? heads.snapshot.reportedHeight
    const turnOf = turns.next(capable, methodClass)
    const candidates = sortByRank(capable, node =>
      rank(node.isDeprioritized(request) ? 1 : 0, fitnessOf?.(node.name) ?? 0, heads.rankOf(node.name, block), ...turnOf(node)),
    )
    const partner = variant === forwarding ? partnerNode : undefined
    const mayRetry = variant !== singleAttempt && method?.retryable !== false
    const isHedgeable = hasAlternatives && mayRetry && method?.idempotent === true && methods.isHedgedClass(methodClass)
    return { method, methodClass, candidates, partner, requiredBlock, mayRetry, isHedgeable, nodes, heads, clock }
  }
}

/** When a call tries a node, in one number: the lower the sooner. Each part counts only between nodes that are equal in those before it. */
const rank = (...parts: readonly number[]): number => parts.reduce((sum, part) => sum * rankBase + part, 0)

/** Above each part: a network has fewer nodes. */
const rankBase = 4096

const sortByRank = (nodes: readonly UpstreamNode[], rankOf: (node: UpstreamNode) => number): readonly UpstreamNode[] =>
  nodes.length < 2
    ? nodes
    : nodes
        .map(node => ({ node, rank: rankOf(node) }))
        .sort((one, other) => one.rank - other.rank)
        .map(({ node }) => node)

/** Whose turn it is to get a call first: as nodes are listed; with weights, usable nodes take turns by the smooth weighted round robin of nginx. */
class Turns {
  readonly #places: ReadonlyMap<UpstreamNode, { readonly place: number; readonly weight: number; current: number }>
  readonly #isWeighted: boolean

  constructor(nodes: readonly UpstreamNode[], weights: readonly (number | undefined)[]) {
    const weighted = nodes.map((node, i) => ({ node, weight: weights[i] ?? 1 }))
    this.#isWeighted = weights.some(weight => weight !== undefined)
    const ordered = this.#isWeighted ? weighted.toSorted((one, other) => other.weight - one.weight) : weighted
    this.#places = new Map(ordered.map(({ node, weight }, place) => [node, { place, weight, current: 0 }]))
  }

  /**
   * The order of the nodes for one call. A node that gets fewer calls than usual comes first only when it is its turn; suspended nodes come
   * last, before those with a weight of 0.
   */
  next(nodes: readonly UpstreamNode[], methodClass: string): (node: UpstreamNode) => readonly [share: number, place: number] {
    const judgements = new Map(nodes.map(node => [node, node.state.judge(methodClass)]))
    const active = nodes.filter(node => this.#placeOf(node).weight > 0 && judgements.get(node)?.usable === true)
    const heaviest = this.#isWeighted ? this.#nextByWeight(active) : undefined
    const placeOf = (node: UpstreamNode): number => (node === heaviest ? 0 : 1 + this.#placeOf(node).place)
    const takesTurn = (node: UpstreamNode): boolean => judgements.get(node)?.weight === 1 || node.state.takesTurn(methodClass)
    const first = sortByRank(active, placeOf).find(takesTurn)
    return node => {
      if (node === first) return [0, 0]
      const share = this.#placeOf(node).weight === 0 ? 3 : judgements.get(node)?.weight === 0 ? 2 : 1
      return [share, placeOf(node)]
    }
  }

  #nextByWeight(active: readonly UpstreamNode[]): UpstreamNode | undefined {
    const places = active.map(node => ({ node, place: this.#placeOf(node) }))
    let next: (typeof places)[number] | undefined
    let sum = 0
    for (const each of places) {
      each.place.current += each.place.weight
      sum += each.place.weight
      if (next === undefined || each.place.current > next.place.current) next = each
    }
    if (next !== undefined) next.place.current -= sum
    return next?.node
  }

  #placeOf(node: UpstreamNode) {
    return this.#places.get(node) ?? unlisted
  }
}

const unlisted = { place: 0, weight: 1, current: 0 }

/** A node that is tracked: it gets calls once it is known to be on the network's chain. */
class OwnNode extends UpstreamNode {
  readonly #chainCheck: ChainCheck

  constructor(target: Target, breaker: FailoverOptions['breaker'], services: Services) {
    super(target, breaker, services)
    this.#chainCheck = services.heads.chainCheckOf(target)
  }

  protected override get chainProblem(): ChainProblem | undefined {
    return this.#chainCheck.result === 'passed' ? undefined : 'unverified'
  }
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
