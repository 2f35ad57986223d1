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
  /** The listener receives the heights that other gateways report, until the returned function is called. */
  subscribe(listener: HeightListener): () => void
}

/** Another gateway has a greater height. */
export type HeightListener = (height: number) => void

/** Returns how to end the subscriptions. */
export const subscribeToAll = (broadcasts: readonly HeightBroadcast[], listener: HeightListener): (() => void) => {
  const unsubscribes = broadcasts.map(broadcast => broadcast.subscribe(listener))
  return () => unsubscribes.forEach(unsubscribe => unsubscribe())
}

interface ReportedHeightOptions {
  readonly devNode?: boolean
  readonly clock: Clock
  /** The height goes back when no upstream has had it for so long. */
  readonly lowAfterMs: number
  /** The same, from when another gateway has reported it. */
  readonly peerLowAfterMs: number
  readonly log: Log
  readonly metrics: Metrics<'network'>
  readonly plausibility: HeadPlausibility
  readonly heightBroadcasts: readonly HeightBroadcast[]
  /** The upstreams whose heads are plausible. */
  reporters(): readonly HeadReporter[]
}

/**
 * The reported height: the number of the block that callers are given as the newest. It is 0 before the first head, and always on a development node.
 *
 * - It never goes back because one upstream lags behind another, or takes over from another.
 * - It goes back when upstreams answer, and none of them has had the block for `lowAfterMs`: the chain is shorter. Time without polls does not count.
 * - A caller is given it only when all workers of this gateway have it: `sharedHeight` waits for their acknowledgments.
 *   Gateways on other machines are informed, and not waited for.
 * - It goes back when it has become implausible beside the newest blocks of the upstreams: a node had invented it, or the chain began anew.
 */
export class ReportedHeight {
  readonly #options: ReportedHeightOptions
  readonly #reverts: Counter
  #height = 0
  #pendingBroadcast: Promise<void> | undefined
  /** When an upstream was last known to have the block, on the monotonic clock. */
  #seenAt = -Infinity
  #evaluatedAt = -Infinity

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
    if (height <= this.#height || this.#options.devNode === true) return
    this.#height = height
    const acknowledgments = this.#options.heightBroadcasts.flatMap(broadcast => broadcast.raise(height) ?? [])
    if (acknowledgments.length === 0) return
    const pending = Promise.all(acknowledgments).then(() => {
      if (this.#pendingBroadcast === pending) this.#pendingBroadcast = undefined
    })
    this.#pendingBroadcast = pending
  }

  /** The heads of the upstreams may have changed: goes back to the highest of them when no chain of theirs can have the block, or none has it. */
  evaluate(): void {
    const { plausibility } = this.#options
    const reporters = this.#options.reporters()
    if (this.#height === 0) return
    const highest = reporters.reduce((max, { head }) => Math.max(max, head?.number ?? 0), 0)
    const isSeen = this.#isSeen(highest)
    if (plausibility.isImplausible({ number: this.#height }, reporters))
      return this.#lowerTo(highest, 'reported height went back: no chain of the nodes can have it')
    if (!isSeen) this.#lowerTo(highest, 'reported height went back: the chain is shorter')
  }

  /** Also while no upstream answers. */
  #isSeen(highest: number): boolean {
    const { clock, lowAfterMs } = this.#options
    const now = clock.monotonic()
    const wasPolled = now - this.#evaluatedAt < lowAfterMs
    this.#evaluatedAt = now
    if (highest === 0 || highest >= this.#height || !wasPolled) this.#seenAt = Math.max(this.#seenAt, now)
    return now - this.#seenAt < lowAfterMs
  }

  #lowerTo(height: number, message: string): void {
    const previousHeight = this.#height
    if (height >= previousHeight) return
    this.#height = height
    this.#reverts.add()
    const { log, heightBroadcasts } = this.#options
    log.warn({ height, previousHeight }, message)
    for (const broadcast of heightBroadcasts) broadcast.lower(height)
  }

  /** Another gateway has reported this height, from upstreams of its own. */
  recordPeerHeight(height: number): void {
    const { plausibility, clock, lowAfterMs, peerLowAfterMs } = this.#options
    if (plausibility.isImplausible({ number: height }, this.#options.reporters())) return
    if (height >= this.#height) this.#seenAt = clock.monotonic() + peerLowAfterMs - lowAfterMs
    this.raise(height)
  }
}
