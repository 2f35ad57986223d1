import {
  Cancellation,
  CircuitBreaker,
  LatencyTracker,
  RateLimitBackoff,
  getOrCreate,
  isFailure,
  metricDefinitions,
  probeUpstream,
  refuse,
  singleFlight,
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
} from '../../src/plugin/plugin.ts'
import { Deprioritizer } from './deprioritizer.ts'
import type { FailoverOptions } from './failover-options.ts'

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
  #rateLimitTimer: ReturnType<Services['clock']['after']> | undefined
  readonly #rateLimit: RateLimitBackoff
  readonly #deprioritizer: Deprioritizer
  /** By class of method. */
  readonly #latencies = new Map<string, LatencyTracker>()
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
    this.#rateLimit = new RateLimitBackoff(services.clock)
    this.#deprioritizer = new Deprioritizer(options, services)
  }

  /** False while a breaker is open for this class of method, or the node is rate limiting. */
  isUsable(methodClass: string): boolean {
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

  async request(call: FailoverCall, methodClass: string, next: NextBelow): Promise<Reply> {
    const { request } = call.context
    const { clock } = this.#services
    const isProbe = this.#rateLimit.begin()
    const startedAt = clock.monotonic()
    let outcome: CallOutcome = 'ignored'
    try {
      const reply = this.#blameForTimeout(await next(withContext(call, { target: this.target })), methodClass, startedAt)
      outcome = this.#recordReply(reply, methodClass, request)
      if (outcome === 'success') getOrCreate(this.#latencies, methodClass, createLatencyTracker).record(startedAt, clock.monotonic())
      return reply
    } finally {
      this.#duration.observe((clock.monotonic() - startedAt) / 1000)
      this.#rateLimit.end(isProbe, outcome === 'success')
    }
  }

  /** The 95th percentile of the latency of its calls of this class; undefined while there are too few. */
  p95LatencyMs(methodClass: string): number | undefined {
    return this.#latencies.get(methodClass)?.quantiles?.p95
  }

  /** Milliseconds until the node may be usable again. */
  retryInMs(): number {
    return this.#rateLimit.remainingMs > 0 ? this.#rateLimit.remainingMs : this.#options.openFor
  }

  /** Called when no pipeline uses the node any more. */
  stop(): void {
    this.cancellation.abort()
    this.#rateLimitTimer?.cancel()
    for (const breaker of this.#breakers.values()) breaker.stop()
  }

  /** A heavy call that took too long is due to the caller, if meanwhile the node answered another of its class as fast as usual. */
  #blameForTimeout(reply: Reply, methodClass: string, startedAt: number): Reply {
    if (!isFailure(reply) || reply.category !== 'timeout' || reply.fault !== 'upstream') return reply
    const lastUsualAt = this.#latencies.get(methodClass)?.lastUsualAt ?? -Infinity
    if (!this.#services.methods.heavyClasses.has(methodClass) || lastUsualAt < startedAt) return reply
    const { source, upstream, category, kind, error } = reply
    return refuse('timeout', { source, upstream, category, data: kind === 'timeout' ? error.data : undefined })
  }

  #updateRateLimited(): void {
    const { remainingMs } = this.#rateLimit
    this.#rateLimited.set(remainingMs > 0 ? 1 : 0)
    this.#rateLimitTimer?.cancel()
    if (remainingMs > 0) this.#rateLimitTimer = this.#services.clock.after(remainingMs, () => this.#updateRateLimited())
  }

  #recordReply(reply: Reply, methodClass: string, request: Request): CallOutcome {
    const outcome = outcomeOf(reply)
    this.#breakerOf(methodClass).record(outcome)
    if (outcome === 'success') this.#deprioritizer.recordSuccess(request)
    if (outcome === 'failure' && isFailure(reply)) this.#reportFailure(reply, request)
    if (isRateLimited(reply)) this.#beginBackoff(reply, request)
    return outcome
  }

  #reportFailure({ unresponsive, cause, error }: Failure, { method }: Request): void {
    if (unresponsive === true) this.#breakerOf(allClasses).open()
    this.#failures.add()
    this.#services.log.warn({ upstream: this.name, method, cause: cause ?? error.message }, 'upstream failed')
  }

  #beginBackoff({ retryAfter }: Failure, { method }: Request): void {
    this.#rateLimit.onRateLimited(retryAfter)
    this.#updateRateLimited()
    this.#services.log.warn({ upstream: this.name, method, backoffMs: this.#rateLimit.remainingMs }, 'upstream rate limited')
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

  /** One probe serves the breakers of all classes. */
  readonly #probe = singleFlight(async (): Promise<boolean> => {
    const result = await probeUpstream(this.target, this.#services, { timeoutMs: probeTimeoutMs, signal: this.cancellation })
    return result === 'healthy'
  })
}

/** The class of the breaker that stops calls of every class. */
const allClasses = 'all'

const probeTimeoutMs = 2000

/**
 * Ignored are replies that are no evidence of the health of the node: rate limits, the gateway's own limits, a query that
 * takes too long, a caller who left, errors that callers can cause. If breakers counted those, one caller could open them
 * for everybody.
 */
const outcomeOf = (reply: Reply): CallOutcome => {
  if (!isFailure(reply)) return reply.unexpectedType === true ? 'ignored' : 'success'
  if (reply.retryElsewhere === true) return 'ignored'
  if (reply.fault === 'upstream') return reply.source === 'gateway' || isRateLimited(reply) ? 'ignored' : 'failure'
  return reply.fault === 'caller' && (reply.kind === 'node' || reply.kind === 'tooMany') ? 'success' : 'ignored'
}

const isRateLimited = (reply: Reply): reply is Failure => isFailure(reply) && reply.category === 'rateLimited'

const createLatencyTracker = (): LatencyTracker => new LatencyTracker()
