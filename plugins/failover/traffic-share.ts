import { Backoff, getOrCreate, metricDefinitions } from '../../src/plugin/internal.ts'
import type { Clock, Services, Timer } from '../../src/plugin/plugin.ts'
import { allClasses } from './node-breakers.ts'

/** How long a node is suspended: doubled each time that this happens again soon. */
const suspension = { minMs: 1000, maxMs: 30_000 }
/** A recovery takes so many times the suspension before it. */
const recoveryFactor = 2
/** After so long with all of its calls a node begins anew with the shortest suspension. */
const calmMs = 60_000

/** The share with which a recovery begins. */
const minShare = 0.05

/** Why a node gets fewer calls than usual. */
export type ReducedReason = 'suspect' | 'recovering' | 'slow'

/**
 * The share of its usual calls of one class that a node is requested first for. After a suspension the share grows evenly:
 * a node that has come back gets no burst of calls, and one that comes and goes gets fewer calls each time.
 */
export class TrafficShare {
  readonly #clock: Clock
  readonly #onReduced: (reason: ReducedReason, isReduced: boolean) => void
  readonly #backoff = new Backoff(suspension)
  #state: 'full' | 'suspended' | 'recovering' = 'full'
  #stateSince = -Infinity
  #suspendedMs = 0
  /** Below 1 for a node that is slow. */
  #slowShare = 1
  /** The node is requested first when this reaches 1. */
  #credit = 0
  #timer: Timer | undefined

  constructor(clock: Clock, onReduced: (reason: ReducedReason, isReduced: boolean) => void) {
    this.#clock = clock
    this.#onReduced = onReduced
  }

  get isSuspended(): boolean {
    return this.#state === 'suspended'
  }

  get isFull(): boolean {
    return this.#state === 'full' && this.#slowShare === 1
  }

  /** Whether the node may be requested first for this call. */
  takesTurn(): boolean {
    if (this.isFull) return true
    this.#credit += this.#share
    if (this.#credit < 1) return false
    this.#credit -= 1
    return true
  }

  /** The node is suspect: it gets calls that other nodes can take only after a while. */
  suspend(): void {
    if (this.isSuspended) return
    this.#beginSuspension()
    this.#onReduced('suspect', true)
    this.#timer = this.#clock.after(this.#suspendedMs, () => this.recover())
  }

  /** A circuit breaker has opened: the suspension lasts until recover(). */
  suspendUntilRecovery(): void {
    if (!this.isSuspended) this.#beginSuspension()
    this.#timer?.cancel()
    this.#onReduced('suspect', false)
  }

  /** The first call goes to the node at once. */
  recover(): void {
    if (!this.isSuspended) return
    this.#onReduced('suspect', false)
    this.#onReduced('recovering', true)
    this.#enter('recovering')
    this.#credit = 1 - minShare
    this.#timer = this.#clock.after(recoveryFactor * this.#suspendedMs, () => {
      this.#onReduced('recovering', false)
      this.#enter('full')
    })
  }

  /** The share of a node that is slower than others; 1 for one that is not. */
  setSlowShare(share: number): void {
    if (share < 1 !== this.#slowShare < 1) this.#onReduced('slow', share < 1)
    this.#slowShare = Math.min(1, share)
  }

  stop(): void {
    this.#timer?.cancel()
  }

  get #share(): number {
    if (this.#state === 'suspended') return 0
    if (this.#state === 'full') return this.#slowShare
    const elapsedMs = this.#clock.monotonic() - this.#stateSince
    return this.#slowShare * Math.max(minShare, elapsedMs / (recoveryFactor * this.#suspendedMs))
  }

  #beginSuspension(): void {
    if (this.#state === 'full' && this.#clock.monotonic() - this.#stateSince > calmMs) this.#backoff.reset()
    this.#onReduced('recovering', false)
    this.#enter('suspended')
    this.#suspendedMs = this.#backoff.next()
  }

  #enter(state: 'full' | 'suspended' | 'recovering'): void {
    this.#timer?.cancel()
    this.#state = state
    this.#stateSince = this.#clock.monotonic()
  }
}

/** Which calls one node gets first, by class of method. */
export class NodeTraffic {
  /** The node once got fewer calls than usual. */
  wasReduced = false
  readonly #upstream: string
  readonly #services: Pick<Services, 'clock' | 'metrics'>
  /** Of the classes that once got fewer calls than usual. */
  readonly #shares = new Map<string, TrafficShare>()

  constructor(upstream: string, services: Pick<Services, 'clock' | 'metrics'>) {
    this.#upstream = upstream
    this.#services = services
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
    return [allClasses, methodClass].every(each => this.#shares.get(each)?.isFull !== false)
  }

  /** Whether the node may be requested first for this call of the class. */
  takesTurn(methodClass: string): boolean {
    return [allClasses, methodClass].every(each => this.#shares.get(each)?.takesTurn() !== false)
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
    this.wasReduced = true
    const { clock, metrics } = this.#services
    const gaugeOf = (reason: ReducedReason) =>
      metrics.gauge(metricDefinitions.upstreamReduced, { upstream: this.#upstream, class: methodClass, reason })
    return new TrafficShare(clock, (reason, isReduced) => gaugeOf(reason).set(isReduced ? 1 : 0))
  }
}
