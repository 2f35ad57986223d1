import { CircuitBreaker, getOrCreate, metricDefinitions } from '../../src/plugin/internal.ts'
import type { CircuitBreakerOptions, CallOutcome } from '../../src/plugin/internal.ts'
import { isFailure } from '../../src/plugin/plugin.ts'
import type { Services, Failure, Reply } from '../../src/plugin/plugin.ts'
import type { FailoverOptions } from './failover-options.ts'

/** The class of the breaker that stops calls of every class. */
export const allClasses = 'all'

interface NodeBreakerEvents {
  /** Sends the node a cheap request: true closes the breaker. */
  probe: CircuitBreakerOptions['probe']
  onStateChange(methodClass: string, state: 'open' | 'closed'): void
}

/** More than half of at least 20 calls. */
const breakerLimits = { errorPercent: 50, minCalls: 20 }

/** The circuit breakers of one node, by class of method. */
export class NodeBreakers {
  readonly #upstream: string
  readonly #options: FailoverOptions['breaker']
  readonly #services: Services
  readonly #events: NodeBreakerEvents
  readonly #breakers = new Map<string, CircuitBreaker>()

  constructor(upstream: string, options: FailoverOptions['breaker'], services: Services, events: NodeBreakerEvents) {
    this.#upstream = upstream
    this.#options = options
    this.#services = services
    this.#events = events
  }

  of(methodClass: string): CircuitBreaker {
    return getOrCreate(this.#breakers, methodClass, this.#create)
  }

  /** Opens the breaker of all classes. */
  openAll(): void {
    this.of(allClasses).open()
  }

  isOpen(methodClass: string): boolean {
    return this.of(allClasses).isOpen || this.of(methodClass).isOpen
  }

  stop(): void {
    for (const breaker of this.#breakers.values()) breaker.stop()
  }

  readonly #create = (methodClass: string): CircuitBreaker => {
    const { log, metrics, clock } = this.#services
    const { openFor } = this.#options
    const labels = { upstream: this.#upstream, class: methodClass }
    const gauge = metrics.gauge(metricDefinitions.upstreamBreakerOpen, labels)
    gauge.set(0)
    return new CircuitBreaker({
      clock,
      ...breakerLimits,
      probeBackoff: { minMs: openFor, maxMs: openFor },
      probe: () => this.#events.probe(),
      onStateChange: state => {
        gauge.set(state === 'open' ? 1 : 0)
        log.warn({ ...labels, breaker: state }, `circuit breaker ${state}`)
        this.#events.onStateChange(methodClass, state)
      },
    })
  }
}

/**
 * Ignored are replies that are no evidence of the health of the node: rate limits, the gateway's own limits, a query that
 * takes too long, a caller who left, errors that callers can cause. If breakers counted those, one caller could open them
 * for everybody.
 */
export const outcomeOf = (reply: Reply): CallOutcome => {
  if (!isFailure(reply)) return reply.unexpectedType === true ? 'ignored' : 'success'
  if (reply.retryElsewhere === true) return 'ignored'
  if (reply.fault === 'upstream') return reply.source === 'gateway' || isRateLimited(reply) ? 'ignored' : 'failure'
  return reply.fault === 'caller' && (reply.kind === 'node' || reply.kind === 'tooMany') ? 'success' : 'ignored'
}

/** By the node itself. */
export const isRateLimited = (reply: Reply): reply is Failure =>
  isFailure(reply) && reply.category === 'rateLimited' && reply.source !== 'gateway'
