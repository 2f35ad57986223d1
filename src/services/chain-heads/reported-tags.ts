import type { MaybePromise } from '../../util/async.ts'
import { finalityTags } from '../method-table/block-selector.ts'
import type { FinalityTag } from '../method-table/block-selector.ts'
import { subscribeToAll } from './reported-height.ts'
import type { HeightBroadcast } from './reported-height.ts'

/** The number of the block that each tag names. */
type TagHeights = { readonly [tag in FinalityTag]?: number }

/** Plain data: the primary sends it to its workers. */
export interface TagState {
  /** What was reported to callers. */
  readonly reported: TagHeights
  /** By name: what upstreams have answered to callers. */
  readonly upstreams: Readonly<Record<string, TagHeights>>
}

/** What was reported of the blocks `safe` and `finalized`. */
export interface ReportedTags {
  /** Upstream, as Heads.reporterOf() names it, answered that the tag names this block. Resolves when every worker knows. */
  report(upstream: string, tag: FinalityTag, block: number): MaybePromise<void>
  /** The number by which the upstream must be requested in place of the tag, as it is not known to have got so far; else undefined. */
  blockFor(upstream: string, tag: FinalityTag): number | undefined
  /** The block that was reported for the tag. */
  reported(tag: FinalityTag): number | undefined
  /** The greatest block that the tag is known to name: that which was reported, or the newest finalized one of the upstreams. */
  known(tag: FinalityTag): number | undefined
}

/** The tags of a network as far as this process knows. */
export class KnownTags {
  readonly #finalizedOf: (upstream?: string) => number | undefined
  state: TagState = { reported: {}, upstreams: {} }

  /** `finalizedOf`: the finalized block that polls of the upstream returned; without an upstream, the newest of all. */
  constructor(finalizedOf: (upstream?: string) => number | undefined) {
    this.#finalizedOf = finalizedOf
  }

  reported(tag: FinalityTag): number | undefined {
    return this.state.reported[tag]
  }

  known(tag: FinalityTag): number | undefined {
    const [reported, finalized] = [this.reported(tag), this.#finalizedOf()]
    return reported === undefined || finalized === undefined ? (reported ?? finalized) : Math.max(reported, finalized)
  }

  blockFor(upstream: string, tag: FinalityTag): number | undefined {
    const reported = this.reported(tag)
    return reported !== undefined && (this.heightOf(upstream, tag) ?? -1) < reported ? reported : undefined
  }

  /** The greatest block that the upstream is known to have given this tag. */
  heightOf(upstream: string, tag: FinalityTag): number | undefined {
    const answered = this.state.upstreams[upstream]?.[tag]
    const polled = tag === 'finalized' ? this.#finalizedOf(upstream) : undefined
    return answered === undefined || polled === undefined ? (answered ?? polled) : Math.max(answered, polled)
  }
}

/** What was reported of `safe` and `finalized`, in a worker. */
export class WorkerTags extends KnownTags implements ReportedTags {
  readonly report: ReportedTags['report']

  constructor(finalizedOf: (upstream?: string) => number | undefined, report: ReportedTags['report']) {
    super(finalizedOf)
    this.report = report
  }
}

export interface TagTrackerOptions {
  /** Usual ms between blocks. */
  readonly blockTime: number
  readonly devNode?: boolean
  /** Share the blocks with gateways on other machines. */
  readonly broadcasts: { readonly [tag in FinalityTag]?: readonly HeightBroadcast[] }
  /** The upstreams whose heads are plausible. */
  upstreams(): readonly { readonly name: string }[]
  reportedHeight(): number
  finalizedOf(upstream?: string): number | undefined
  onChange(state: TagState): void
}

/** Nodes finalize in steps of an epoch, and may be two of them apart. */
const maxFinalityLagMs = 768_000
const minFinalityLagBlocks = 64

/**
 * Tracks what was reported of `safe` and `finalized`: from then on an upstream that is below is requested for that block by its
 * number.
 *
 * - A report counts when its upstream has a plausible head, the block is not above the reported height, and not more upstreams
 *   contradict it than support it. An upstream contradicts a block that is more than two epochs above its own.
 * - What was reported goes back with the reported height, and is void when finality is reverted.
 * - On a development node no report counts.
 */
export class TagTracker extends KnownTags implements ReportedTags {
  readonly #options: TagTrackerOptions
  readonly #maxLagBlocks: number

