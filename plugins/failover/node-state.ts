import {
  Backoff,
  CircuitBreaker,
  RateLimitBackoff,
  activityOf,
  allClasses,
  getOrCreate,
  nodeReasons,
  rateOf,
} from '../../src/plugin/internal.ts'
import type { CallOutcome, ExclusionReason, NodeReason, NodeStatus, UpstreamActivity, UpstreamRate } from '../../src/plugin/internal.ts'
import type { Services, Target } from '../../src/plugin/plugin.ts'
import { LateCalls } from './late-calls.ts'
import { NodeErrors } from './node-errors.ts'

const keyOf = (methodClass: string, reason: NodeReason): string => `${methodClass} ${reason}`

/** What is known of a node for the calls of one class of methods. */
export interface Observations {
  readonly exclusion: ExclusionReason | undefined
  /** By an operator. */
  readonly isDrained: boolean
  readonly isBreakerOpen: boolean
  /** After a 429. */
  readonly isBackingOff: boolean
  readonly isRateSpent: boolean
  /** It has returned what is proven wrong. */
  readonly isDistrusted: boolean
  readonly suspensions: readonly Suspension[]
  /** The share of its calls that a slow node gets; 1 for a node that is not slow. */
  readonly slowShare: number
}

/** Whether a node may get calls of a class, and for which share of its usual calls it is requested first. */
interface Judgement {
  readonly usable: boolean
  /** From 0, which stands for "after the others", to 1. */
  readonly weight: number
  readonly reasons: readonly NodeReason[]
}

export const judge = (observed: Observations, now: number): Judgement => {
  const { exclusion, isDrained, isBreakerOpen, isBackingOff, isRateSpent, isDistrusted, suspensions, slowShare } = observed
  const share = suspensions.reduce((least, suspension) => Math.min(least, suspension.shareAt(now)), 1)
  const isRestricted = exclusion !== undefined || isDrained || isBreakerOpen || isBackingOff || isRateSpent || isDistrusted
  if (!isRestricted && share === 1 && slowShare === 1) return healthy
  const reasons: NodeReason[] = []
  if (exclusion !== undefined) reasons.push(exclusion)
  if (isDrained) reasons.push('drained')
  if (isBreakerOpen) reasons.push('breaker')
  else if (share === 0) reasons.push('suspect')
  if (isBackingOff) reasons.push('rateLimited')
  if (isRateSpent) reasons.push('rateSpent')
  if (isDistrusted) reasons.push('lied')
  if (share > 0 && share < 1) reasons.push('recovering')
  if (slowShare < 1) reasons.push('slow')
  return { usable: !reasons.some(reason => nodeReasons[reason].keepsAway), weight: share * slowShare, reasons }
}

const healthy: Judgement = { usable: true, weight: 1, reasons: [] }

/** How long a node is suspended: doubled each time that this happens again soon. */
const suspensionBackoff = { minMs: 1000, maxMs: 30_000 }
/** A recovery takes so many times the suspension before it. */
const recoveryFactor = 2
/** After so long with all of its calls a node begins anew with the shortest suspension. */
const calmMs = 60_000
/** The share with which a recovery begins. */
const minShare = 0.05

/**
 * A time in which other nodes are requested first, and the recovery after it, in which the share of the node grows evenly: a node that has come
 * back gets no burst of calls, and one that comes and goes gets fewer calls each time. What it is follows from the time alone.
 */
export class Suspension {
  readonly #backoff = new Backoff(suspensionBackoff)
  #ms = 0
  #until = -Infinity

