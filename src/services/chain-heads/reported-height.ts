import type { Clock } from '../clock.ts'
import type { HeadPlausibility } from './head-plausibility.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'
import { HeightWatermark, agreeingPollsFor } from './height-watermark.ts'
import type { HeightBroadcast } from './height-broadcast-types.ts'

export interface ReportedHeightOptions {
  readonly clock: Clock
  readonly plausibility: HeadPlausibility
  /** ms between polls. */
  readonly pollIntervalMs: number
  /** Those who hear of it. */
  readonly heightBroadcasts: readonly HeightBroadcast[]
  /** ms after which a height that others told says nothing about the chain any more. */
  readonly peerHeightTtlMs: number
  /** The nodes that are believed. */
  reporters(): readonly UpstreamTracker[]
}

/** The height that callers are told here, kept in step with those who tell it elsewhere. */
export class ReportedHeight {
  readonly #options: ReportedHeightOptions
  readonly #watermark: HeightWatermark
  #pendingBroadcast: Promise<void> | undefined
  /** What others told last. */
  #peerHeight: { readonly height: number; readonly at: number } | undefined

  constructor(options: ReportedHeightOptions) {
    this.#options = options
    this.#watermark = new HeightWatermark(agreeingPollsFor(options.pollIntervalMs))
  }

  get height(): number {
    return this.#watermark.value
  }

  /** The height, once all who must know do. */
  get sharedHeight(): number | Promise<number> {
    const height = this.height
    return this.#pendingBroadcast === undefined ? height : this.#pendingBroadcast.then(() => height)
  }

  raise(height: number): void {
    if (height <= this.height) return
    this.#watermark.raise(height)
    const acknowledgments = this.#options.heightBroadcasts.flatMap(broadcast => broadcast.raise(height) ?? [])
    if (acknowledgments.length === 0) return
    const pending = Promise.all(acknowledgments).then(() => {
      if (this.#pendingBroadcast === pending) this.#pendingBroadcast = undefined
    })
    this.#pendingBroadcast = pending
  }

  /** Goes back when the witnesses agree on it, or on its being impossible; gives the height before, if so. */
  lowerIfAgreed(): number | undefined {
    const [previous, reporters] = [this.height, this.#options.reporters()]
    const isImpossible = previous > 0 && this.#options.plausibility.isImplausible({ number: previous }, reporters)
    if (isImpossible) this.#peerHeight = undefined
    if (!(isImpossible ? this.#watermark.lowerTo(reporters) : this.#watermark.lowerIfAgreed([...reporters, ...this.#peerVotes()])))
      return undefined
    for (const broadcast of this.#options.heightBroadcasts) broadcast.lower(this.height)
    return previous
  }

  /** Others tell their callers this height, of nodes that are not ours. */
  recordPeerHeight(height: number): void {
    if (this.#options.plausibility.isImplausible({ number: height }, this.#options.reporters())) return
    this.#peerHeight = { height, at: this.#options.clock.monotonic() }
    this.raise(height)
  }

  /** Others are one more voice, for as long as they may be taken to be there. */
  #peerVotes() {
    const { clock, peerHeightTtlMs } = this.#options
    const isPeerActive = this.#peerHeight !== undefined && clock.monotonic() - this.#peerHeight.at < peerHeightTtlMs
    return isPeerActive ? [{ height: this.#peerHeight?.height, lowPolls: 0, isSilent: false }] : []
  }
}
