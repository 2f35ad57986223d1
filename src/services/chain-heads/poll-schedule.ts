import { withTimeoutOr } from '../../util/async.ts'
import type { Clock, Timer } from '../clock.ts'

/** Polling stops when no call has come in for this long. */
const idleTimeoutMs = 30_000

const minPollIntervalMs = 250
const maxPollIntervalMs = 5_000
const minSlowPollIntervalMs = 30_000
const slowPollBlocks = 16
const minStaleAfterMs = 2_000
const staleAfterBlocks = 4
const minPeerLowAfterMs = 10_000
const peerLowAfterBlocks = 4
const minDefaultLagBlocks = 5
const defaultMaxLagMs = 10_000
const minStalledAfterMs = 60_000
const stalledAfterBlocks = 20
const minIdleAfterMs = 60_000
const idleAfterBlocks = 4

/** Polls in a row that must agree before an upstream is excluded, or the reported height goes back. */
export const minAgreeingPolls = 3

/** An operator waits no longer for the polls of all upstreams. */
export const maxRefreshMs = 1000

/** While calls wait for a block, upstreams that lack it are polled this often, at most. */
export const catchUpIntervalMs = 100

/** Replicas of a provider behind one URL are at most this far apart, and any of them may answer a poll. */
const maxReplicaSkewMs = 3_000

/** Intervals and bounds that follow from the block time of a network. */
export interface HeadTiming {
  /** ms between polls of the newest block. */
  readonly pollIntervalMs: number
  /** ms between polls of the finalized block, and between checks of the chain ID. */
  readonly slowPollIntervalMs: number
  /** ms without an upstream at the reported height after which it goes back; the second from when another gateway has reported it. */
  readonly lowAfterMs: number
  readonly peerLowAfterMs: number
  /** ms without a head after which a subscription is stale. */
  readonly staleAfterMs: number
  /** ms without a new block, while upstreams answer, after which the chain is taken to stand still. */
  readonly stalledAfterMs: number
  /** ms since the last look at the head after which nobody knows how the network is. */
  readonly idleAfterMs: number
  /** Blocks that replicas behind one URL are apart at most, at the usual speed of the chain. */
  readonly replicaSkewBlocks: number
  /** Blocks that an upstream may lag where the operator sets no `maxLag`. */
  readonly defaultMaxLagBlocks: number
}

export const headTimingFor = (blockTimeMs: number): HeadTiming => {
  const pollIntervalMs = Math.min(maxPollIntervalMs, Math.max(minPollIntervalMs, blockTimeMs / 2))
  return {
    pollIntervalMs,
    slowPollIntervalMs: Math.max(minSlowPollIntervalMs, slowPollBlocks * blockTimeMs),
    lowAfterMs: Math.max(maxReplicaSkewMs, minAgreeingPolls * pollIntervalMs),
    peerLowAfterMs: Math.max(minPeerLowAfterMs, peerLowAfterBlocks * blockTimeMs),
    staleAfterMs: Math.max(minStaleAfterMs, staleAfterBlocks * blockTimeMs),
    stalledAfterMs: Math.max(minStalledAfterMs, stalledAfterBlocks * blockTimeMs),
    idleAfterMs: Math.max(minIdleAfterMs, idleAfterBlocks * blockTimeMs),
    replicaSkewBlocks: Math.ceil(maxReplicaSkewMs / blockTimeMs),
    defaultMaxLagBlocks: Math.max(minDefaultLagBlocks, Math.ceil(defaultMaxLagMs / blockTimeMs)),
  }
}

interface ScheduledUpstream {
  readonly isPolling: boolean
  openSubscription(): void
  /** Until the next poll. */
  pause(): void
}

interface PollScheduleOptions<U> {
  readonly clock: Clock
  readonly pollIntervalMs: number
  /** From the first poll to the second. */
  readonly firstIntervalMs: number
  upstreams(): readonly U[]
  /** Resolves when the upstream has answered. For `isCatchUp`, see UpstreamTracker.poll(). */
  poll(upstream: U, isCatchUp: boolean): Promise<void>
}

/**
 * When upstreams are polled: at once with the first call, then at each interval for as long as calls come in; and in between where calls wait for
 * what an upstream lacks.
 */
export class PollSchedule<U extends ScheduledUpstream> {
  readonly #options: PollScheduleOptions<U>
  #isStarted = false
  #timer: Timer | undefined
  /** Polled time since the last call. */
  #idleMs = 0
  #lastCatchUpAt = -Infinity

  constructor(options: PollScheduleOptions<U>) {
    this.#options = options
  }

  /** There are upstreams, of which these are new: from now on calls begin polls. */
  start(added: readonly U[]): void {
    this.#isStarted = true
    if (this.#timer !== undefined) for (const upstream of added) this.#startPolling(upstream)
  }

  /** A call has come in. A field, which HeadTracker has too: each call runs it. */
  readonly recordActivity = (): void => {
    this.#idleMs = 0
    if (this.#isStarted && this.#timer === undefined) this.#poll(this.#options.firstIntervalMs)
  }

  /** No polls until start(). */
  stop(): void {
    this.#isStarted = false
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Polls upstreams that no calls keep polled; for a catch-up the others too. Resolves when they have answered, at the latest after a second. */
  async refresh(isCatchUp: boolean): Promise<void> {
    if (this.#timer !== undefined && !isCatchUp) return
    const { clock, upstreams, poll } = this.#options
    const polls = Promise.all(upstreams().map(upstream => poll(upstream, isCatchUp)))
    await withTimeoutOr(clock, maxRefreshMs, polls, () => undefined)
  }

  /** Polls the upstreams that lack what calls wait for, but those whose poll is in flight. */
  catchUp(isLagging: (upstream: U) => boolean): void {
    const { clock, upstreams, poll } = this.#options
    const now = clock.monotonic()
    if (now - this.#lastCatchUpAt < catchUpIntervalMs) return
    this.#lastCatchUpAt = now
    for (const upstream of upstreams()) if (!upstream.isPolling && isLagging(upstream)) void poll(upstream, true)
  }

  #poll(intervalMs = this.#options.pollIntervalMs): void {
    const { clock, upstreams } = this.#options
    this.#timer = undefined
    if (this.#idleMs > idleTimeoutMs) return upstreams().forEach(upstream => upstream.pause())
    this.#idleMs += intervalMs
    this.#timer = clock.after(intervalMs, () => this.#poll())
    for (const upstream of upstreams()) this.#startPolling(upstream)
  }

  #startPolling(upstream: U): void {
    upstream.openSubscription()
    void this.#options.poll(upstream, false)
  }
}
