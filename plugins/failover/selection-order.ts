import type { UpstreamNode } from './upstream-node.ts'

/** The order in which a call tries nodes. */
export type SelectionOrder = (isUsable: (node: UpstreamNode) => boolean) => readonly UpstreamNode[]

/** As listed; or, where weights are given, each usable node comes first as often as its weight says. */
export const createSelectionOrder = (nodes: readonly UpstreamNode[], weights: readonly (number | undefined)[]): SelectionOrder => {
  if (weights.every(weight => weight === undefined)) return () => nodes
  const weighted = nodes.map((node, i) => ({ node, weight: weights[i] ?? 1, currentWeight: 0 }))
  const byWeight = weighted.toSorted((a, b) => b.weight - a.weight)
  return isUsable => {
    // The smooth weighted round robin of nginx: no dice, and no bursts on one node.
    const usable = weighted.filter(({ node, weight }) => weight > 0 && isUsable(node))
    for (const share of usable) share.currentWeight += share.weight
    const first = usable.toSorted((a, b) => b.currentWeight - a.currentWeight)[0]
    if (first === undefined) return byWeight.map(({ node }) => node)
    first.currentWeight -= usable.reduce((sum, { weight }) => sum + weight, 0)
    return [first.node, ...byWeight.flatMap(share => (share === first ? [] : [share.node]))]
  }
}