  /** From 0 to 1. */
  shareAt(now: number): number {
    if (now < this.#until) return 0
    const recoveredRatio = (now - this.#until) / (recoveryFactor * this.#ms)
    return recoveredRatio < 1 ? Math.max(minShare, recoveredRatio) : 1
  }

  /** Without effect while the node is suspended. */
  begin(now: number): void {
    if (now < this.#until) return
    if (now - (this.#until + recoveryFactor * this.#ms) > calmMs) this.#backoff.reset()
    this.#ms = this.#backoff.next()
    this.#until = now + this.#ms
  }

  /** A circuit breaker has opened: the suspension lasts until recover(). */
  beginUntilRecovery(now: number): void {
    this.begin(now)
    this.#until = Infinity
  }

  recover(now: number): void {
    if (now < this.#until) this.#until = now
  }
}

/** The first call after a suspension goes to the node at once. */
const firstAccruedWeight = 1 - minShare

/** Between calls to a node that has lied, where no other can be asked and its last answer was not proven. */
const proofBackoff = { minMs: 1000, maxMs: 60_000 }

/** Of a node that has lied: when it may be asked for what it can prove. */
class ProofAttempts {
  readonly #backoff = new Backoff(proofBackoff)
  #isRight = false
  #from = -Infinity

  isDue(now: number): boolean {
    return now >= this.#from
  }

  /** One call at a time, until one is right. Returns how to end it: with undefined where the node was not asked, or its answer not waited for. */
  begin(clock: Pick<Services['clock'], 'monotonic'>): (isRight: boolean | undefined) => void {
    const before = this.#from
    if (!this.#isRight) this.#from = Infinity
    return isRight => {
      if (isRight === undefined) {
        this.#from = before
        return
      }
      this.#isRight = isRight
      if (isRight) this.#backoff.reset()
      this.#from = isRight ? -Infinity : clock.monotonic() + this.#backoff.next()
    }
  }
}

/** What is known of a node for the calls of one class. */
interface ClassState {
  readonly proofAttempts: ProofAttempts
  readonly breaker: CircuitBreaker
  readonly suspension: Suspension
  slowShare: number
  /** The node is requested first when this reaches 1. */
  accruedWeight: number
}

interface NodeStateOptions {
  readonly target: Target
  /** How long a circuit breaker stays open before the node is probed. */
  readonly openFor: number
  readonly services: Services
  /** Why it is excluded by its chain or its head. */
  exclusion(): ExclusionReason | undefined
  /** What operators read: a node may get a call that finds out whether it still is. */
  shownExclusion(): ExclusionReason | undefined
  /** Calls that wait for its response. */
  inFlight(): number
}

/** More than half of at least 20 calls. */
const breakerLimits = { errorPercent: 50, minCalls: 20 }

const probeTimeoutMs = 1000

/** All that is known of the health of one node, by class of method: what calls and probes have shown goes in, judge() says what follows. */
export class NodeState {
  readonly activity: UpstreamActivity
  readonly errors: NodeErrors
  /** Undefined while the node has limited nothing. Written here alone. */
  rateLimit: RateLimitBackoff | undefined
  readonly #options: NodeStateOptions
  readonly #rate: UpstreamRate | undefined
  readonly #classes = new Map<string, ClassState>()
  readonly #lateCalls = new Map<string, LateCalls>()
  /** By class and reason. */
  readonly #lastRestrictions = new Map<string, NodeStatus['lastRestrictions'][number]>()
  /** When those began that held when this was last looked at, by class and reason. */
  readonly #restrictedSince = new Map<string, number>()
  readonly #endReports: () => void

  constructor(options: NodeStateOptions) {
    const { target, services } = options
    this.#options = options
    this.activity = activityOf(target)
    this.errors = new NodeErrors(target.name, services)
    this.#rate = rateOf(target, services)
    this.#endReports = services.nodes.add(target.name, () => this.status)
  }

  judge(methodClass: string): Judgement {
    return judge(this.#observe(methodClass), this.#now)
  }

  /** Whether the node is requested first for this call of the class. */
  takesTurn(methodClass: string): boolean {
    const { weight } = this.judge(methodClass)
    if (weight === 1) return true
    const state = this.#of(methodClass)
    state.accruedWeight += weight
    if (state.accruedWeight < 1) return false
    state.accruedWeight -= 1
    return true
  }

  /** It has lied, and nothing else keeps calls away: where no other node can be asked, what it proves is right all the same. */
  mayProve(methodClass: string): boolean {
    const { target, services } = this.#options
    if (!services.nodes.trust.mayProve(target.name, methodClass)) return false
    const isKeptAway = this.judge(methodClass).reasons.some(reason => reason !== 'lied' && nodeReasons[reason].keepsAway)
    return !isKeptAway && this.#of(methodClass).proofAttempts.isDue(this.#now)
  }

  /** Undefined for a node that has not lied in the class. Returns how to end the attempt, as ProofAttempts.begin(). */
  beginProof(methodClass: string): ((isRight: boolean | undefined) => void) | undefined {
    const { target, services } = this.#options
    if (!services.nodes.trust.isDistrusted(target.name, methodClass)) return undefined
    return this.#of(methodClass).proofAttempts.begin(services.clock)
  }

  /** Milliseconds until the node may be usable again. */
  get retryInMs(): number {
    return this.rateLimit?.remainingMs || this.#rate?.remainingMs || this.#options.openFor
  }

  /** For operators. A rate that is spent now and then is shown for a second. */
  get status(): Omit<NodeStatus, 'network' | 'upstream' | 'turn'> {
    const shown = { exclusion: this.#options.shownExclusion(), isRateSpent: this.#rate?.isShownAsSpent === true }
    const reasonsFor = (methodClass: string) => judge({ ...this.#observe(methodClass), ...shown }, this.#now).reasons
    const ofAll = reasonsFor(allClasses)
    const restrictions = [...new Set([allClasses, ...this.#classes.keys()])].flatMap(methodClass =>
      reasonsFor(methodClass)
        .filter(reason => methodClass === allClasses || !ofAll.includes(reason))
        .map(reason => ({ class: methodClass, reason })),
    )
    const { usable } = judge({ ...this.#observe(allClasses), exclusion: shown.exclusion }, this.#now)
    const { target, inFlight } = this.#options
    for (const each of restrictions) this.#recordRestriction(each.class, each.reason)
    const inForce = new Set(restrictions.map(each => keyOf(each.class, each.reason)))
    for (const key of this.#restrictedSince.keys()) if (!inForce.has(key)) this.#restrictedSince.delete(key)
    const lastRestrictions = [...this.#lastRestrictions.values()]
    const errors = this.errors.list()
    return { lastRestrictions, errors, usable, restrictions, isPartner: target.source === 'partner', inFlight: inFlight() }
  }

  lateCallsOf(methodClass: string): LateCalls {
    return getOrCreate(this.#lateCalls, methodClass, this.#createLateCalls)
  }

  recordOutcome(methodClass: string, outcome: CallOutcome): void {
    this.#of(methodClass).breaker.record(outcome)
  }

  /** Returns the milliseconds for which the node gets no calls. */
  recordRateLimited(retryAfterSeconds: number | undefined): number {
    this.rateLimit ??= new RateLimitBackoff(this.#options.services.clock)
    this.rateLimit.onRateLimited(retryAfterSeconds)
    this.#recordRestriction(allClasses, 'rateLimited')
    return this.rateLimit.remainingMs
  }

  /** The node answers nothing: it gets no calls of any class. */
  recordHung(): void {
    this.#of(allClasses).breaker.open()
  }

  /** Calls of the class take far longer than usual. */
  recordSuspect(methodClass: string): void {
    this.#recordRestriction(methodClass, 'suspect')
    this.#suspend(methodClass, suspension => suspension.begin(this.#now))
    this.lateCallsOf(methodClass).reset()
  }

  /** `share`: of the calls that a node gets that is so much slower than others; 1 for one that is not. */
  recordSlowShare(methodClass: string, share: number): void {
    this.#of(methodClass).slowShare = share
  }

  stop(): void {
    this.#endReports()
    this.activity.stop()
    for (const { breaker } of this.#classes.values()) breaker.stop()
  }

  get #now(): number {
    return this.#options.services.clock.monotonic()
  }

  #of(methodClass: string): ClassState {
    return getOrCreate(this.#classes, methodClass, this.#createClass)
  }

  readonly #createLateCalls = (methodClass: string): LateCalls => new LateCalls(this.activity.latencyOf(methodClass))

  readonly #createClass = (methodClass: string): ClassState => ({
    breaker: this.#createBreaker(methodClass),
    proofAttempts: new ProofAttempts(),
    suspension: new Suspension(),
    slowShare: 1,
    accruedWeight: firstAccruedWeight,
  })

  #observe(methodClass: string): Observations {
    const { exclusion, target, services } = this.#options
    const [all, own] = [this.#of(allClasses), this.#of(methodClass)]
    return {
      exclusion: exclusion(),
      isDrained: services.nodes.drained.has(target.name),
      isBreakerOpen: all.breaker.isOpen || own.breaker.isOpen,
      isBackingOff: this.rateLimit?.mayRequest === false,
      isRateSpent: this.#rate !== undefined && this.#rate.remainingMs > 0,
      isDistrusted: services.nodes.trust.isDistrusted(target.name, methodClass),
      suspensions: [all.suspension, own.suspension],
      slowShare: own.slowShare,
    }
  }

  #recordRestriction(methodClass: string, reason: NodeReason): void {
    const key = keyOf(methodClass, reason)
    const at = this.#options.services.clock.now()
    const since = getOrCreate(this.#restrictedSince, key, () => at)
    this.#lastRestrictions.set(key, { class: methodClass, reason, at, since })
  }

  #suspend(methodClass: string, suspend: (suspension: Suspension) => void): void {
    const state = this.#of(methodClass)
    suspend(state.suspension)
    for (const each of methodClass === allClasses ? this.#classes.values() : [state]) each.accruedWeight = firstAccruedWeight
  }

  #createBreaker(methodClass: string): CircuitBreaker {
    const { target, openFor, services } = this.#options
    const { log, clock } = services
    return new CircuitBreaker({
      clock,
      ...breakerLimits,
      probeBackoff: { minMs: openFor, maxMs: openFor },
      probe: async () => (await this.activity.probe(services, probeTimeoutMs)) === 'healthy',
      onStateChange: state => {
        log.warn({ upstream: target.name, class: methodClass, breaker: state }, `circuit breaker ${state}`)
        if (state === 'open') this.#recordRestriction(methodClass, 'breaker')
        else this.#restrictedSince.delete(keyOf(methodClass, 'breaker'))
        this.#suspend(methodClass, suspension =>
          state === 'open' ? suspension.beginUntilRecovery(this.#now) : suspension.recover(this.#now),
        )
      },
    })
  }
}
