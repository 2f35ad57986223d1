import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Followed } from './followed.ts'
import { patience } from './height.ts'
import type { Place, Reason, Verdict } from './state.ts'

/** What nodes are judged by. */
export interface Measure {
  readonly head: Place | undefined
  /** Blocks that a node may be behind it. */
  readonly maxLag: number
  /** Names of nodes whose heads are doubted. */
  readonly doubted: ReadonlySet<string>
}

/** Which nodes calls should not go to, and why: told in the log when it changes, and as a metric. */
export class Verdicts {
  readonly #log: Log
  readonly #metrics: Metrics
  readonly #verdicts = new Map<string, Verdict>()
  /** How often a node that is doubted had answered before. */
  readonly #doubted = new Map<string, number>()

  constructor(log: Log, metrics: Metrics) {
    this.#log = log
    this.#metrics = metrics
  }

  of(name: string): Verdict | undefined {
    return this.#verdicts.get(name)
  }

  judge(nodes: readonly Followed[], measure: Measure): void {
    const names = new Set(nodes.map(node => node.name))
    for (const [name, { reason }] of this.#verdicts) if (!names.has(name)) this.#clear(name, reason)
    for (const node of nodes) this.#tell(node, this.#judge(node, measure))
  }

  #judge(node: Followed, { head, maxLag, doubted }: Measure): Verdict | undefined {
    if (node.isElsewhere) return { reason: 'chain', words: `it is on chain ${node.chain}` }
    const ahead = head === undefined || node.head === undefined ? 0 : node.head.number - head.number
    if (this.#isDoubtedLong(node, doubted)) return { reason: 'ahead', words: `it is ${ahead} blocks ahead of what can be` }
    return -ahead > maxLag ? { reason: 'lag', words: `it is ${-ahead} blocks behind` } : undefined
  }

  /** Nodes do not hear of a block at the same moment: one that is first has until the next answers. */
  #isDoubtedLong({ name, answers }: Followed, doubted: ReadonlySet<string>): boolean {
    if (!doubted.has(name)) {
      this.#doubted.delete(name)
      return false
    }
    const since = this.#doubted.get(name) ?? answers
    this.#doubted.set(name, since)
    return answers - since >= patience - 1
  }

  #tell(node: Followed, verdict: Verdict | undefined): void {
    const upstream = node.name
    const before = this.#verdicts.get(upstream)
    if (verdict !== undefined) this.#verdicts.set(upstream, verdict)
    if (verdict?.reason === before?.reason) return
    if (before !== undefined) this.#gauge(upstream, before.reason).set(0)
    if (verdict === undefined) {
      this.#verdicts.delete(upstream)
      return this.#log.info({ upstream }, 'upstream is used again')
    }
    const { reason, words: because } = verdict
    this.#gauge(upstream, reason).set(1)
    this.#log[levels[reason]]({ upstream, reason, because }, messages[reason])
  }

  #clear(upstream: string, reason: Reason): void {
    this.#verdicts.delete(upstream)
    this.#gauge(upstream, reason).set(0)
  }

  #gauge(upstream: string, reason: Reason): { set(value: number): void } {
    const labels = { upstream, reason }
    return this.#metrics.gauge('tollgate_upstream_passed_over', '1 while calls pass over the node.', labels)
  }
}

/** What waiting mends is a warning, what somebody must mend an error. */
const levels = { chain: 'error', lag: 'warn', ahead: 'error' } as const

const messages: Readonly<Record<Reason, string>> = {
  chain: 'upstream is passed over: it is on another chain',
  lag: 'upstream is passed over: it is too far behind',
  ahead: 'upstream is passed over: its head is higher than can be',
}
