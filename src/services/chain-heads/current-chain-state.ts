import { onAbort } from '../../plugin/call.ts'
import type { Target } from '../../plugin/call.ts'
import { toHexQuantity } from '../../util/json.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { ExclusionReason } from '../node-reasons.ts'
import { fingerprintOf } from './chain-id-check.ts'
import type {
  ChainCheck,
  ChainCheckResult,
  ChainSnapshot,
  ChainState,
  Head,
  HeadsOptions,
  HeadsStatus,
  UpstreamState,
  WaitLimits,
} from './heads-types.ts'
import { catchUpIntervalMs, headTimingFor } from './poll-schedule.ts'
import type { HeadTiming } from './poll-schedule.ts'
import { RecentBlocks, maxRecentBlocks } from './recent-blocks.ts'
import type { BlockId } from './recent-blocks.ts'
import type { BlockHeader } from './upstream-requests.ts'

/** Enough for the blocks of several upstreams between two polls. */
const maxReportedHashes = 64

export const isSameHead = (one: Head | undefined, other: Head | undefined): boolean =>
  one?.number === other?.number && one?.hash === other?.hash

/** The newest state of a network's chain that this process has, and its consequences for calls. Whatever updates it extends it. */
export abstract class CurrentChainState {
  readonly pollIntervalMs: number
  protected readonly timing: HeadTiming
  /** Kept up to date by whatever updates the state. */
  protected readonly recentBlocks = new RecentBlocks(maxRecentBlocks)
  readonly #clock: Clock
  #state: ChainState = { finalityVersion: 0, reportedHeight: 0, upstreams: [] }
  #headVersion = 0
  #exclusionReasons: ReadonlyMap<string, ExclusionReason> = new Map()
  #upstreamHeights: ReadonlyMap<string, number> = new Map()
  readonly #reportedHashes = new Set<string>()
  readonly #listeners = new Set<() => void>()
  /** By fingerprint, for as long as the network is served: an upstream that is tracked no longer may be tracked again. */
  readonly #chainChecks = new Map<string, { result: ChainCheckResult }>()
  /** Written here alone. A field, as each cached call reads it. */
  snapshot: ChainSnapshot

  constructor({ clock, blockTime }: Pick<HeadsOptions, 'clock' | 'blockTime'>) {
    this.#clock = clock
    this.timing = headTimingFor(blockTime)
    this.pollIntervalMs = this.timing.pollIntervalMs
    this.snapshot = this.#createSnapshot()
  }

  protected get state(): ChainState {
    return this.#state
  }

