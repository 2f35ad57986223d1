import { ShortLivedMap, allClasses, metricDefinitions } from '../../src/plugin/internal.ts'
import type { CallOutcome, ChainCheck, DirectNext, ExclusionReason, Heads, LatencyTracker } from '../../src/plugin/internal.ts'
import { Cancellation, isFailure, refuse, withContext } from '../../src/plugin/plugin.ts'
import type { Call, Failure, Gauge, Histogram, Reply, Request, Services, Target } from '../../src/plugin/plugin.ts'
import { Deprioritizer } from './deprioritizer.ts'
import type { FailoverOptions } from './failover-options.ts'
import { hungSince, lateAfterMs } from './late-calls.ts'
import { NodeAttempt, isRateLimited, late, outcomeOf } from './node-attempt.ts'
import type { MovableCall } from './node-attempt.ts'
import { isErrorOfNode } from './node-errors.ts'
import { NodeState } from './node-state.ts'

/** A call as failover gets it, and the plugins below failover. */
export type FailoverCall = Call<'request' | 'upstreams'>
export type NextBelow = DirectNext<'request' | 'target' | 'upstreams'>

/** An own node or the partner, the calls that it has, and what becomes of them by its state. */
export abstract class UpstreamNode {
  readonly name: string
  readonly target: Target
  readonly state: NodeState
  /** Ends requests that are not part of a call. */
  protected readonly cancellation = new Cancellation()
  readonly #options: FailoverOptions['breaker']
  readonly #services: Services
  readonly #duration: Histogram
  readonly #requestsInFlight: Gauge
  /** By number. */
  readonly #inFlight = new ShortLivedMap<number, NodeAttempt>()
  #attemptCount = 0
  /** The nodes that the last call could have gone to. */
  #peers: readonly UpstreamNode[] = []
  /** Undefined while no other node has answered what this one failed. */
  #deprioritizer: Deprioritizer | undefined

  constructor(target: Target, options: FailoverOptions['breaker'], services: Services) {
    const { name } = target
    const { metrics } = services
    this.name = name
    this.target = Object.freeze(target) // all calls get it
    if (target.headers !== undefined) Object.freeze(target.headers)
    this.#options = options
    this.#services = services
    this.#duration = metrics.histogram(metricDefinitions.upstreamRequestDuration, { upstream: name })
    this.#requestsInFlight = metrics.gauge(metricDefinitions.upstreamRequestsInFlight, { upstream: name })
    this.state = new NodeState({
      target,
      openFor: options.openFor,
      services,
      exclusion: () => this.exclusion,
      shownExclusion: () => this.shownExclusion,
      inFlight: () => this.#inFlight.size,
    })
    this.state.activity.onUnresponsive = failure => this.#handleUnresponsive(failure)
  }

  /** Why the node is excluded by its chain or its head. */
  protected abstract get exclusion(): ExclusionReason | undefined

  protected get shownExclusion(): ExclusionReason | undefined {
    return this.exclusion
  }

  isUsable(methodClass: string = allClasses): boolean {
    return this.state.judge(methodClass).usable
  }

  /** Other nodes get calls of this class first: its calls are late, or a breaker is open. */
  isSuspended(methodClass: string): boolean {
    return this.state.judge(methodClass).weight === 0
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
    const isProbe = this.state.rateLimit?.begin() === true
    const endProof = this.state.beginProof(methodClass)
    const endTrial = this.#deprioritizer?.begin(call.context.request)
    let isAnswered: boolean | undefined = false
    const startedAt = clock.monotonic()
    const attempt = new NodeAttempt(call.signal ?? call.origin.signal, alternatives, startedAt)
    const number = (this.#attemptCount += 1)
    this.#inFlight.set(number, attempt)
    this.#requestsInFlight.add(1)
    if (alternatives !== noAlternatives) this.#peers = alternatives.nodes
    let outcome: CallOutcome = 'ignored'
    try {
      const reply = this.#blameForTimeout(
        attempt.replyFor(await next(withContext(call, { target: this.target }, attempt))),
        methodClass,
        startedAt,
      )
      outcome = this.#recordReply(reply, methodClass, call)
      isAnswered = reply.source === 'gateway' || attempt.isCanceled ? undefined : !isFailure(reply)
      return reply
    } finally {
      endProof?.(isAnswered)
      endTrial?.(isAnswered)
      const answeredAt = this.state.activity.answeredAt(attempt)
      const endedAt = answeredAt ?? clock.monotonic()
      attempt.end()
      this.#inFlight.delete(number)
      this.#requestsInFlight.add(-1)
      if (outcome === 'success' || answeredAt !== undefined) this.state.lateCallsOf(methodClass).recordAnswer(startedAt, endedAt)
      else if (attempt.isCanceled) this.state.lateCallsOf(methodClass).recordCanceled(startedAt, endedAt)
      this.#duration.observe((endedAt - startedAt) / 1000)
      this.state.rateLimit?.end(isProbe, outcome === 'success')
    }
  }

  latencyOf(methodClass: string): LatencyTracker {
    return this.state.lateCallsOf(methodClass).latency
  }

  /** Whether more calls of this class are late than usual. */
  isFailing(methodClass: string): boolean {
    return this.state.lateCallsOf(methodClass).isFailing || this.isSuspended(methodClass)
  }

