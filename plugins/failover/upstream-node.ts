import { RateLimitBackoff, activityOf, getOrCreate, metricDefinitions, rateOf } from '../../src/plugin/internal.ts'
import type { CallOutcome, LatencyTracker, DirectNext, UpstreamActivity, UpstreamRate } from '../../src/plugin/internal.ts'
import { Cancellation, isFailure, refuse, withContext } from '../../src/plugin/plugin.ts'
import type { Call, Counter, Failure, Gauge, Histogram, Reply, Request, Services, Target, Timer } from '../../src/plugin/plugin.ts'
import { Deprioritizer } from './deprioritizer.ts'
import type { FailoverOptions } from './failover-options.ts'
import { LateCalls, NodeAttempt, hungSince, isKnown, late, lateAfterMs } from './late-calls.ts'
import type { MovableCall } from './late-calls.ts'
import { NodeBreakers, allClasses, isRateLimited, outcomeOf } from './node-breakers.ts'
import { NodeTraffic } from './traffic-share.ts'

/** A call as failover gets it, and the plugins below failover. */
export type FailoverCall = Call<'request'>
export type NextBelow = DirectNext<'request' | 'target'>

/** An own node or the partner, with its health: circuit breakers by class of method, rate limit, and what it fails to answer. */
export class UpstreamNode {
  readonly name: string
  readonly target: Target
  /** Which calls the node gets first. */
  readonly traffic: NodeTraffic
  /** Ends requests that are not part of a call. */
  protected readonly cancellation = new Cancellation()
  readonly #options: FailoverOptions['breaker']
  readonly #services: Services
  readonly #failures: Counter
  readonly #duration: Histogram
  readonly #rateLimited: Gauge
  readonly #requestsInFlight: Gauge
  readonly #activity: UpstreamActivity
  readonly #breakers: NodeBreakers
  readonly #rate: UpstreamRate | undefined
  /** By class of method. */
  readonly #lateCalls = new Map<string, LateCalls>()
  readonly #inFlight = new Set<NodeAttempt>()
  /** The nodes that the last call could have gone to. */
  #peers: readonly UpstreamNode[] = []
  /** Undefined while the node has limited nothing. */
  #rateLimit: RateLimitBackoff | undefined
  #rateLimitTimer: Timer | undefined
  /** Undefined while no other node has answered what this one failed. */
  #deprioritizer: Deprioritizer | undefined

