import { metricDefinitions } from '../metric-definitions.ts'
import type { Metrics } from '../metrics.ts'
import { isSameHead } from './current-chain-state.ts'
import type { HeadPlausibility } from './head-plausibility.ts'
import type { ChainState, Head } from './heads-types.ts'
import type { BlockHeader } from './upstream-requests.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

/** A block, and the upstream that has returned it. */
interface ReturnedBlock {
  readonly block: BlockHeader
  readonly upstream: UpstreamTracker
}

/** Selects the network's head: the highest plausible head, as of the last evaluation. */
export class HeadSelection {
  readonly #plausibility: HeadPlausibility
  readonly #isDrained: (upstream: string) => boolean
  #upstreams: readonly UpstreamTracker[] = []
  #implausible: ReadonlySet<string> = new Set()
  #head: Head | undefined

  constructor(plausibility: HeadPlausibility, isDrained: (upstream: string) => boolean = () => false) {
    this.#plausibility = plausibility
    this.#isDrained = isDrained
  }

  /** The head of the best upstream; undefined while no plausible upstream has one. */
  get head(): Head | undefined {
    return this.#head
  }

  /** The names of the upstreams whose heads are implausible. */
  get implausible(): ReadonlySet<string> {
    return this.#implausible
  }

  /** The upstreams whose heads are plausible, and those without a head. Those that are drained are asked nothing, so that their heads do not count. */
  get plausible(): readonly UpstreamTracker[] {
    return this.#upstreams.filter(upstream => !this.isImplausible(upstream) && !this.#isDrained(upstream.name))
  }

  /** A plausible upstream with the highest head: if several have it, one that has returned its block, on the selected head where there is one. */
  get best(): UpstreamTracker | undefined {
    const plausible = this.plausible
    const highest = plausible.reduce((max, { height = -1 }) => Math.max(max, height), -1)
    const highestUpstreams = plausible.filter(({ height }) => height !== undefined && height === highest)
    const withBlock = highestUpstreams.filter(({ head }) => head?.hash !== undefined)
    return withBlock.find(({ head }) => isSameHead(head, this.#head)) ?? withBlock[0] ?? highestUpstreams[0]
  }

  /** The highest block that a plausible upstream has returned: the head may be a height alone. If several are as high, that of the best upstream. */
  get newestBlock(): ReturnedBlock | undefined {
    return this.bestFirst.reduce<ReturnedBlock | undefined>((newest, upstream) => {
      const block = upstream.latestBlock
      return block !== undefined && block.number > (newest?.block.number ?? -1) ? { block, upstream } : newest
    }, undefined)
  }

  /** The upstreams on the chain of the network whose heads are plausible, the best before the others. */
  get bestFirst(): readonly UpstreamTracker[] {
    const { best } = this
    const verified = this.plausible.filter(({ chain }) => chain.isExpectedChain)
    return best === undefined ? verified : [best, ...verified.filter(upstream => upstream !== best)]
  }

  isImplausible({ name }: UpstreamTracker): boolean {
    return this.#implausible.has(name)
  }

  /** Updates the selection. Returns the upstreams whose heads have become implausible. */
  evaluate(upstreams: readonly UpstreamTracker[]): readonly UpstreamTracker[] {
    const previous = this.#implausible
    this.#upstreams = upstreams
    this.#implausible = this.#plausibility.findImplausible(upstreams)
    this.#head = this.best?.head
    if (this.#head !== undefined) this.#plausibility.recordAccepted(this.#head, this.plausible)
    return upstreams.filter(upstream => this.isImplausible(upstream) && !previous.has(upstream.name))
  }
}

/** The heights of a network, for metrics: no series of what is not known. */
export const recordHeights = (
  metrics: Metrics<'network'>,
  { head, finalized, reportedHeight }: Pick<ChainState, 'head' | 'finalized' | 'reportedHeight'>,
): void => {
  if (head !== undefined) metrics.gauge(metricDefinitions.head, {}).set(head.number)
  if (finalized !== undefined) metrics.gauge(metricDefinitions.finalized, {}).set(finalized.number)
  if (reportedHeight > 0) metrics.gauge(metricDefinitions.reportedHeight, {}).set(reportedHeight)
}
