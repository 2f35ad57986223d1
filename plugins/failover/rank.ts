import type { UpstreamNode } from './upstream-node.ts'

/** When a call tries a node, in one number: the lower the sooner. Each part counts only between nodes that are equal in those before it. */
export const rank = (...parts: readonly number[]): number => parts.reduce((sum, part) => sum * maxRankPart + part, 0)

/** Above each part: a network has fewer nodes. */
const maxRankPart = 4096

export const sortByRank = (nodes: readonly UpstreamNode[], rankOf: (node: UpstreamNode) => number): readonly UpstreamNode[] =>
  nodes.length < 2
    ? nodes
    : nodes
        .map(node => ({ node, rank: rankOf(node) }))
        .sort((one, other) => one.rank - other.rank)
        .map(({ node }) => node)

/** Whose turn it is to get a call first: as nodes are listed; with weights, usable nodes take turns by the smooth weighted round robin of nginx. */
export class Turns {
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
