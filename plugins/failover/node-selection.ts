import { blockSelectorOf } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Call, Method, Services } from '../../src/plugin/plugin.ts'
import type { Clock, Heads } from '../../src/plugin/internal.ts'
import type { FailoverNodes } from './open-nodes.ts'
import { requiredBlockOf } from './required-block.ts'
import type { RequiredBlock } from './required-block.ts'
import { capableOf } from './upstream-capabilities.ts'
import type { UpstreamCapabilities } from './upstream-capabilities.ts'
import type { UpstreamNode } from './upstream-node.ts'

/** What of its caller a call goes by. */
interface CallerRights {
  /** The call may go to the partner. */
  readonly isForwarded: boolean
  /** The call gets one attempt. */
  readonly isSingleAttempt: boolean
}

/** The variant of calls of such callers. */
export const variantOf = ({ isForwarded, isSingleAttempt }: CallerRights): string =>
  isSingleAttempt ? (isForwarded ? 'single-attempt forwarding' : 'single-attempt') : isForwarded ? 'forwarding' : ''

/** Of a call without a caller, none. */
const rightsOf = (variant = ''): CallerRights => ({
  isForwarded: variant.endsWith('forwarding'),
  isSingleAttempt: variant.startsWith('single-attempt'),
})

/** The nodes that a call may use, and how it may be repeated. */
export interface NodeSelection {
  readonly method: Method | undefined
  readonly methodClass: string
  /** Own nodes, in the order in which the call tries them. */
  readonly candidates: readonly UpstreamNode[]
  /** Undefined for calls that are not forwarded. */
  readonly partner: UpstreamNode | undefined
  /** What the call is about; undefined for a method without blocks. */
  readonly blocks: BlockSelector | undefined
  /** Undefined where each node may be requested. */
  readonly requiredBlock: RequiredBlock | undefined
  /** False when a call gets one attempt. */
  readonly mayRetry: boolean
  /** Whether it is noted when the call is late: it could go elsewhere. */
  readonly isHedgeable: boolean
  /** Whether another node is asked where a node is silent for long: a call that callers can make as heavy as they like is not late before. */
  readonly isHedgedWhenSilent: boolean
  /** What all calls share. */
  readonly nodes: FailoverNodes
  readonly heads: Heads
  readonly clock: Clock
}

/** Which nodes a call may go to, in order, and how it may be repeated. */
export const createNodeSelector = (
  nodes: FailoverNodes,
  upstreamCapabilities: UpstreamCapabilities | undefined,
  { heads, clock, methods }: Services,
) => {
  const { all, partnerNode, weights } = nodes
  const turns = new Turns(all, weights)
  const hasAlternatives = all.length > 1 || partnerNode !== undefined
  return ({ context: { request }, variant }: Call<'request'>): NodeSelection => {
    const method = methods.get(request.method)
    const methodClass = method?.class ?? 'other'
    const blocks = blockSelectorOf(method, request.params)
    const fitnessOf = upstreamCapabilities?.fitnessFor(request.method, blocks)
    const capable = fitnessOf === undefined ? all : capableOf(all, fitnessOf)
    const requiredBlock = requiredBlockOf(blocks, method)
    const block = requiredBlock?.number ?? heads.snapshot.reportedHeight
    const turnOf = turns.next(capable, methodClass)
    const candidates = sortByRank(capable, node =>
      rank(node.isDeprioritized(request) ? 1 : 0, fitnessOf?.(node.name) ?? 0, heads.rankOf(node.name, block), ...turnOf(node)),
    )
    const { isForwarded, isSingleAttempt } = rightsOf(variant)
    const partner = isForwarded ? partnerNode : undefined
    const mayRetry = !isSingleAttempt && method?.retryable !== false
    const mayHedge = hasAlternatives && mayRetry && method?.idempotent === true
    const isHedgeable = mayHedge && methods.isHedgedClass(methodClass)
    const isHedgedWhenSilent = mayHedge && !isHedgeable && methods.heavyClasses.has(methodClass)
    return {
      method,
      methodClass,
      candidates,
      partner,
      blocks,
      requiredBlock,
      mayRetry,
      isHedgeable,
      isHedgedWhenSilent,
      nodes,
      heads,
      clock,
    }
  }
}

/** When a call tries a node, in one number: the lower the sooner. Each part counts only between nodes that are equal in those before it. */
const rank = (...parts: readonly number[]): number => parts.reduce((sum, part) => sum * maxRankPart + part, 0)

/** Above each part: a network has fewer nodes. */
const maxRankPart = 4096

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
    if (nodes.length < 2) return onlyNode
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

const onlyNode = () => [0, 0] as const

const unlisted = { place: 0, weight: 1, current: 0 }
