import { blockSelectorOf } from '../../src/plugin/plugin.ts'
import type { Call, BlockSelector, Clock, Heads, Method, Services } from '../../src/plugin/plugin.ts'
import type { FailoverNodes } from './open-nodes.ts'
import { rank, sortByRank } from './rank.ts'
import { requiredBlockOf } from './required-block.ts'
import type { RequiredBlock } from './required-block.ts'
import { capableOf } from './upstream-capabilities.ts'
import type { UpstreamCapabilities } from './upstream-capabilities.ts'
import type { UpstreamNode } from './upstream-node.ts'

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
  /** What the call is about; undefined for a method without blocks. */
  readonly blocks: BlockSelector | undefined
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

/** Which nodes a call may go to, in order, and how it may be repeated. */
export const createNodeSelector = (
  nodes: FailoverNodes,
  upstreamCapabilities: UpstreamCapabilities | undefined,
  { heads, clock, methods }: Services,
) => {
  const { all, partnerNode, turns } = nodes
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
    const partner = variant === forwarding ? partnerNode : undefined
    const mayRetry = variant !== singleAttempt && method?.retryable !== false
    const isHedgeable = hasAlternatives && mayRetry && method?.idempotent === true && methods.isHedgedClass(methodClass)
    return { method, methodClass, candidates, partner, blocks, requiredBlock, mayRetry, isHedgeable, nodes, heads, clock }
  }
}
