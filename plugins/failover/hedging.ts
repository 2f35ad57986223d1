import type { Clock, LatencyTracker } from '../../src/plugin/plugin.ts'
import { SlidingWindowCounter } from './sliding-window-counter.ts'

/** Below so many calls the latency of a node is unknown. */
const minKnownCount = 100
const defaultLateAfterMs = 250
const minLateAfterMs = 20
/** Where nearly all calls take as long as each other, the 95th percentile alone would be too short. */
const medianFactor = 3

export const isKnown = ({ callCount }: LatencyTracker): boolean => callCount >= minKnownCount

/** How long a call may take before it is late, and a second node is requested. */
export const lateAfterMs = (latency: LatencyTracker): number => {
  const { quantiles } = latency
  if (quantiles === undefined || !isKnown(latency)) return defaultLateAfterMs
  return Math.max(quantiles.p95, medianFactor * quantiles.p50, minLateAfterMs)
}

/** A call hangs when it is late by this factor, and takes so long at least. */
const hungFactor = 4
const minHungMs = 500

/** Calls that began before this time hang: they take long, and the node has answered another one as fast as usual since. */
export const hungSince = (now: number, latency: LatencyTracker): number =>
  Math.min(now - Math.max(minHungMs, hungFactor * lateAfterMs(latency)), latency.lastUsualAt)

/** Hedges are at most this ratio of the calls in the window, or the minimum if that is more. */
const maxHedgeRatio = 0.02
const minHedges = 4
const windowMs = 60_000

/** Further hedges in the window, for nodes of which more calls are late than usual: the first moments of a hang. */
const maxBurstHedges = 200

/** Bounds hedges apart from retries, so that neither takes what the other needs. */
export class HedgeBudget {
  readonly #clock: Clock
  readonly #callCount = new SlidingWindowCounter(windowMs)
  readonly #hedgeCount = new SlidingWindowCounter(windowMs)
  readonly #burstCount = new SlidingWindowCounter(windowMs)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  recordCall(): void {
    this.#callCount.add(this.#clock.monotonic())
  }

  /** `isFailing`: more calls of the node are late than usual. */
  reserve(isFailing: boolean): boolean {
    const now = this.#clock.monotonic()
    const maxHedges = Math.max(minHedges, maxHedgeRatio * this.#callCount.sum(now))
    const isWithinRatio = this.#hedgeCount.sum(now) + 1 <= maxHedges
    const isWithinBurst = isFailing && this.#burstCount.sum(now) < maxBurstHedges
    if (isWithinRatio) this.#hedgeCount.add(now)
    else if (isWithinBurst) this.#burstCount.add(now)
    return isWithinRatio || isWithinBurst
  }
}
