import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Metrics } from '../metrics.ts'
import type { HeadPlausibility, HeadReporter } from './head-plausibility.ts'

/** Shares the reported height of one network with other processes: the workers of this gateway, or other gateways. */
export interface HeightBroadcast {
  /**
   * Callers are about to be given this height. Undefined where there is no acknowledgment to wait for. Otherwise it resolves,
   * and soon, once every process has the height.
   */
  raise(height: number): Promise<void> | undefined
  /** The height has gone back: callers may be given lower heights again. */
  lower(height: number): void
  /** The listener receives the heights that other processes report, until the returned function is called. */
  subscribe(listener: HeightListener): () => void
}

/**
 * Another process has a greater height, from the named upstream if that is an upstream of this gateway. Returns the height
 * that callers may be given.
 */
export type HeightListener = (height: number, upstream?: string) => MaybePromise<number>

/** Returns how to end the subscriptions. */
export const subscribeToAll = (broadcasts: readonly HeightBroadcast[], listener: HeightListener): (() => void) => {
  const unsubscribes = broadcasts.map(broadcast => broadcast.subscribe(listener))
  return () => unsubscribes.forEach(unsubscribe => unsubscribe())
}

/** The vote of one upstream, or of another gateway, on the height. */
interface HeightVote {
  /** Undefined before the first head. */
  readonly height: number | undefined
  /** Answered polls in a row below the reported height. */
  readonly lowPolls: number
  /** It is below the reported height because a caller has taken it back. */
  readonly isRewound: boolean
  /** It has not answered for so long that it has no vote. */
  readonly isSilent: boolean
}

interface ReportedHeightOptions {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics<'network'>
  readonly plausibility: HeadPlausibility
  /** Polls in a row below the height, of every upstream, after which it goes back. */
  readonly minLowPolls: number
  readonly heightBroadcasts: readonly HeightBroadcast[]
  /** ms for which a height that another gateway has reported counts as a vote. */
  readonly peerHeightTtlMs: number
  /** The upstreams whose heads are plausible. */
  reporters(): readonly (HeadReporter & HeightVote)[]
}

/**
 * The reported height: the number of the block that callers are given as the newest. It is 0 before the first head.
 *
 * - It never goes back because one upstream lags behind another, or takes over from another.
 * - A caller is given it only when all workers of this gateway have it: `sharedHeight` waits for their acknowledgments.
 *   Gateways on other machines are informed, and not waited for.
 * - It goes back when every upstream that answers has been below it for `minLowPolls` polls in a row, as when a development
 *   chain was reset. A height that another gateway has reported within `peerHeightTtlMs` is one more vote against that.
 * - It goes back at once when it has become implausible, and when a caller has taken every upstream back to an earlier block.
 * - It stays while no upstream answers.
 */
export class ReportedHeight {
  readonly #options: ReportedHeightOptions
  readonly #reverts: Counter
  #height = 0
  #pendingBroadcast: Promise<void> | undefined
  #peerHeight: { readonly height: number; readonly receivedAt: number } | undefined

  constructor(options: ReportedHeightOptions) {
    this.#options = options
    this.#reverts = options.metrics.counter(metricDefinitions.reportedHeightReverts, {})
  }

  get height(): number {
    return this.#height
  }

  /** The height, once every process that must have it has it. */
  get sharedHeight(): MaybePromise<number> {
    const height = this.#height
    return thenMaybe(this.#pendingBroadcast, () => height)
  }

  /** The listener receives what other processes report, until the returned function is called. */
  subscribe(listener: HeightListener): () => void {
    return subscribeToAll(this.#options.heightBroadcasts, listener)
  }

  /** Is a height above the reported one implausible? `reporter` is the upstream that answered it to a caller. */
  isImplausible(height: number, reporter: HeadReporter | undefined): boolean {
    if (height <= this.#height) return false
    const others = this.#options.reporters().filter(each => each !== reporter)
    return this.#options.plausibility.isImplausible({ number: height }, others, reporter)
  }

  raise(height: number): void {
    if (height <= this.#height) return
    this.#height = height
    const acknowledgments = this.#options.heightBroadcasts.flatMap(broadcast => broadcast.raise(height) ?? [])
    if (acknowledgments.length === 0) return
    const pending = Promise.all(acknowledgments).then(() => {
      if (this.#pendingBroadcast === pending) this.#pendingBroadcast = undefined
    })
    this.#pendingBroadcast = pending
  }

  /** Goes back if the upstreams agree on it, or if the height is implausible. True when a caller has taken the nodes back. */
  lowerIfAgreed(): boolean {
    const { plausibility, minLowPolls } = this.#options
    const reporters = this.#options.reporters()
    if (this.#height > 0 && plausibility.isImplausible({ number: this.#height }, reporters)) {
      this.#peerHeight = undefined
      return this.#lowerTo(reporters)
    }
    const votes = [...reporters, ...this.#peerVotes()].filter(vote => !vote.isSilent)
    const isAgreed = votes.length > 0 && votes.every(({ lowPolls, isRewound }) => isRewound || lowPolls >= minLowPolls)
    return isAgreed && this.#lowerTo(votes)
  }

  /** Another gateway has reported this height, from upstreams of its own. */
  recordPeerHeight(height: number): void {
    if (this.#options.plausibility.isImplausible({ number: height }, this.#options.reporters())) return
    this.#peerHeight = { height, receivedAt: this.#options.clock.monotonic() }
    this.raise(height)
  }

  #lowerTo(votes: readonly HeightVote[]): boolean {
    const previousHeight = this.#height
    this.#height = votes.reduce((highest, { height = 0 }) => Math.max(highest, height), 0)
    if (this.#height >= previousHeight) return false
    this.#reverts.add()
    const isRewound = votes.some(vote => vote.isRewound)
    const { log, heightBroadcasts } = this.#options
    const fields = { height: this.#height, previousHeight }
    if (isRewound) log.info(fields, 'reported height went back: a caller has taken the node back')
    else log.warn(fields, 'reported height went back: the chain is shorter')
    for (const broadcast of heightBroadcasts) broadcast.lower(this.#height)
    return isRewound
  }

  #peerVotes(): readonly HeightVote[] {
    const { clock, peerHeightTtlMs } = this.#options
    if (this.#peerHeight === undefined || clock.monotonic() - this.#peerHeight.receivedAt >= peerHeightTtlMs) return []
    return [{ height: this.#peerHeight.height, lowPolls: 0, isRewound: false, isSilent: false }]
  }
}