  constructor(options: TagTrackerOptions) {
    super(options.finalizedOf)
    this.#options = options
    this.#maxLagBlocks = Math.max(minFinalityLagBlocks, maxFinalityLagMs / options.blockTime)
  }

  /** Records what gateways on other machines report, until the returned function is called. */
  subscribe(): () => void {
    const unsubscribes = finalityTags.map(tag =>
      subscribeToAll(this.#options.broadcasts[tag] ?? [], height => this.#recordPeer(tag, height)),
    )
    return () => unsubscribes.forEach(unsubscribe => unsubscribe())
  }

  report(upstream: string, tag: FinalityTag, block: number): void {
    const { upstreams, reportedHeight } = this.#options
    if (block > reportedHeight() || (upstream !== '' && !upstreams().some(({ name }) => name === upstream))) return
    const others = upstreams().flatMap(({ name }) => (name === upstream ? [] : (this.heightOf(name, tag) ?? [])))
    const contradictions = others.filter(height => height < block - this.#maxLagBlocks).length
    if (contradictions > others.length - contradictions) return
    const answered = this.state.upstreams[upstream] ?? {}
    const ofUpstream = upstream !== '' && { [upstream]: { ...answered, [tag]: Math.max(block, answered[tag] ?? 0) } }
    this.#update(tag, block, { ...this.state.upstreams, ...ofUpstream })
  }

  /** What another process has tracked until now, without what its upstreams have answered: there may be other nodes under their names. */
  adopt(reported: TagHeights): void {
    this.#set({ reported, upstreams: {} })
  }

  /** The reported height has gone back: what was reported of blocks above it has too. */
  cap(height: number): void {
    const { reported, upstreams } = this.state
    if (finalityTags.every(tag => (reported[tag] ?? 0) <= height)) return
    const capped = (heights: TagHeights): TagHeights =>
      Object.fromEntries(Object.entries(heights).map(([tag, block]) => [tag, Math.min(block, height)]))
    this.#set({
      reported: capped(reported),
      upstreams: Object.fromEntries(Object.entries(upstreams).map(([name, heights]) => [name, capped(heights)])),
    })
    for (const tag of finalityTags) if ((reported[tag] ?? 0) > height) this.#lower(tag, height)
  }

  /** What was reported is void: from now on the upstreams say anew what the tags name. */
  reset(): void {
    if (Object.keys(this.state.reported).length === 0) return
    this.#set({ reported: {}, upstreams: {} })
    for (const tag of finalityTags) this.#lower(tag, 0)
  }

  /** Other nodes have come under these names: what was answered under them before says nothing about these nodes. */
  forget(names: readonly string[]): void {
    const upstreams = Object.entries(this.state.upstreams).filter(([name]) => !names.includes(name))
    this.#set({ ...this.state, upstreams: Object.fromEntries(upstreams) })
  }

  #lower(tag: FinalityTag, height: number): void {
    for (const broadcast of this.#options.broadcasts[tag] ?? []) broadcast.lower(height)
  }

  #recordPeer(tag: FinalityTag, height: number): void {
    if (height <= this.#options.reportedHeight()) this.#update(tag, height, this.state.upstreams)
  }

  #update(tag: FinalityTag, block: number, upstreams: TagState['upstreams']): void {
    if (this.#options.devNode === true) return
    const previous = this.state.reported[tag] ?? -1
    this.#set({ reported: { ...this.state.reported, [tag]: Math.max(previous, block) }, upstreams })
    if (block > previous) for (const broadcast of this.#options.broadcasts[tag] ?? []) void broadcast.raise(block)
  }

  #set(state: TagState): void {
    if (JSON.stringify(state) === JSON.stringify(this.state)) return
    this.state = state
    this.#options.onChange(state)
  }
}