  constructor(target: Target, options: FailoverOptions['breaker'], services: Services) {
    const { name } = target
    this.name = name
    this.target = Object.freeze(target) // all calls get it
    if (target.headers !== undefined) Object.freeze(target.headers)
    this.#options = options
    this.#services = services
    this.#failures = services.metrics.counter(metricDefinitions.upstreamFailures, { upstream: name })
    this.#duration = services.metrics.histogram(metricDefinitions.upstreamRequestDuration, { upstream: name })
    this.#rateLimited = services.metrics.gauge(metricDefinitions.upstreamRateLimited, { upstream: name })
    this.#requestsInFlight = services.metrics.gauge(metricDefinitions.upstreamRequestsInFlight, { upstream: name })
    this.#rate = rateOf(target, services)
    this.traffic = new NodeTraffic(name, services)
    this.#breakers = new NodeBreakers(name, options, services, {
      probe: async () => (await this.#activity.probe(services, probeTimeoutMs)) === 'healthy',
      onStateChange: (methodClass, state) => this.traffic.onBreaker(methodClass, state),
    })
    this.#activity = activityOf(target)
    this.#activity.onUnresponsive = failure => this.#handleUnresponsive(failure)
  }

  /** False while a breaker is open for this class of method, the node is rate limiting, or its rate is spent. */
  isUsable(methodClass: string = allClasses): boolean {
    const mayRequest = this.#rateLimit === undefined || this.#rateLimit.mayRequest
    return mayRequest && !this.#breakers.isOpen(methodClass) && (this.#rate === undefined || this.#rate.remainingMs === 0)
  }

  /** True while other nodes answer such requests, and this node fails them. */
  isDeprioritized(request: Request): boolean {
    return this.#deprioritizer?.isDeprioritized(request) === true
  }

  /** Another node answered the request to which this node gave the reply. */
  recordAnsweredElsewhere(request: Request, reply: Reply): void {
    this.#deprioritizer ??= new Deprioritizer(this.#options, this.#services)
    this.#deprioritizer.recordAnsweredElsewhere(this.name, request, reply)
  }

  async request(call: FailoverCall, methodClass: string, next: NextBelow, alternatives: Alternatives = noAlternatives): Promise<Reply> {
    const { clock } = this.#services
    const isProbe = this.#rateLimit?.begin() === true
    const startedAt = clock.monotonic()
    const attempt = new NodeAttempt(call.signal ?? call.origin.signal, alternatives, startedAt)
    this.#inFlight.add(attempt)
    this.#requestsInFlight.add(1)
    this.#peers = alternatives.nodes
    let outcome: CallOutcome = 'ignored'
    try {
      const reply = this.#blameForTimeout(
        attempt.replyFor(await next(withContext(call, { target: this.target }, attempt))),
        methodClass,
        startedAt,
      )
      outcome = this.#recordReply(reply, methodClass, call)
      return reply
    } finally {
      const endedAt = clock.monotonic()
      attempt.end()
      this.#inFlight.delete(attempt)
      this.#requestsInFlight.add(-1)
      if (outcome === 'success') this.#lateCallsOf(methodClass).recordAnswer(startedAt, endedAt)
      else if (attempt.isCanceled) this.#lateCallsOf(methodClass).recordCanceled(startedAt, endedAt)
      this.#duration.observe((endedAt - startedAt) / 1000)
      this.#rateLimit?.end(isProbe, outcome === 'success')
    }
  }

  latencyOf(methodClass: string): LatencyTracker {
    return this.#lateCallsOf(methodClass).latency
  }

  /** The classes of the calls that the node has answered. */
  get latencyClasses(): readonly string[] {
    return this.#activity.latencyClasses
  }

  /** Whether more calls of this class are late than usual. */
  isFailing(methodClass: string): boolean {
    return this.#lateCallsOf(methodClass).isFailing || this.traffic.isSuspended(methodClass)
  }

  /** A call of this class is late. */
  recordLate(methodClass: string, startedAt: number): void {
    this.#lateCallsOf(methodClass).recordLate(startedAt, this.#services.clock.monotonic())
    if (!this.traffic.isSuspended(methodClass)) this.#suspectIfSilent(methodClass)
  }

  /** The late calls of this class leave a node that is suspect, if they can go to another. */
  moveLateCalls(methodClass: string): void {
    if (!this.traffic.isSuspended(methodClass)) return
    const lateSince = this.#services.clock.monotonic() - lateAfterMs(this.latencyOf(methodClass))
    for (const attempt of this.#inFlight) if (attempt.isLate(methodClass, lateSince)) attempt.move(late(this.target))
  }

  /** The call leaves the node if it hangs and can go to another. */
  moveHungCall(methodClass: string, call: MovableCall): void {
    const since = hungSince(this.#services.clock.monotonic(), this.latencyOf(methodClass))
    for (const attempt of this.#inFlight) if (attempt.isOf(call) && attempt.isLate(methodClass, since)) attempt.move(late(this.target))
  }

  /** Milliseconds until the node may be usable again. */
  retryInMs(): number {
    return this.#rateLimit?.remainingMs || this.#rate?.remainingMs || this.#options.openFor
  }

  /** Called when no pipeline uses the node any more. */
  stop(): void {
    this.cancellation.abort()
    this.#activity.stop()
    this.#rateLimitTimer?.cancel()
    this.traffic.stop()
    this.#breakers.stop()
  }

  #lateCallsOf(methodClass: string): LateCalls {
    return getOrCreate(this.#lateCalls, methodClass, this.#createLateCalls)
  }

  readonly #createLateCalls = (methodClass: string): LateCalls => new LateCalls(this.#activity.latencyOf(methodClass))

  /** A heavy call that took too long is due to the caller, if meanwhile the node answered another of its class as fast as usual. */
  #blameForTimeout(reply: Reply, methodClass: string, startedAt: number): Reply {
    if (!isFailure(reply) || reply.category !== 'timeout' || reply.fault !== 'upstream') return reply
    // No other node could be requested, so the call was given its time. The node has responded to nothing meanwhile.
    if (this.#activity.isUnresponsive) this.#breakers.openAll()
    const { lastUsualAt } = this.latencyOf(methodClass)
    if (!this.#services.methods.heavyClasses.has(methodClass) || lastUsualAt < startedAt) return reply
    const { source, upstream, category, kind, error } = reply
    return refuse('timeout', { source, upstream, category, data: kind === 'timeout' ? error.data : undefined })
  }

  /**
   * Other nodes get the calls of this class first, at once, and the late calls go to them. A probe shows whether the node
   * hangs. One node of a class is suspect at a time, so that the others do not get all calls.
   */
  #suspectIfSilent(methodClass: string): void {
    const peers = this.#peers.filter(node => node !== this && node.isUsable(methodClass))
    if (peers.length === 0 || peers.some(node => node.traffic.isSuspended(methodClass))) return
    const peerMs = Math.min(
      ...peers.map(node => node.latencyOf(methodClass)).map(latency => (isKnown(latency) ? (latency.quantiles?.p95 ?? 0) : 0)),
    )
    const lateCalls = this.#lateCallsOf(methodClass)
    if (!lateCalls.isSuspect(this.#services.clock.monotonic(), peerMs)) return
    this.traffic.shareOf(methodClass).suspend()
    lateCalls.reset()
    this.#services.log.warn({ upstream: this.name, class: methodClass }, 'upstream suspect: calls take longer than usual')
    this.moveLateCalls(methodClass)
    void this.#activity.isAlive(this.#services)
  }

  #recordReply(reply: Reply, methodClass: string, { context: { request }, origin: { requestId } }: FailoverCall): CallOutcome {
    const outcome = outcomeOf(reply)
    this.#breakers.of(methodClass).record(outcome)
    if (outcome === 'success') this.#deprioritizer?.recordSuccess(request)
    if (outcome === 'failure' && isFailure(reply)) this.#reportFailure(reply, request, requestId)
    if (isRateLimited(reply)) this.#beginBackoff(reply, request, requestId)
    return outcome
  }

  #reportFailure({ unresponsive, cause, error }: Failure, { method }: Request, requestId: string): void {
    if (unresponsive === true) this.#breakers.openAll()
    this.#failures.add()
    this.#services.log.warn({ requestId, upstream: this.name, method, cause: cause ?? error.message }, 'upstream failed')
  }

  #beginBackoff({ retryAfter }: Failure, { method }: Request, requestId: string): void {
    const rateLimit = (this.#rateLimit ??= new RateLimitBackoff(this.#services.clock))
    rateLimit.onRateLimited(retryAfter)
    this.#showRateLimit(rateLimit)
    const { remainingMs: backoffMs } = rateLimit
    this.#services.log.warn({ requestId, upstream: this.name, method, backoffMs }, 'upstream rate limited')
  }

  #showRateLimit(rateLimit: RateLimitBackoff): void {
    const { remainingMs } = rateLimit
    this.#rateLimited.set(remainingMs > 0 ? 1 : 0)
    this.#rateLimitTimer?.cancel()
    if (remainingMs > 0) this.#rateLimitTimer = this.#services.clock.after(remainingMs, () => this.#showRateLimit(rateLimit))
  }

  /** Calls that can go to another node do, at once. The others are given their time, as a busy node may still answer. */
  #handleUnresponsive(failure: Failure): void {
    for (const attempt of this.#inFlight) attempt.move(failure)
    if (this.#peers.some(node => node !== this && node.isUsable())) this.#breakers.openAll()
  }
}

/** What else a call can do than wait for a node. */
export interface Alternatives extends MovableCall {
  /** The nodes that the call could go to. */
  readonly nodes: readonly UpstreamNode[]
}

const noAlternatives: Alternatives = { nodes: [], hedgedClass: undefined, mayMove: () => false }

const probeTimeoutMs = 1000
