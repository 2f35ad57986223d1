import type { Clock, Counter, Heads, Method, Services } from '../../src/plugin/plugin.ts'
import type { CapableUpstreams } from './capable-upstreams.ts'
import type { HedgeBudget } from './hedging.ts'
import { orderByShare, requiredBlockOf } from './node-order.ts'
import type { RequiredBlock } from './node-order.ts'
import type { FailoverNodes } from './open-nodes.ts'
import type { RetryBudget } from './retries.ts'
import type { FailoverCall, UpstreamNode } from './upstream-node.ts'

/** The variant of calls that get one attempt. */
export const singleAttempt = 'single-attempt'

/** The nodes that a call may use, and its limits. */
export interface NodeSelection {
  readonly methodClass: string
  readonly method: Method | undefined
  /** Own nodes, in the order in which the call tries them. */
  readonly candidates: readonly UpstreamNode[]
  readonly requiredBlock: RequiredBlock
  readonly heads: Heads
  readonly retryBudget: RetryBudget
  readonly retries: Readonly<Record<'retry' | 'hedge' | 'partner', Counter>>
  readonly clock: Clock
  /** False when a call gets one attempt. */
  readonly mayRetry: boolean
  /** Whether it is noted when the call is late: it could go elsewhere. */
  readonly isHedgeable: boolean
  /** Nodes that may get a hedge of the call; none when it is not hedged. */
  readonly hedgeNodes: ReadonlySet<UpstreamNode>
  readonly hedgeBudget: HedgeBudget
}

/** Which nodes a call may go to, in order, and how it may be repeated. */
export const createNodeSelector = (
  nodes: FailoverNodes,
  capableUpstreams: CapableUpstreams | undefined,
  { heads, clock, methods }: Services,
) => {
  const { all, activeNodes, hedgeNodes, partnerNode, selectionOrder, hedgeBudget, retryBudget, retries } = nodes
  const hasAlternatives = all.length > 1 || partnerNode !== undefined
  return ({ context: { request }, variant }: FailoverCall): NodeSelection => {
    const method = methods.get(request.method)
    const methodClass = method?.class ?? 'other'
    const capableNodes = capableUpstreams?.select(all, request, method) ?? all
    const requiredBlock = requiredBlockOf(request, method)
    const mayAnswer = (node: UpstreamNode) => node.isUsable(methodClass) && capableNodes.includes(node)
    const ordered = heads.orderUpstreams(
      orderByShare(selectionOrder(mayAnswer), activeNodes, methodClass, mayAnswer),
      typeof requiredBlock === 'number' ? requiredBlock : heads.snapshot.reportedHeight,
    )
    const candidates = capableUpstreams?.select(ordered, request, method) ?? ordered
    const mayRetry = variant !== singleAttempt && method?.retryable !== false
    const isHedgeable = hasAlternatives && mayRetry && method?.idempotent === true && methods.isHedgedClass(methodClass)
    return {
      methodClass,
      method,
      candidates,
      requiredBlock,
      heads,
      retryBudget,
      retries,
      clock,
      mayRetry,
      isHedgeable,
      hedgeNodes,
      hedgeBudget,
    }
  }
}
