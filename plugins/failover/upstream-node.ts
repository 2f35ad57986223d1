import {
  Cancellation,
  CircuitBreaker,
  RateLimitBackoff,
  activityOf,
  copyReply,
  getOrCreate,
  isFailure,
  metricDefinitions,
  refuse,
  withContext,
} from '../../src/plugin/plugin.ts'
import type {
  Call,
  CallOutcome,
  Counter,
  Failure,
  Gauge,
  Histogram,
  Next,
  Reply,
  Request,
  Services,
  Target,
  UpstreamActivity,
} from '../../src/plugin/plugin.ts'
import { AttemptInFlight } from './attempt-in-flight.ts'
import type { MovableCall } from './attempt-in-flight.ts'
import { isRateLimited, outcomeOf } from './call-outcome.ts'
import { Deprioritizer } from './deprioritizer.ts'
import type { FailoverOptions } from './failover-options.ts'
import { lateAfterMs } from './hedging.ts'
import { LateCalls } from './late-calls.ts'

/** A call as failover gets it, and the plugins below failover. */
export type FailoverCall = Call<'request'>
export type NextBelow = Next<'request' | 'target'>

/** An own node or the partner, with its health: circuit breakers by class of method, rate limit, and what it fails to answer. */
export class UpstreamNode {
  readonly name: string
  readonly target: Target
  readonly #options: FailoverOptions['breaker']
  readonly #services: Services
  readonly #failures: Counter
  readonly #duration: Histogram
  readonly #rateLimited: Gauge
  readonly #requestsInFlight: Gauge
  #rateLimitTimer: ReturnType<Services['clock']['after']> | undefined
  readonly #rateLimit: RateLimitBackoff
  readonly #deprioritizer: Deprioritizer
  readonly #activity: UpstreamActivity
  readonly #inFlight = new Set<AttemptInFlight>()
  /** By class of method. */
  readonly #lateCalls = new Map<string, LateCalls>()
  /** The nodes that the last call could have gone to. */
  #peers: readonly UpstreamNode[] = []
  readonly #breakers = new Map<string, CircuitBreaker>()
  /** Ends requests that are not part of a call. */
  protected readonly cancellation = new Cancellation()

  constructor(target: Target, options: FailoverOptions['breaker'], services: Services) {
    const { name } = target
    this.name = name
    this.target = target
    this.#options = options
    this.#services = services
    this.#failures = services.metrics.counter(metricDefinitions.upstreamFailures, { upstream: name })
    this.#duration = services.metrics.histogram(metricDefinitions.upstreamRequestDuration, { upstream: name })
    this.#rateLimited = services.metrics.gauge(metricDefinitions.upstreamRateLimited, { upstream: name })
    this.#requestsInFlight = services.metrics.gauge(metricDefinitions.upstreamRequestsInFlight, { upstream: name })
    this.#rateLimit = new RateLimitBackoff(services.clock)
    this.#deprioritizer = new Deprioritizer(options, services)
    this.#activity = activityOf(target)
    this.#activity.onUnresponsive = () => this.#handleUnresponsive()
  }

  /** False while a breaker is open for this class of method, or the node is rate limiting. */
  isUsable(methodClass: string = allClasses): boolean {
    return this.#rateLimit.mayRequest && !this.#breakerOf(allClasses).isOpen && !this.#breakerOf(methodClass).isOpen
  }

  /** True while other nodes answer such requests, and this node fails them. */
  isDeprioritized(request: Request): boolean {
    return this.#deprioritizer.isDeprioritized(request)
  }

  /** Another node answered the request to which this node gave the reply. */
  recordAnsweredElsewhere(request: Request, reply: Reply): void {
    this.#deprioritizer.recordAnsweredElsewhere(this.name, request, reply)
  }

  async request(call: FailoverCall, methodClass: string, next: NextBelow, alternatives: Alternatives = noAlternatives): Promise<Reply> {
    const { clock } = this.#services
    const isProbe = this.#rateLimit.begin()
    const startedAt = clock.monotonic()
    const attempt = new AttemptInFlight(call.signal ?? call.origin.signal, alternatives)
    this.#inFlight.add(attempt)
    this.#requestsInFlight.add(1)
    this.#peers = alternatives.nodes
    let outcome: CallOutcome = 'ignored'
    try {
      const reply = this.#blameForTimeout(attempt.end(await next(this.#callBelow(call, attempt))), methodClass, startedAt)
      outcome = this.#recordReply(reply, methodClass, call)
      return reply
    } finally {
      const endedAt = clock.monotonic()
      this.#inFlight.delete(attempt)
      this.#requestsInFlight.add(-1)
      if (outcome === 'success') this.#recordLatency(methodClass, startedAt, endedAt)
      else if (attempt.isCanceled) this.#recordCanceled(methodClass, startedAt, endedAt)
      this.#duration.observe((endedAt - startedAt) / 1000)
      this.#rateLimit.end(isProbe, outcome === 'success')
    }
  }

