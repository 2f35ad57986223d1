import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
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
 * - It never goes back because upstreams have an earlier block: one lags behind another, or takes over from another, or a reorg has left its chain shorter.
 * - A caller is given it only when all workers of this gateway have it: `sharedHeight` waits for their acknowledgments.
 *   Gateways on other machines are informed, and not waited for.
 * - It goes back when it has become implausible beside the newest blocks of the upstreams: a node had invented it, or the chain began anew.
 */
export class ReportedHeight {
  readonly #options: ReportedHeightOptions
  readonly #reverts: Counter
  #height = 0
  #pendingBroadcast: Promise<void> | undefined

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

  /** To the height of the highest upstream. */
  lowerIfImplausible(): void {
    const { plausibility, log, heightBroadcasts } = this.#options
    const reporters = this.#options.reporters()
    const previousHeight = this.#height
    if (previousHeight === 0 || !plausibility.isImplausible({ number: previousHeight }, reporters)) return
    const height = reporters.reduce((highest, { head }) => Math.max(highest, head?.number ?? 0), 0)
    if (height >= previousHeight) return
    this.#height = height
    this.#reverts.add()
    log.warn({ height, previousHeight }, 'reported height went back: no chain of the nodes can have it')
    for (const broadcast of heightBroadcasts) broadcast.lower(height)
  }

  /** Another gateway has reported this height, from upstreams of its own. */
  recordPeerHeight(height: number): void {
    if (!this.#options.plausibility.isImplausible({ number: height }, this.#options.reporters())) this.raise(height)
  }
}
