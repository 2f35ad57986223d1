import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Followed, Place } from './followed.ts'

/** Why a node is passed over. */
type Reason = 'chain' | 'lag'

/** Which nodes calls should not go to, and why: told in the log when it changes, and as a metric. */
export class Verdicts {
  readonly #log: Log
  readonly #metrics: Metrics
  readonly #reasons = new Map<string, Reason>()

  constructor(log: Log, metrics: Metrics) {
    this.#log = log
    this.#metrics = metrics
  }

  /** The nodes in order, those too far behind last, those of another chain left out; all if none is left. */
  choose<N extends { readonly name: string }>(nodes: readonly N[]): readonly N[] {
    if (this.#reasons.size === 0) return nodes
    const of = (reason: Reason | undefined) => nodes.filter(({ name }) => this.#reasons.get(name) === reason)
    const chosen = [...of(undefined), ...of('lag')]
    return chosen.length > 0 ? chosen : nodes
  }

  /** Judges each node against the newest head, of which it may be `maxLag` blocks short. */
  judge(nodes: readonly Followed[], head: Place | undefined, maxLag: number): void {
    const names = new Set(nodes.map(node => node.target.name))
    for (const [name, reason] of this.#reasons) if (!names.has(name)) this.#clear(name, reason)
    for (const node of nodes) {
      const behind = head === undefined || node.head === undefined ? 0 : head.number - node.head.number
      this.#tell(node, node.isElsewhere ? 'chain' : behind > maxLag ? 'lag' : undefined, behind)
    }
  }

  /** What `/readyz?verbose` says of a node. */
  words(node: Followed): string | undefined {
    const reason = this.#reasons.get(node.target.name)
    return reason === 'chain' ? `it is on chain ${node.chain}` : reason === 'lag' ? 'it is too far behind' : undefined
  }

  #tell(node: Followed, reason: Reason | undefined, behind: number): void {
    const upstream = node.target.name
    const before = this.#reasons.get(upstream)
    if (reason === before) return
    if (before !== undefined) this.#clear(upstream, before)
    if (reason === undefined) return this.#log.info({ upstream }, 'upstream is used again')
    this.#reasons.set(upstream, reason)
    this.#gauge(upstream, reason).set(1)
    if (reason === 'lag') this.#log.warn({ upstream, reason, behind }, 'upstream is passed over: it is too far behind')
    else this.#log.error({ upstream, reason, chainId: node.chain }, 'upstream is passed over: it is on another chain')
  }

  #clear(upstream: string, reason: Reason): void {
    this.#reasons.delete(upstream)
    this.#gauge(upstream, reason).set(0)
  }

  #gauge(upstream: string, reason: Reason): { set(value: number): void } {
    const labels = { upstream, reason }
    return this.#metrics.gauge('tollgate_upstream_passed_over', '1 while calls pass over the node.', labels)
  }
}
