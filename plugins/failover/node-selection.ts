import type { Clock, Counter, Heads, Method } from '../../src/plugin/plugin.ts'
import type { HedgeBudget } from './hedging.ts'
import type { RequiredBlock } from './node-order.ts'
import type { RetryBudget } from './retries.ts'
import type { UpstreamNode } from './upstream-node.ts'

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
  /** Whether it is noted when the call is late. */
  readonly isHedgeable: boolean
  /** Nodes that may get a hedge of the call; none when it is not hedged. */
  readonly hedgeNodes: ReadonlySet<UpstreamNode>
  readonly hedgeBudget: HedgeBudget
}