  /** How long a call of this class may take before it is late. */
  lateAfterMs(methodClass: string): number {
    return lateAfterMs(this.#activity.latencyOf(methodClass))
  }

  /** A call of this class is late. Returns whether more of them are than usual. */
  recordLate(methodClass: string): boolean {
    const lateCalls = this.#lateCallsOf(methodClass)
    lateCalls.recordLate()
    return lateCalls.isFailing
  }

  /** Milliseconds until the node may be usable again. */
  retryInMs(): number {
    return this.#rateLimit.remainingMs > 0 ? this.#rateLimit.remainingMs : this.#options.openFor
  }

  /** Called when no pipeline uses the node any more. */
  stop(): void {
    this.cancellation.abort()
    this.#activity.stop()
    this.#rateLimitTimer?.cancel()
    for (const breaker of this.#breakers.values()) breaker.stop()
  }

  /** A heavy call that took too long is due to the caller, if meanwhile the node answered another of its class as fast as usual. */
  #blameForTimeout(reply: Reply, methodClass: string, startedAt: number): Reply {
    if (!isFailure(reply) || reply.category !== 'timeout' || reply.fault !== 'upstream') return reply
    // No other node could be requested, so the call was given its time. The node has responded to nothing meanwhile.
    if (this.#activity.isUnresponsive) this.#breakerOf(allClasses).open()
    const { lastUsualAt } = this.#activity.latencyOf(methodClass)
    if (!this.#services.methods.heavyClasses.has(methodClass) || lastUsualAt < startedAt) return reply
    const { source, upstream, category, kind, error } = reply
    return refuse('timeout', { source, upstream, category, data: kind === 'timeout' ? error.data : undefined })
  }

  #recordLatency(methodClass: string, startedAt: number, endedAt: number): void {
    if (endedAt - startedAt < this.lateAfterMs(methodClass)) this.#lateCallsOf(methodClass).recordInTime()
    this.#activity.latencyOf(methodClass).record(startedAt, endedAt)
  }

  /** What a failing node does not finish says nothing of how long its calls usually take. */
  #recordCanceled(methodClass: string, startedAt: number, endedAt: number): void {
    if (!this.#lateCallsOf(methodClass).isFailing) this.#activity.latencyOf(methodClass).recordCanceled(startedAt, endedAt)
  }

  #lateCallsOf(methodClass: string): LateCalls {
    return getOrCreate(this.#lateCalls, methodClass, createLateCalls)
  }

  #updateRateLimited(): void {
    const { remainingMs } = this.#rateLimit
    this.#rateLimited.set(remainingMs > 0 ? 1 : 0)
    this.#rateLimitTimer?.cancel()
    if (remainingMs > 0) this.#rateLimitTimer = this.#services.clock.after(remainingMs, () => this.#updateRateLimited())
  }

  #recordReply(reply: Reply, methodClass: string, { context: { request }, origin: { requestId } }: FailoverCall): CallOutcome {
    const outcome = outcomeOf(reply)
    this.#breakerOf(methodClass).record(outcome)
    if (outcome === 'success') this.#deprioritizer.recordSuccess(request)
    if (outcome === 'failure' && isFailure(reply)) this.#reportFailure(reply, request, requestId)
    if (isRateLimited(reply)) this.#beginBackoff(reply, request, requestId)
    return outcome
  }

  #reportFailure({ unresponsive, cause, error }: Failure, { method }: Request, requestId: string): void {
    if (unresponsive === true) this.#breakerOf(allClasses).open()
    this.#failures.add()
    this.#services.log.warn({ requestId, upstream: this.name, method, cause: cause ?? error.message }, 'upstream failed')
  }

  #beginBackoff({ retryAfter }: Failure, { method }: Request, requestId: string): void {
    this.#rateLimit.onRateLimited(retryAfter)
    this.#updateRateLimited()
    const { remainingMs: backoffMs } = this.#rateLimit
    this.#services.log.warn({ requestId, upstream: this.name, method, backoffMs }, 'upstream rate limited')
  }

  #breakerOf(methodClass: string): CircuitBreaker {
    return getOrCreate(this.#breakers, methodClass, this.#createBreaker)
  }

  readonly #createBreaker = (methodClass: string): CircuitBreaker => {
    const { log, metrics, clock } = this.#services
    const { openFor, window, ...limits } = this.#options
    const labels = { upstream: this.name, class: methodClass }
    const gauge = metrics.gauge(metricDefinitions.upstreamBreakerOpen, labels)
    gauge.set(0)
    return new CircuitBreaker({
      clock,
      ...limits,
      windowMs: window,
      probeBackoff: { minMs: openFor, maxMs: openFor },
      probe: this.#probe,
      onStateChange: state => {
        gauge.set(state === 'open' ? 1 : 0)
        log.warn({ ...labels, breaker: state }, `circuit breaker ${state}`)
      },
    })
  }

  readonly #probe = async (): Promise<boolean> => (await this.#activity.probe(this.#services, probeTimeoutMs)) === 'healthy'

  /** A copy of the call for the plugins below, which ends with the attempt. Written out, as withContext() is. */
  #callBelow(call: FailoverCall, attempt: AttemptInFlight): Call<'request' | 'target'> {
    const { message, origin, context } = withContext(call, { target: this.target })
    return { message, origin, signal: attempt, context }
  }

  /** Calls that can go to another node do, at once. The others are given their time, as a busy node may still answer. */
  #handleUnresponsive(): void {
    for (const attempt of this.#inFlight) attempt.move(unresponsive(this.target))
    if (this.#peers.some(node => node !== this && node.isUsable())) this.#breakerOf(allClasses).open()
  }
}

/** What else a call can do than wait for a node. */
export interface Alternatives extends MovableCall {
  /** The nodes that the call could go to. */
  readonly nodes: readonly UpstreamNode[]
}

const noAlternatives: Alternatives = { nodes: [], mayMove: () => false }

const unresponsive = ({ source, name: upstream }: Target): Failure =>
  copyReply(refuse('unavailable', { source, upstream, cause: 'upstream unresponsive' }), { unresponsive: true })

/** The class of the breaker that stops calls of every class. */
const allClasses = 'all'

const probeTimeoutMs = 1000

const createLateCalls = (): LateCalls => new LateCalls()
