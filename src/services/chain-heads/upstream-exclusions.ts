import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge, Metrics } from '../metrics.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'
import { minAgreeingPolls } from './height-watermark.ts'
import type { Head, ExclusionReason, Exclusion } from './chain-state.ts'

/** What nodes are judged by. */
export interface ExclusionCriteria {
  readonly head: Head | undefined
  /** Blocks that a node may be behind it. */
  readonly maxLag: number
  /** Names of nodes whose heads are doubted. */
  readonly implausible: ReadonlySet<string>
}

/** Which nodes calls should not go to, and why: told in the log when it changes, and as a metric. */
export class UpstreamExclusions {
  readonly #log: Log
  readonly #metrics: Metrics<'network'>
  readonly #exclusions = new Map<string, Exclusion>()
  /** How often a node that is doubted had answered before. */
  readonly #headsWhenDoubted = new Map<string, number>()

  constructor(log: Log, metrics: Metrics<'network'>) {
    this.#log = log
    this.#metrics = metrics
  }

  get(name: string): Exclusion | undefined {
    return this.#exclusions.get(name)
  }

  evaluate(upstreams: readonly UpstreamTracker[], criteria: ExclusionCriteria): void {
    const names = new Set(upstreams.map(node => node.name))
    for (const [name, { reason }] of this.#exclusions) if (!names.has(name)) this.#clear(name, reason)
    for (const node of upstreams) this.#set(node, this.#exclusionOf(node, criteria))
  }

  #exclusionOf(tracker: UpstreamTracker, { head, maxLag, implausible }: ExclusionCriteria): Exclusion | undefined {
    if (tracker.isWrongChain) return { reason: 'chain', description: `it is on chain ${tracker.upstreamChainId}` }
    const ahead = head === undefined || tracker.head === undefined ? 0 : tracker.head.number - head.number
    if (this.#isPersistentlyImplausible(tracker, implausible))
      return { reason: 'ahead', description: `it is ${ahead} blocks ahead of what can be` }
    return -ahead > maxLag ? { reason: 'lag', description: `it is ${-ahead} blocks behind` } : undefined
  }

  /** Nodes do not hear of a block at the same moment: one that is first has until the next answers. */
  #isPersistentlyImplausible({ name, headsReceived }: UpstreamTracker, implausible: ReadonlySet<string>): boolean {
    if (!implausible.has(name)) {
      this.#headsWhenDoubted.delete(name)
      return false
    }
    const headsBefore = this.#headsWhenDoubted.get(name) ?? headsReceived
    this.#headsWhenDoubted.set(name, headsBefore)
    return headsReceived - headsBefore >= minAgreeingPolls - 1
  }

  #set(tracker: UpstreamTracker, exclusion: Exclusion | undefined): void {
    const upstream = tracker.name
    const previous = this.#exclusions.get(upstream)
    if (exclusion !== undefined) this.#exclusions.set(upstream, exclusion)
    if (exclusion?.reason === previous?.reason) return
    if (previous !== undefined) this.#gauge(upstream, previous.reason).set(0)
    if (exclusion === undefined) {
      this.#exclusions.delete(upstream)
      return this.#log.info({ upstream }, 'upstream is used again')
    }
    const { reason, description: because } = exclusion
    this.#gauge(upstream, reason).set(1)
    this.#log[logLevels[reason]]({ upstream, reason, because }, logMessages[reason])
  }

  #clear(upstream: string, reason: ExclusionReason): void {
    this.#exclusions.delete(upstream)
    this.#gauge(upstream, reason).set(0)
  }

  #gauge(upstream: string, reason: ExclusionReason): Gauge {
    return this.#metrics.gauge(metricDefinitions.upstreamExcluded, { upstream, reason })
  }
}

/** What waiting mends is a warning, what somebody must mend an error. */
const logLevels = { chain: 'error', lag: 'warn', ahead: 'error' } as const

const logMessages: Readonly<Record<ExclusionReason, string>> = {
  chain: 'upstream is passed over: it is on another chain',
  lag: 'upstream is passed over: it is too far behind',
  ahead: 'upstream is passed over: its head is higher than can be',
}
