import { feelPulse, isFailure, Leave, withNotes } from '../../src/plugin.ts'
import type { Call, Failure, Next, Reply, Request, Services, Signal, Target } from '../../src/plugin.ts'
import { openBreaker } from './breaker.ts'
import type { Breaker, BreakerOptions, Verdict } from './breaker.ts'
import { Outdone } from './outdone.ts'
import { Pace } from './pace.ts'
import { Rest } from './rest.ts'

/** A call as it comes to failover, and the plugins below. */
export type FailoverCall = Call<'request' | 'account'>
export type Below = Next<'request' | 'account' | 'target'>

/** An own node or the partner, and what is known of its health. */
export interface Node {
  readonly name: string
  /** False while it is cut off for this class of method, or rests. */
  isUsable(kind: string): boolean
  /** Others answer what it fails: it comes last for this question. */
  isOutdone(request: Request): boolean
  /** Another one has answered the question that it replied to so. */
  outdo(request: Request, reply: Reply): void
  ask(call: FailoverCall, kind: string, next: Below): Promise<Reply>
  /** In ms: 95 % of its calls of this class take less. Undefined while too few are known. */
  usual(kind: string): number | undefined
  /** In ms, until it may be usable again. */
  wait(): number
  stop(): void
}

export const openNode = (target: Target, options: BreakerOptions, services: Services): Node => {
  const { name } = target
  const { clock, log, metrics } = services
  const faults = metrics.counter('tollgate_upstream_faults_total', 'Calls that a node failed.', { upstream: name })
  const rest = new Rest(clock)
  const outdone = new Outdone(options, services)
  const paces = mapOf(() => new Pace())
  const closing = new Leave()
  const probe = probeOf(target, services, closing)
  const breakers = mapOf(kind => watchedBreaker(name, kind, options, probe, services))

  const judge = (reply: Reply, kind: string, method: string): Verdict | undefined => {
    const verdict = verdictOf(reply)
    if (verdict !== undefined) breakers.get(kind).count(verdict)
    if (verdict !== 'bad' || !isFailure(reply)) return verdict
    if (reply.hangs === true) breakers.get(whole).trip()
    faults.add()
    log.warn({ upstream: name, method, cause: reply.cause ?? reply.error.message }, 'upstream failed')
    return verdict
  }
  return {
    name,
    isOutdone: request => outdone.at(request),
    outdo: (request, reply) => outdone.add(name, request, reply),
    isUsable: kind => rest.isOver && !breakers.get(whole).isOpen && !breakers.get(kind).isOpen,
    async ask(call, kind, next) {
      const { request } = call.notes
      const { method } = request
      const isTrial = rest.take()
      const begun = clock.monotonic()
      let verdict: Verdict | undefined
      try {
        const reply = await next(withNotes(call, { target }))
        verdict = judge(reply, kind, method)
        if (verdict === 'good') {
          paces.get(kind).add(clock.monotonic() - begun)
          outdone.clear(request)
        }
        if (isLimited(reply)) {
          rest.begin(reply.retryAfter, isTrial)
          log.warn({ upstream: name, method, rest: rest.left }, 'upstream limits us')
        }
        return reply
      } finally {
        rest.end(isTrial, verdict)
      }
    },
    usual: kind => paces.get(kind).p95,
    wait: () => rest.left > 0 ? rest.left : options.pause,
    stop() {
      closing.abort()
      for (const breaker of breakers.values()) breaker.stop()
    },
  }
}

/** The class of a breaker that cuts off the node for all classes. */
const whole = 'all'

/**
 * Undefined says nothing about the node: its rate limit, ours, a query that takes too long, a caller who left, an error
 * that callers can bring about. Breakers that counted these would let one caller cut off everybody.
 */
const verdictOf = (reply: Reply): Verdict | undefined => {
  if (!isFailure(reply)) return reply.odd === true ? undefined : 'good'
  if (reply.elsewhere === true) return undefined
  if (reply.fault === 'upstream') return reply.source === 'gateway' || isLimited(reply) ? undefined : 'bad'
  return reply.fault === 'caller' && (reply.kind === 'node' || reply.kind === 'tooMany') ? 'good' : undefined
}

const isLimited = (reply: Reply): reply is Failure => isFailure(reply) && reply.meaning === 'limited'

const watchedBreaker = (
  upstream: string, kind: string, options: BreakerOptions, probe: () => Promise<Verdict>, { log, metrics }: Services,
): Breaker => {
  const state = metrics.gauge('tollgate_breaker_open', '1 while the breaker is open.', { upstream, class: kind })
  let last = 'closed'
  state.set(0)
  return openBreaker(options, probe, now => {
    if (now === last) return // still open after a probe
    last = now
    state.set(now === 'open' ? 1 : 0)
    log.warn({ upstream, class: kind, breaker: now }, `breaker ${now}`)
  })
}

const probeOf = (target: Target, services: Services, signal: Signal): (() => Promise<Verdict>) =>
  shared(async () => await feelPulse(target, services, { timeout: 2000, signal }) === 'good' ? 'good' : 'bad')

/** Whoever asks while it runs gets the same run. */
const shared = <T>(run: () => Promise<T>): (() => Promise<T>) => {
  let running: Promise<T> | undefined
  return () => running ??= run().finally(() => { running = undefined })
}

/** Things by class of method, made when first asked for. */
const mapOf = <T>(make: (kind: string) => T): { get(kind: string): T, values(): Iterable<T> } => {
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
