import type { Node } from './node.ts'

/** The order in which a call tries nodes. */
export type Order = (isUsable: (node: Node) => boolean) => readonly Node[]

/** As listed; or, where weights are given, each usable node comes first as often as its weight says. */
export const openOrder = (nodes: readonly Node[], weights: readonly (number | undefined)[]): Order => {
  if (weights.every(weight => weight === undefined)) return () => nodes
  const shares = nodes.map((node, i) => ({ node, weight: weights[i] ?? 1, credit: 0 }))
  const heavier = shares.toSorted((a, b) => b.weight - a.weight)
  return isUsable => {
    // The smooth weighted round robin of nginx: no dice, and no bursts on one node.
    const usable = shares.filter(({ node, weight }) => weight > 0 && isUsable(node))
    for (const share of usable) share.credit += share.weight
    const first = usable.toSorted((a, b) => b.credit - a.credit)[0]
    if (first === undefined) return heavier.map(({ node }) => node)
    first.credit -= usable.reduce((sum, { weight }) => sum + weight, 0)
    return [first.node, ...heavier.flatMap(share => (share === first ? [] : [share.node]))]
  }
}
