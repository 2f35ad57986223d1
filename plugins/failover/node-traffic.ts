import { getOrCreate, metricDefinitions } from '../../src/plugin/plugin.ts'
import type { LatencyTracker, Services } from '../../src/plugin/plugin.ts'
import { isKnown, lateAfterMs } from './hedging.ts'
import { LateCalls } from './late-calls.ts'
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
