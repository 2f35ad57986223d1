import { probeUpstream, isFailure, Cancellation, metricDefinitions, withContext, singleFlight } from '../../src/plugin/plugin.ts'
import type { Call, Counter, Failure, Next, Reply, Request, Services, Signal, Target } from '../../src/plugin/plugin.ts'
import { openObservedBreaker } from './circuit-breaker.ts'
import type { Breaker, BreakerOptions, AttemptResult } from './circuit-breaker.ts'
import { Deprioritizer } from './deprioritizer.ts'
import { LatencyTracker } from './latency-tracker.ts'
import { RateLimitBackoff } from './rate-limit-backoff.ts'

/** A call as it comes to failover, and the plugins below. */
export type FailoverCall = Call<'request' | 'account'>
export type NextBelow = Next<'request' | 'account' | 'target'>

/** An own node or the partner, and what is known of its health. */
export class UpstreamNode {
  readonly name: string
  readonly #target: Target
  readonly #breakerOpenMs: number
  readonly #services: Services
  readonly #failures: Counter
  readonly #rateLimit: RateLimitBackoff
  readonly #deprioritizer: Deprioritizer
  readonly #latencies = createByMethodClass(() => new LatencyTracker())
  readonly #breakers: ByMethodClass<Breaker>
  /** Ends what is asked of it beside calls. */
  protected readonly cancellation = new Cancellation()

  constructor(target: Target, options: BreakerOptions, services: Services) {
    const { name } = target
    this.name = name
    this.#target = target
    this.#breakerOpenMs = options.openFor
    this.#services = services
    this.#failures = services.metrics.counter(metricDefinitions.upstreamFailures, { upstream: name })
    this.#rateLimit = new RateLimitBackoff(services.clock)
    this.#deprioritizer = new Deprioritizer(options, services)
    const probe = probeOf(target, services, this.cancellation)
    this.#breakers = createByMethodClass(kind => openObservedBreaker(name, kind, options, probe, services))
  }

  /** False while it is cut off for this class of method, or rests. */
  isUsable(kind: string): boolean {
    return this.#rateLimit.mayRequest && !this.#breakers.get(allClasses).isOpen && !this.#breakers.get(kind).isOpen
  }

  /** Others answer what it fails: it comes last for this question. */
  isDeprioritized(request: Request): boolean {
    return this.#deprioritizer.isDeprioritized(request)
  }

  /** Another one has answered the question that it replied to so. */
  deprioritize(request: Request, reply: Reply): void {
    this.#deprioritizer.recordOutdoneBy(this.name, request, reply)
  }

  async request(call: FailoverCall, kind: string, next: NextBelow): Promise<Reply> {
    const { request } = call.context
    const { clock } = this.#services
    const isTrial = this.#rateLimit.beginRequest()
    const begun = clock.monotonic()
    let verdict: AttemptResult | undefined
    try {
      const reply = await next(withContext(call, { target: this.#target }))
      verdict = this.#recordReply(reply, kind, request)
      if (verdict === 'good') this.#latencies.get(kind).record(clock.monotonic() - begun)
      if (isRateLimited(reply)) this.#beginBackoff(reply, isTrial, request)
      return reply
    } finally {
      this.#rateLimit.onOtherReply(isTrial, verdict)
    }
  }

  /** In ms: 95 % of its calls of this class take less. Undefined while too few are known. */
  p95LatencyMs(kind: string): number | undefined {
    return this.#latencies.get(kind).p95
  }

  /** In ms, until it may be usable again. */
  retryInMs(): number {
    return this.#rateLimit.remainingMs > 0 ? this.#rateLimit.remainingMs : this.#breakerOpenMs
  }

  stop(): void {
    this.cancellation.abort()
    for (const breaker of this.#breakers.values()) breaker.stop()
  }

  #recordReply(reply: Reply, kind: string, request: Request): AttemptResult | undefined {
    const result = attemptResultOf(reply)
    if (result !== undefined) this.#breakers.get(kind).record(result)
    if (result === 'good') this.#deprioritizer.recordSuccess(request)
    if (result === 'bad' && isFailure(reply)) this.#reportFailure(reply, request)
    return result
  }

  #reportFailure({ unresponsive, cause, error }: Failure, { method }: Request): void {
    if (unresponsive === true) this.#breakers.get(allClasses).open()
    this.#failures.add()
    this.#services.log.warn({ upstream: this.name, method, cause: cause ?? error.message }, 'upstream failed')
  }

  #beginBackoff({ retryAfter }: Failure, wasProbe: boolean, { method }: Request): void {
    this.#rateLimit.onRateLimited(retryAfter, wasProbe)
    this.#services.log.warn({ upstream: this.name, method, rest: this.#rateLimit.remainingMs }, 'upstream limits us')
  }
}

/** The class of a breaker that cuts off the node for all classes. */
const allClasses = 'all'

/**
 * Undefined says nothing about the node: its rate limit, ours, a query that takes too long, a caller who left, an error
 * that callers can bring about. Breakers that counted these would let one caller cut off everybody.
 */
const attemptResultOf = (reply: Reply): AttemptResult | undefined => {
  if (!isFailure(reply)) return reply.unexpectedType === true ? undefined : 'good'
  if (reply.retryElsewhere === true) return undefined
  if (reply.fault === 'upstream') return reply.source === 'gateway' || isRateLimited(reply) ? undefined : 'bad'
  return reply.fault === 'caller' && (reply.kind === 'node' || reply.kind === 'tooMany') ? 'good' : undefined
}

const isRateLimited = (reply: Reply): reply is Failure => isFailure(reply) && reply.category === 'rateLimited'

const probeOf = (target: Target, services: Services, signal: Signal): (() => Promise<AttemptResult>) =>
  singleFlight(async () => ((await probeUpstream(target, services, { timeoutMs: 2000, signal })) === 'good' ? 'good' : 'bad'))

/** Things by class of method, made when first asked for. */
interface ByMethodClass<T> {
  get(kind: string): T
  values(): Iterable<T>
}

const createByMethodClass = <T>(make: (kind: string) => T): ByMethodClass<T> => {
  const made = new Map<string, T>()
  return {
    get(kind) {
      const known = made.get(kind)
      if (known !== undefined) return known
      const fresh = make(kind)
      made.set(kind, fresh)
      return fresh
    },
    values: () => made.values(),
  }
}
