import { toHexQuantity } from '../../util/hex-quantity.ts'
import type { BlockHeader } from './block-header.ts'
import { isSameHead } from './chain-snapshot.ts'
import type { BlockId, ChainSnapshot, ChainState, ExclusionReason, HeadsStatus, UpstreamState } from './chain-snapshot.ts'
import type { RecentBlocks } from './recent-blocks.ts'

/** The newest state of a network's chain that this process has, and its consequences for calls. */
export class CurrentChainState {
  readonly #recentBlocks: RecentBlocks
  #state: ChainState = { finalityVersion: 0, reportedHeight: 0, upstreams: [] }
  #headVersion = 0
  #exclusionReasons: ReadonlyMap<string, ExclusionReason> = new Map()
  #upstreamHeights: ReadonlyMap<string, number> = new Map()
  #snapshot: ChainSnapshot

  /** The owner of `recentBlocks` keeps them up to date. */
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

  setReportedHeight(reportedHeight: number): void {
    if (reportedHeight !== this.#state.reportedHeight) this.update({ ...this.#state, reportedHeight })
  }

  exclusionReasonOf(upstream: string): ExclusionReason | undefined {
    return this.#exclusionReasons.get(upstream)
  }

  /** See Heads.orderUpstreams(). */
  orderUpstreams<N extends { readonly name: string }>(upstreams: readonly N[], block?: number): readonly N[] {
    if (this.#exclusionReasons.size === 0) return this.#orderByHeight(upstreams, block)
    const excludedFor = (reason: ExclusionReason | undefined) => upstreams.filter(({ name }) => this.#exclusionReasons.get(name) === reason)
    return [...this.#orderByHeight(excludedFor(undefined), block), ...excludedFor('lag'), ...excludedFor('ahead')]
  }

  /** Upstreams below the block come last. No upstream has a block above the head: then the order stays. */
  #orderByHeight<N extends { readonly name: string }>(upstreams: readonly N[], block = Infinity): readonly N[] {
    if (block > (this.#state.head?.number ?? -1)) return upstreams
    const isBelow = ({ name }: N) => (this.#upstreamHeights.get(name) ?? Infinity) < block
    return upstreams.some(isBelow) ? [...upstreams.filter(upstream => !isBelow(upstream)), ...upstreams.filter(isBelow)] : upstreams
  }

  /** Is the block finalized on this chain? An older block than the newest finalized one is fetched by its number. */
  async verifyFinalized({ number, hash }: BlockId, fetch: (number: string) => Promise<BlockHeader | undefined>): Promise<boolean> {
    const { finalized, finalityVersion } = this.#state
    if (finalized === undefined || number > finalized.number) return false
    if (number === finalized.number) return hash === finalized.hash
    const block = await fetch(toHexQuantity(number))
    return block?.number === number && block.hash === hash && finalityVersion === this.#state.finalityVersion
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
    const { head, finalized: newestFinalized, finalityVersion, upstreams } = this.#state
    const recentBlocks = this.#recentBlocks
    const upstreamByName = new Map(upstreams.map(upstream => [upstream.name, upstream]))
    return {
      headVersion: this.#headVersion,
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
