import { getOrCreate } from '../../src/plugin/internal.ts'
import type { Timer } from '../../src/plugin/plugin.ts'
import type { Clock } from '../../src/plugin/internal.ts'
import type { UpstreamNode } from './upstream-node.ts'

const comparisonIntervalMs = 5000
/** A node is slow, or no longer slow, after so many comparisons in a row: 30 s. */
const minAgreeingCount = 6

/** The 95th percentile of a slow node is so many times that of the fastest node, and so much longer. */
const slowFactor = 4
const minSlowDifferenceMs = 100
/** Below this factor a node is no longer slow. */
const normalFactor = 2

const minSlowShare = 0.1

/** What the comparisons of a node and a class have said. */
interface Comparison {
  isSlow: boolean
  /** How many in a row contradicted `isSlow`. */
  contradictions: number
  /** Calls at the last comparison: a node without new calls keeps its state. */
  callCount: number
}

/** Finds nodes that are far slower than another one for long. Such a node gets fewer calls, so much fewer as it is slower. */
export class SlowNodes {
  readonly #nodes: readonly UpstreamNode[]
  readonly #clock: Clock
  readonly #isCompared: (methodClass: string) => boolean
  readonly #comparisons = new Map<string, Comparison>()
  #timer: Timer | undefined

  /** `isCompared`: the classes whose calls take as long on each node. */
  constructor(nodes: Iterable<UpstreamNode>, clock: Clock, isCompared: (methodClass: string) => boolean) {
    this.#nodes = [...nodes]
    this.#clock = clock
    this.#isCompared = isCompared
  }

  start(): void {
    this.#timer = this.#clock.every(comparisonIntervalMs, () => {
      const classes = new Set(this.#nodes.flatMap(({ state }) => state.activity.latencyClasses))
      for (const methodClass of classes) if (this.#isCompared(methodClass)) this.#compare(methodClass)
    })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #compare(methodClass: string): void {
    const known = this.#nodes.filter(node => node.latencyOf(methodClass).isKnown)
    const p95Of = (node: UpstreamNode): number => node.latencyOf(methodClass).quantiles?.p95 ?? Infinity
    const fastestMs = Math.min(...known.map(p95Of))
    for (const node of known) this.#compareNode(node, methodClass, p95Of(node), fastestMs)
  }

  #compareNode(node: UpstreamNode, methodClass: string, p95Ms: number, fastestMs: number): void {
    const comparison = getOrCreate(this.#comparisons, `${methodClass} ${node.name}`, createComparison)
    const { callCount } = node.latencyOf(methodClass)
    if (callCount === comparison.callCount) return
    comparison.callCount = callCount
    const isFarSlower = p95Ms >= slowFactor * fastestMs && p95Ms - fastestMs >= minSlowDifferenceMs
    const isContradicted = comparison.isSlow ? p95Ms < normalFactor * fastestMs : isFarSlower
    comparison.contradictions = isContradicted ? comparison.contradictions + 1 : 0
    if (comparison.contradictions >= minAgreeingCount) {
      comparison.isSlow = !comparison.isSlow
      comparison.contradictions = 0
    }
    node.state.recordSlowShare(methodClass, comparison.isSlow ? Math.max(minSlowShare, fastestMs / p95Ms) : 1)
  }
}

const createComparison = (): Comparison => ({ isSlow: false, contradictions: 0, callCount: 0 })
