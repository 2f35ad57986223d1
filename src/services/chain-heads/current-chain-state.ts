import type { RecentBlocks } from './recent-blocks.ts'
import { isSameHead } from './chain-state.ts'
import type { UpstreamState, ExclusionReason, ChainState } from './chain-state.ts'
import type { HeadsStatus, ChainSnapshot } from './chain-snapshot.ts'

/** What this process knows of a network's chain, and what follows from it for calls. */
export class CurrentChainState {
  readonly #recentBlocks: RecentBlocks
  #state: ChainState = { finalityVersion: 0, reportedHeight: 0, upstreams: [] }
  #headVersion = 0
  #exclusionReasons: ReadonlyMap<string, ExclusionReason> = new Map()
  #upstreamHeights: ReadonlyMap<string, number> = new Map()
  #snapshot: ChainSnapshot

  /** The newest blocks, as they are at any time. */
  constructor(recentBlocks: RecentBlocks) {
    this.#recentBlocks = recentBlocks
    this.#snapshot = this.#createSnapshot()
  }

  get state(): ChainState {
    return this.#state
  }

  get snapshot(): ChainSnapshot {
    return this.#snapshot
  }

  update(state: ChainState): void {
    const previous = this.#state
    this.#state = state
    if (
      !isSameHead(state.head, previous.head) ||
      state.reportedHeight !== previous.reportedHeight ||
      state.finalityVersion !== previous.finalityVersion
    )
      this.#headVersion += 1
    this.#exclusionReasons = new Map(
      state.upstreams.flatMap(({ name, exclusion }) => (exclusion === undefined ? [] : [[name, exclusion.reason]])),
    )
    this.#upstreamHeights = new Map(state.upstreams.flatMap(({ name, head }) => (head === undefined ? [] : [[name, head.number]])))
    this.#snapshot = this.#createSnapshot()
  }

  /** Callers are told another height from now on. */
  setReportedHeight(reportedHeight: number): void {
    if (reportedHeight !== this.#state.reportedHeight) this.update({ ...this.#state, reportedHeight })
  }

  /** Why calls pass the node over. */
  exclusionReasonOf(name: string): ExclusionReason | undefined {
    return this.#exclusionReasons.get(name)
  }

  /** In order; those too far behind after the others, then those ahead of what can be; none of another chain. */
  orderUpstreams<N extends { readonly name: string }>(upstreams: readonly N[], block?: number): readonly N[] {
    if (this.#exclusionReasons.size === 0) return this.#orderByHeight(upstreams, block)
    const excludedFor = (reason: ExclusionReason | undefined) => upstreams.filter(({ name }) => this.#exclusionReasons.get(name) === reason)
    return [...this.#orderByHeight(excludedFor(undefined), block), ...excludedFor('lag'), ...excludedFor('ahead')]
  }

  /** Those that are not there yet come last. Of what lies above the head that is believed none can have told the truth. */
  #orderByHeight<N extends { readonly name: string }>(upstreams: readonly N[], block = Infinity): readonly N[] {
    if (block > (this.#state.head?.number ?? -1)) return upstreams
    const isBelow = ({ name }: N) => (this.#upstreamHeights.get(name) ?? Infinity) < block
    return upstreams.some(isBelow) ? [...upstreams.filter(node => !isBelow(node)), ...upstreams.filter(isBelow)] : upstreams
  }

  get status(): HeadsStatus {
    const { head, finalized, upstreams } = this.#state
    return {
      ...(head && { head: head.number }),
      ...(finalized && { finalized: finalized.number }),
      upstreams: upstreams.map(upstreamStatusOf),
    }
  }

  #createSnapshot(): ChainSnapshot {
    const [{ head, finalized: newestFinalized, finalityVersion, upstreams }, headVersion, recentBlocks] = [
      this.#state,
      this.#headVersion,
      this.#recentBlocks,
    ]
    const upstreamByName = new Map(upstreams.map(node => [node.name, node]))
    return {
      headVersion,
      finalityVersion,
      head: head?.number,
      isCurrent: (upstream = '') => head === undefined || isSameHead(upstreamByName.get(upstream)?.head, head),
      isFinal(upstream = '', block) {
        const finalized = upstreamByName.get(upstream)?.finalized
        if (finalized === undefined) return false
        return typeof block === 'number' ? block <= finalized.number : recentBlocks.isFinal(block, finalized)
      },
      finalizedBlockOf: upstream => (upstream === undefined ? newestFinalized : upstreamByName.get(upstream)?.finalized),
    }
  }
}

const upstreamStatusOf = ({ name, head, isSubscribed, exclusion }: UpstreamState): HeadsStatus['upstreams'][number] => ({
  name,
  ...(head && { head: head.number }),
  ...(isSubscribed && { subscribed: true as const }),
  usable: exclusion === undefined,
  ...(exclusion && { because: exclusion.description }),
})