  /** Whether the node has answered this call, which waits for other nodes. */
  hasAnswered(call: MovableCall): boolean {
    for (const attempt of this.#inFlight.values()) if (attempt.isOf(call)) return this.#isAnswered(attempt)
    return false
  }

  /** A call of this class is late. */
  recordLate(methodClass: string, startedAt: number): void {
    this.state.lateCallsOf(methodClass).recordLate(startedAt, this.#services.clock.monotonic())
    if (!this.isSuspended(methodClass)) this.#suspectIfSilent(methodClass)
  }

  /** The late calls of this class leave a node that is suspect, if they can go to another. */
  moveLateCalls(methodClass: string): void {
    if (!this.isSuspended(methodClass)) return
    const lateSince = this.#services.clock.monotonic() - lateAfterMs(this.latencyOf(methodClass))
    for (const attempt of this.#inFlight.values())
      if (attempt.isLate(methodClass, lateSince) && !this.#isAnswered(attempt)) attempt.move(late(this.target))
  }

  /** The call leaves the node if it hangs and can go to another. */
  moveHungCall(methodClass: string, call: MovableCall): void {
    const since = hungSince(this.#services.clock.monotonic(), this.latencyOf(methodClass))
    for (const attempt of this.#inFlight.values())
      if (attempt.isOf(call) && attempt.isLate(methodClass, since) && !this.#isAnswered(attempt)) attempt.move(late(this.target))
  }

  /** Called when no pipeline uses the node any more. */
  stop(): void {
    this.cancellation.abort()
    this.state.stop()
  }

  #isAnswered(attempt: NodeAttempt): boolean {
    return this.state.activity.answeredAt(attempt) !== undefined
  }

  /** A heavy call that took too long is due to the caller, if meanwhile the node answered another of its class as fast as usual. */
  #blameForTimeout(reply: Reply, methodClass: string, startedAt: number): Reply {
    if (!isFailure(reply) || reply.category !== 'timeout' || reply.fault !== 'upstream') return reply
    // No other node could be requested, so the call was given its time. The node has responded to nothing meanwhile.
    if (this.state.activity.isUnresponsive) this.state.recordHung()
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
    if (peers.length === 0 || peers.some(node => node.isSuspended(methodClass))) return
    const peerMs = Math.min(
      ...peers.map(node => node.latencyOf(methodClass)).map(latency => (latency.isKnown ? (latency.quantiles?.p95 ?? 0) : 0)),
    )
    if (!this.state.lateCallsOf(methodClass).isSuspect(this.#services.clock.monotonic(), peerMs)) return
    this.state.recordSuspect(methodClass)
    this.#services.log.warn({ upstream: this.name, class: methodClass }, 'upstream suspect: calls take longer than usual')
    this.moveLateCalls(methodClass)
    void this.state.activity.isAlive(this.#services)
  }

  #recordReply(reply: Reply, methodClass: string, { context: { request }, origin: { requestId } }: FailoverCall): CallOutcome {
    const outcome = outcomeOf(reply)
    this.state.recordOutcome(methodClass, outcome)
    if (outcome === 'success') this.#deprioritizer?.recordSuccess(request)
    if (outcome !== 'success' && isErrorOfNode(reply)) this.state.errors.record(reply, request.method, requestId)
    if (outcome === 'failure' && isFailure(reply)) this.#reportFailure(reply, request, requestId)
    if (isRateLimited(reply)) {
      const backoffMs = this.state.recordRateLimited(reply.retryAfter)
      this.#services.log.warn({ requestId, upstream: this.name, method: request.method, backoffMs }, 'upstream rate limited')
    }
    return outcome
  }

  #reportFailure({ unresponsive, cause, error }: Failure, { method }: Request, requestId: string): void {
    if (unresponsive === true) this.state.recordHung()
    this.#services.log.warn({ requestId, upstream: this.name, method, cause: cause ?? error.message }, 'upstream failed')
  }

  /** Calls that can go to another node do, at once. The others are given their time, as a busy node may still answer. */
  #handleUnresponsive(failure: Failure): void {
    for (const attempt of this.#inFlight.values()) attempt.move(failure)
    if (this.#peers.some(node => node !== this && node.isUsable())) this.state.recordHung()
  }
}

/** What else a call can do than wait for a node. */
export interface Alternatives extends MovableCall {
  /** The nodes that the call could go to. */
  readonly nodes: readonly UpstreamNode[]
}

const noAlternatives: Alternatives = { nodes: [], hedgedClass: undefined, mayMove: () => false }

/** A node that is tracked: it gets calls once it is known to be on the network's chain. */
export class OwnNode extends UpstreamNode {
  readonly #heads: Heads
  readonly #chainCheck: ChainCheck

  constructor(target: Target, breaker: FailoverOptions['breaker'], services: Services) {
    super(target, breaker, services)
    this.#heads = services.heads
    this.#chainCheck = services.heads.chainCheckOf(target)
  }

  /** A pipeline that is being replaced goes on with the chain that its nodes had passed. */
  protected override get exclusion(): ExclusionReason | undefined {
    const reason = this.#heads.exclusionOf(this.name)
    const isOfChain = reason === 'chain' || reason === 'unverified'
    if (this.#chainCheck.result === 'passed') return isOfChain ? undefined : reason
    return isOfChain ? reason : 'unverified'
  }
}