  protected update(state: ChainState): void {
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
    this.#recordChainChecks(state.upstreams)
    this.snapshot = this.#createSnapshot()
    for (const listener of this.#listeners) listener()
  }

  /** What is cached about the newest block may be older than what was reported, or than a change of a node's state. */
  protected startHeadVersion(): void {
    this.#headVersion += 1
    this.snapshot = this.#createSnapshot()
  }

  /** The upstreams of the latest pipeline. */
  abstract get targets(): readonly Target[]

  /** See Heads.chainCheckOf(). */
  chainCheckOf(target: Target): ChainCheck {
    return getOrCreate(this.#chainChecks, fingerprintOf(target), newChainCheck)
  }

  /** See Heads.reporterOf(). */
  reporterOf(target: Target): string {
    return this.reporterNamed(target.name, fingerprintOf(target))
  }

  /** The same for a node of which another process has sent no more than this. */
  reporterNamed(name: string, fingerprint: string | undefined): string {
    const known = this.fingerprintOfNamed(name)
    return known === undefined || known === fingerprint ? name : ''
  }

  /** See fingerprintOf(). */
  protected fingerprintOfNamed(upstream: string): string | undefined {
    const named = this.targets.find(({ name }) => name === upstream)
    return named && fingerprintOf(named)
  }

  /** Resolves, and soon, once one of the upstreams has passed the check of its chain, or all have failed it. */
  async whenChainChecked(): Promise<void> {
    const resultOf = (target: Target) => this.chainCheckOf(target).result
    const isChecked = () =>
      this.targets.some(each => resultOf(each) === 'passed') || this.targets.every(each => resultOf(each) === 'failed')
    await new Promise<void>(resolve => {
      const endIfChecked = (): void => {
        if (!isChecked()) return
        this.#listeners.delete(endIfChecked)
        resolve()
      }
      this.#listeners.add(endIfChecked)
      endIfChecked()
    })
  }

  /** An upstream whose settings have changed is checked again; until then the node at its URL is the one of before. */
  #recordChainChecks(upstreams: readonly UpstreamState[]): void {
    for (const { fingerprint, chainCheck } of upstreams) {
      if (chainCheck !== 'pending') getOrCreate(this.#chainChecks, fingerprint, newChainCheck).result = chainCheck
    }
  }

  /** See Heads.hasBlock(). */
  hasBlock(upstream: string, block = Infinity): boolean {
    const { head, reportedHeight } = this.#state
    const height = this.#upstreamHeights.get(upstream)
    if (height === undefined) return head === undefined || block <= reportedHeight
    return height >= Math.min(block, reportedHeight)
  }

  /** See Heads.headOf(). */
  headOf(upstream: string): BlockId | undefined {
    const head = this.#state.upstreams.find(({ name }) => name === upstream)?.head
    return head?.hash === undefined ? undefined : head
  }

  /** See Heads.isKnownBlock(). */
  isKnownBlock(hash: string): boolean {
    return this.recentBlocks.hasHash(hash) || this.#reportedHashes.has(hash)
  }

  /** A caller of this process is told of this block. Only of the newest ones: an upstream has told of them before a poll may have. */
  protected recordReportedBlock(height: number, hash: string | undefined): void {
    if (hash === undefined || height < this.#state.reportedHeight || this.#reportedHashes.has(hash)) return
    this.#reportedHashes.add(hash)
    for (const oldest of this.#reportedHashes) if (this.#reportedHashes.size > maxReportedHashes) this.#reportedHashes.delete(oldest)
  }

  /** Polls the upstreams that are below the reported height, for calls that wait for them. */
  abstract pollLagging(): void

  /**
   * See Heads.waitForBlock(). The height may also go back meanwhile, so that the upstreams have it. Upstreams that are excluded,
   * as they lag too far behind, do not get a block soon: for them alone nobody waits.
   */
  async waitForBlock(upstreams: readonly string[], block: number | undefined, limits: WaitLimits): Promise<void> {
    const { timeoutMs, isOver, signal } = limits
    const candidates = upstreams.filter(upstream => !this.#exclusionReasons.has(upstream))
    if (candidates.length === 0) return
    await new Promise<void>(resolve => {
      const closers: (() => void)[] = []
      const end = (): void => {
        for (const close of closers.splice(0)) close()
        resolve()
      }
      const endIfReached = (): void => {
        if (candidates.some(upstream => this.hasBlock(upstream, block))) end()
      }
      const endOrPoll = (): void => (isOver?.() === true ? end() : this.pollLagging())
      const timers = [this.#clock.after(timeoutMs, end), this.#clock.every(catchUpIntervalMs, endOrPoll)]
      this.#listeners.add(endIfReached)
      closers.push(
        () => timers.forEach(timer => timer.cancel()),
        () => this.#listeners.delete(endIfReached),
      )
      closers.push(onAbort(signal, end))
      this.pollLagging()
    })
  }

  protected setReportedHeight(reportedHeight: number): void {
    if (reportedHeight !== this.#state.reportedHeight) this.update({ ...this.#state, reportedHeight })
  }

  /** See Heads.exclusionOf(). */
  exclusionOf(upstream: string): ExclusionReason | undefined {
    return this.#exclusionReasons.get(upstream)
  }

  /** See Heads.rankOf(). */
  rankOf(upstream: string, block = Infinity): number {
    const reason = this.#exclusionReasons.get(upstream)
    if (reason === 'ahead') return 3
    if (reason === 'lag') return 2
    // No upstream has a block above the head.
    if (block > (this.#state.head?.number ?? -1)) return 0
    return (this.#upstreamHeights.get(upstream) ?? Infinity) < block ? 1 : 0
  }

  /** Is the block finalized on this chain? An older block than the newest finalized one is fetched by its number. */
  protected async isFinalized({ number, hash }: BlockId, fetch: (number: string) => Promise<BlockHeader | undefined>): Promise<boolean> {
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
    const { head, finalized: newestFinalized, finalityVersion, reportedHeight, upstreams } = this.#state
    const { recentBlocks, timing } = this
    const upstreamByName = new Map(upstreams.map(upstream => [upstream.name, upstream]))
    return {
      headVersion: this.#headVersion,
      finalityVersion,
      head: head?.number,
      reportedHeight,
      isCurrent: (upstream = '') =>
        head === undefined ? reportedHeight === 0 : head.number >= reportedHeight && isSameHead(upstreamByName.get(upstream)?.head, head),
      isFinal(upstream = '', block) {
        const { finalized, head: upstreamHead } = upstreamByName.get(upstream) ?? {}
        if (finalized === undefined) return false
        // Every replica behind its URL has this block.
        const shared = (upstreamHead?.number ?? finalized.number) - timing.replicaSkewBlocks
        const newest = Math.min(finalized.number, shared)
        return typeof block === 'number' ? block <= newest : recentBlocks.isFinal(block, finalized, newest)
      },
      finalizedBlockOf: upstream => (upstream === undefined ? newestFinalized : upstreamByName.get(upstream)?.finalized),
    }
  }
}

const newChainCheck = (): { result: ChainCheckResult } => ({ result: 'pending' })

const upstreamStatusOf = ({
  name,
  head,
  isSubscribed,
  exclusion,
  failure,
  chainCheck,
}: UpstreamState): HeadsStatus['upstreams'][number] => {
  const unanswered = failure === undefined ? undefined : `it does not answer: ${failure}`
  const because = exclusion?.description ?? unanswered ?? (chainCheck === 'pending' ? 'its chain ID is not known yet' : undefined)
  return {
    name,
    ...(head && { head: head.number }),
    ...(isSubscribed && { subscribed: true as const }),
    usable: because === undefined,
    ...(because !== undefined && { because }),
    ...(failure !== undefined && { unreachable: true as const }),
  }
}
