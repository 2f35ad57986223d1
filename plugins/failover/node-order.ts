import { blockSelectorOf } from '../../src/plugin/plugin.ts'
import type { Method, Request } from '../../src/plugin/plugin.ts'
import type { UpstreamNode } from './upstream-node.ts'

/** The order in which a call tries nodes. */
export type SelectionOrder = (isUsable: (node: UpstreamNode) => boolean) => readonly UpstreamNode[]

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
export const orderByShare = (
  nodes: readonly UpstreamNode[],
  activeNodes: ReadonlySet<UpstreamNode>,
  methodClass: string,
  /** Whether the call may go to the node at all: a turn of another node would be lost. */
  mayAnswer: (node: UpstreamNode) => boolean,
): readonly UpstreamNode[] => {
  if (nodes.every(node => node.traffic.isFull(methodClass))) return nodes
  const first = nodes.find(node => activeNodes.has(node) && mayAnswer(node) && node.traffic.takesTurn(methodClass))
  const rankOf = (node: UpstreamNode): number => {
    if (node === first) return 0
    if (!activeNodes.has(node)) return 3
    return node.traffic.isSuspended(methodClass) ? 2 : 1
  }
  return nodes.toSorted((one, other) => rankOf(one) - rankOf(other))
}

/**
 * The block that a node must have to be requested; undefined where each node may be. `reported`: the newest block that callers
 * have been told of. The number of the newest block itself is no such request: a lower one is corrected.
 */
export type RequiredBlock = number | 'reported' | undefined

export const requiredBlockOf = ({ params }: Request, method: Method | undefined): RequiredBlock => {
  if (method === undefined || method.result === 'blockNumber') return undefined
  if (method.cache === 'latest') return 'reported'
  const blocks = blockSelectorOf(method, params)
  if (blocks === undefined || 'hash' in blocks) return undefined
  if (isHeadTag(blocks.from) || isHeadTag(blocks.to)) return 'reported'
  const numbers = [blocks.from, blocks.to].filter(block => typeof block === 'number')
  return numbers.length === 0 ? undefined : Math.max(...numbers)
}

const isHeadTag = (block: number | string): boolean => block === 'latest' || block === 'pending'
