import { feelPulse, isFailure, Leave, withNotes } from '../../src/plugin.ts'
import type { Call, Failure, Next, Reply, Request, Services, Signal, Target } from '../../src/plugin.ts'
import { watchedBreaker } from './breaker.ts'
import type { Breaker, BreakerOptions, Verdict } from './breaker.ts'
import { Outdone } from './outdone.ts'
import { Pace } from './pace.ts'
import { Rest } from './rest.ts'

/** A call as it comes to failover, and the plugins below. */
export type FailoverCall = Call<'request' | 'account'>
export type Below = Next<'request' | 'account' | 'target'>

/** An own node or the partner, and what is known of its health. */
export class Node {
  readonly name: string
  readonly #target: Target
  readonly #pause: number
  readonly #services: Services
  readonly #faults: ReturnType<Services['metrics']['counter']>
  readonly #rest: Rest
  readonly #outdone: Outdone
  readonly #paces = mapOf(() => new Pace())
  readonly #breakers: PerClass<Breaker>
  /** Ends what is asked of it beside calls. */
  protected readonly closing = new Leave()

  constructor(target: Target, options: BreakerOptions, services: Services) {
    const { name } = target
    this.name = name
    this.#target = target
    this.#pause = options.pause
    this.#services = services
    this.#faults = services.metrics.counter('tollgate_upstream_faults_total', 'Calls that a node failed.', { upstream: name })
    this.#rest = new Rest(services.clock)
    this.#outdone = new Outdone(options, services)
    const probe = probeOf(target, services, this.closing)
    this.#breakers = mapOf(kind => watchedBreaker(name, kind, options, probe, services))
  }

  /** False while it is cut off for this class of method, or rests. */
  isUsable(kind: string): boolean {
    return this.#rest.isOver && !this.#breakers.get(whole).isOpen && !this.#breakers.get(kind).isOpen
  }

  /** Others answer what it fails: it comes last for this question. */
  isOutdone(request: Request): boolean {
    return this.#outdone.at(request)
  }

  /** Another one has answered the question that it replied to so. */
  outdo(request: Request, reply: Reply): void {
    this.#outdone.add(this.name, request, reply)
  }

  async ask(call: FailoverCall, kind: string, next: Below): Promise<Reply> {
    const { request } = call.notes
    const { clock } = this.#services
    const isTrial = this.#rest.take()
    const begun = clock.monotonic()
    let verdict: Verdict | undefined
    try {
      const reply = await next(withNotes(call, { target: this.#target }))
      verdict = this.#judge(reply, kind, request)
      if (verdict === 'good') this.#paces.get(kind).add(clock.monotonic() - begun)
      if (isLimited(reply)) this.#beginRest(reply, isTrial, request)
      return reply
    } finally {
      this.#rest.end(isTrial, verdict)
    }
  }

  /** In ms: 95 % of its calls of this class take less. Undefined while too few are known. */
  usual(kind: string): number | undefined {
    return this.#paces.get(kind).p95
  }

  /** In ms, until it may be usable again. */
  wait(): number {
    return this.#rest.left > 0 ? this.#rest.left : this.#pause
  }

  stop(): void {
    this.closing.abort()
    for (const breaker of this.#breakers.values()) breaker.stop()
  }

  #judge(reply: Reply, kind: string, request: Request): Verdict | undefined {
    const verdict = verdictOf(reply)
    if (verdict !== undefined) this.#breakers.get(kind).count(verdict)
    if (verdict === 'good') this.#outdone.clear(request)
    if (verdict === 'bad' && isFailure(reply)) this.#noteFault(reply, request)
    return verdict
  }

  #noteFault({ hangs, cause, error }: Failure, { method }: Request): void {
    if (hangs === true) this.#breakers.get(whole).trip()
    this.#faults.add()
    this.#services.log.warn({ upstream: this.name, method, cause: cause ?? error.message }, 'upstream failed')
  }

  #beginRest({ retryAfter }: Failure, wasTrial: boolean, { method }: Request): void {
    this.#rest.begin(retryAfter, wasTrial)
    this.#services.log.warn({ upstream: this.name, method, rest: this.#rest.left }, 'upstream limits us')
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

const probeOf = (target: Target, services: Services, signal: Signal): (() => Promise<Verdict>) =>
  shared(async () => ((await feelPulse(target, services, { timeout: 2000, signal })) === 'good' ? 'good' : 'bad'))

/** Whoever asks while it runs gets the same run. */
const shared = <T>(run: () => Promise<T>): (() => Promise<T>) => {
  let running: Promise<T> | undefined
  return () =>
    (running ??= run().finally(() => {
      running = undefined
    }))
}

/** Things by class of method, made when first asked for. */
interface PerClass<T> {
  get(kind: string): T
  values(): Iterable<T>
}

const mapOf = <T>(make: (kind: string) => T): PerClass<T> => {
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
