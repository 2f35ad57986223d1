import { getOrCreate, metricDefinitions } from '../../src/plugin/plugin.ts'
import type { LatencyTracker, Services } from '../../src/plugin/plugin.ts'
import { isKnown, lateAfterMs } from './hedging.ts'
import { allClasses } from './node-breakers.ts'
import { TrafficShare } from './traffic-share.ts'
import type { ReducedReason } from './traffic-share.ts'

/** A node that is well answers some call within so many times the 95th percentile of a class. */
const silenceFactor = 3
const minSilentMs = 50
const maxSilentMs = 500

/** Which calls one node gets first, by class of method, and the late calls that decide it. */
export class NodeTraffic {
  readonly #upstream: string
  readonly #services: Pick<Services, 'clock' | 'metrics'>
  readonly #lateCalls = new Map<string, LateCalls>()
  /** Of the classes that once got fewer calls than usual. */
  readonly #shares = new Map<string, TrafficShare>()

  constructor(upstream: string, services: Pick<Services, 'clock' | 'metrics'>) {
    this.#upstream = upstream
    this.#services = services
  }

  lateCallsOf(methodClass: string): LateCalls {
    return getOrCreate(this.#lateCalls, methodClass, createLateCalls)
  }

  shareOf(methodClass: string): TrafficShare {
    return getOrCreate(this.#shares, methodClass, this.#createShare)
  }

  /** Other nodes get calls of this class first: calls are late, or a breaker is open. */
  isSuspended(methodClass: string): boolean {
    return [allClasses, methodClass].some(each => this.#shares.get(each)?.isSuspended === true)
  }

  /** Whether the node gets all of its usual calls of this class. */
  isFull(methodClass: string): boolean {
    return this.#shares.size === 0 || [allClasses, methodClass].every(each => this.#shares.get(each)?.isFull !== false)
  }

  /** Whether the node may be requested first for this call of the class. */
  takesTurn(methodClass: string): boolean {
    return [allClasses, methodClass].every(each => this.#shares.get(each)?.takesTurn() !== false)
  }

  /** A call is late. */
  recordLate(methodClass: string, startedAt: number): void {
    this.lateCallsOf(methodClass).recordLate(startedAt, this.#services.clock.monotonic())
  }

  /** Whether more calls of this class are late than usual. */
  isFailing(methodClass: string): boolean {
    return this.lateCallsOf(methodClass).isFailing || this.isSuspended(methodClass)
  }

  /** Whether late calls make the node suspect, of which `latency` is usual, while another node usually answers within `peerMs`. */
  isSuspect(methodClass: string, latency: LatencyTracker, peerMs: number): boolean {
    const { quantiles } = latency
    if (quantiles === undefined || !isKnown(latency)) return false
    const now = this.#services.clock.monotonic()
    const lateCalls = this.lateCallsOf(methodClass)
    const silentMs = Math.min(maxSilentMs, Math.max(minSilentMs, silenceFactor * quantiles.p95))
    return lateCalls.isSilent(now, Math.max(silentMs, peerMs)) || (lateCalls.isPartlySilent(now) && lateAfterMs(latency) >= peerMs)
  }

  recordAnswer(methodClass: string, latencyMs: number, latency: LatencyTracker): void {
    const lateCalls = this.lateCallsOf(methodClass)
    // What is late is not known yet: a node that answers may be as slow as this.
    if (!isKnown(latency)) lateCalls.reset()
    lateCalls.recordAnswer(latencyMs >= lateAfterMs(latency))
  }

  /** See TrafficShare.setSlowShare(). */
  setSlowShare(methodClass: string, share: number): void {
    if (share < 1 || this.#shares.has(methodClass)) this.shareOf(methodClass).setSlowShare(share)
  }

  /** A node whose breaker closes is not requested first for all calls at once. */
  onBreaker(methodClass: string, state: 'open' | 'closed'): void {
    if (state === 'open') this.shareOf(methodClass).suspendUntilRecovery()
    else this.shareOf(methodClass).recover()
  }

  stop(): void {
    for (const share of this.#shares.values()) share.stop()
  }

  readonly #createShare = (methodClass: string): TrafficShare => {
    const { clock, metrics } = this.#services
    const gaugeOf = (reason: ReducedReason) =>
      metrics.gauge(metricDefinitions.upstreamReduced, { upstream: this.#upstream, class: methodClass, reason })
    return new TrafficShare(clock, (reason, isReduced) => gaugeOf(reason).set(isReduced ? 1 : 0))
  }
}

const createLateCalls = (): LateCalls => new LateCalls()

/** A node is failing when so many of the last 32 calls were late: usually 5 % are. */
const minFailingCount = 5

/** A node is suspect when so many calls in a row were late, and it has answered none of its class for some time. */
const minSilentCount = 3

/** A node is suspect, too, when so many of the last 32 calls were late for `minPartialMs`: only some of its connections hang. */
const minPartialCount = 12
const minPartialMs = 500

/** How many of the recent calls of one class to one node were late. */
export class LateCalls {
  /** One bit for each of the last 32 calls; 1: late. */
  #recent = 0
  /** Since the last answer. */
  #lateInRow = 0
  /** When the first of these calls began. */
  #silentSince = 0
  #partialSince: number | undefined

  recordAnswer(isLate: boolean): void {
    this.#lateInRow = 0
    if (isLate) return
    this.#recent <<= 1
    if (countBits(this.#recent) < minPartialCount) this.#partialSince = undefined
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
