import type { LatencyTracker } from '../../src/plugin/internal.ts'

const defaultLateAfterMs = 250
const minLateAfterMs = 20
/** Where nearly all calls take as long as each other, the 95th percentile alone would be too short. */
const medianFactor = 3

/** How long a call may take before it is late, and a second node is requested. */
export const lateAfterMs = ({ quantiles, isKnown }: LatencyTracker): number =>
  quantiles === undefined || !isKnown ? defaultLateAfterMs : Math.max(quantiles.p95, medianFactor * quantiles.p50, minLateAfterMs)

/** A heavy call may take so long, or the 95th percentile: half of what the contract gives eth_getLogs (contract 8). */
const minSilentHeavyMs = 5_000

/** How long a node may be silent about a heavy call before another node is asked too; of a method with `maxTime`, half of that at most. */
export const silentAfterMs = (latency: LatencyTracker, maxTimeMs = Infinity): number =>
  Math.min(Math.max(minSilentHeavyMs, lateAfterMs(latency)), maxTimeMs / 2)

/** A call hangs when it is late by this factor, and takes so long at least. */
const hungFactor = 4
const minHungMs = 500

/** Calls that began before this time hang: they take long, and the node has answered another one as fast as usual since. */
export const hungSince = (now: number, latency: LatencyTracker): number =>
  Math.min(now - Math.max(minHungMs, hungFactor * lateAfterMs(latency)), latency.lastUsualAt)

/** A node is failing when so many of the last 32 calls were late: usually 5 % are. */
const minFailingCount = 5

/** A node is suspect when so many calls in a row were late, and it has answered none of its class for some time. */
const minSilentCount = 3

/** A node that is well answers some call within so many times the 95th percentile of a class. */
const silenceFactor = 3
const minSilentMs = 50
const maxSilentMs = 500

/** A node is suspect, too, when so many of the last 32 calls were late for `minPartialMs`: only some of its connections hang. */
const minPartialCount = 12
const minPartialMs = 500

/** How long the calls of one class to one node take, and how many of the recent ones were late. */
export class LateCalls {
  readonly latency: LatencyTracker
  /** One bit for each of the last 32 calls; 1: late. */
  #recent = 0
  /** Since the last answer. */
  #lateInRow = 0
  /** When the first of these calls began. */
  #silentSince = 0
  #partialSince: number | undefined

  constructor(latency: LatencyTracker) {
    this.latency = latency
  }

  recordAnswer(startedAt: number, endedAt: number): void {
    // What is late is not known yet: a node that answers may be as slow as this.
    if (!this.latency.isKnown) this.reset()
    this.#lateInRow = 0
    if (endedAt - startedAt < lateAfterMs(this.latency)) {
      this.#recent <<= 1
      if (countBits(this.#recent) < minPartialCount) this.#partialSince = undefined
    }
    this.latency.record(startedAt, endedAt)
  }

  /** What a failing node does not finish says nothing of how long its calls usually take. */
  recordCanceled(startedAt: number, endedAt: number): void {
    if (!this.isFailing) this.latency.recordCanceled(startedAt, endedAt)
  }

  recordLate(startedAt: number, now: number): void {
    this.#recent = (this.#recent << 1) | 1
    if (this.#lateInRow === 0) this.#silentSince = startedAt
    this.#lateInRow += 1
    if (countBits(this.#recent) >= minPartialCount) this.#partialSince ??= now
  }

  /** Forgets the calls until now. */
  reset(): void {
    this.#recent = 0
    this.#lateInRow = 0
    this.#partialSince = undefined
  }

  /** More calls are late than usual. */
  get isFailing(): boolean {
    return countBits(this.#recent) >= minFailingCount
  }

  /** Whether these calls make the node suspect, while another node usually answers within `peerMs`. */
  isSuspect(now: number, peerMs: number): boolean {
    const { quantiles } = this.latency
    if (quantiles === undefined || !this.latency.isKnown) return false
    const silentMs = Math.min(maxSilentMs, Math.max(minSilentMs, silenceFactor * quantiles.p95))
    return this.isSilent(now, Math.max(silentMs, peerMs)) || (this.isPartlySilent(now) && lateAfterMs(this.latency) >= peerMs)
  }

  /** `silentMs`: how long a node that is well may answer no call. */
  isSilent(now: number, silentMs: number): boolean {
    return this.#lateInRow >= minSilentCount && now - this.#silentSince >= silentMs
  }

  /** Many calls are late, though others are answered. */
  isPartlySilent(now: number): boolean {
    return this.#partialSince !== undefined && now - this.#partialSince >= minPartialMs
  }
}

/** Each step clears the lowest bit that is set. */
const countBits = (bits: number): number => {
  let count = 0
  for (let rest = bits; rest !== 0; rest &= rest - 1) count += 1
  return count
}
