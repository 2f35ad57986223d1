import { isFailure, refuse } from '../../src/plugin/plugin.ts'
import type { Clock, Failure, Method, Reply, Signal } from '../../src/plugin/plugin.ts'
import type { RetryBudget } from './retry-budget.ts'
import { hedge } from './hedge.ts'
import type { NextBelow, FailoverCall, UpstreamNode } from './upstream-node.ts'
import { resolveDuplicateTransaction } from './duplicate-transaction.ts'
import { attemptWithin } from './attempt-within.ts'

/** What a call's way depends on. */
export interface NodeSelection {
  readonly methodClass: string
  readonly method: Method | undefined
  /** Own nodes in the order in which this call tries them. */
  readonly candidates: readonly UpstreamNode[]
  readonly retryBudget: RetryBudget
  readonly clock: Clock
  readonly mayHedge: boolean
}

/** One call's way over the nodes. Each is asked once at most. */
export class FailoverAttempt {
  readonly #call: FailoverCall
  readonly #next: NextBelow
  readonly #selection: NodeSelection
  readonly #tried = new Set<UpstreamNode>()
  /** What nodes said to it that is not the answer, if another one knows better. */
  readonly #rejectedReplies: { readonly node: UpstreamNode; readonly reply: Reply }[] = []
  /** A node was asked and failed; the next one is an attempt beyond the first. */
  #hasFailed = false
  /** What the caller gets if no node knows better. */
  #bestFailure: Failure | undefined
  /** What no node should answer, but one did: better than nothing. */
  #unexpectedReply: Reply | undefined
  readonly #startedAt: number
  /** Own nodes work, but have more to do than they may. */
  #isAtConcurrencyLimit = false

  constructor(call: FailoverCall, next: NextBelow, selection: NodeSelection) {
    this.#call = call
    this.#next = next
    this.#selection = selection
    this.#startedAt = selection.clock.monotonic()
    selection.retryBudget.recordCall()
  }

  /** The partner is for an outage: each own node failed this call, or is cut off or rests. */
  async run(partner: UpstreamNode | undefined): Promise<Reply> {
    for (let node = this.#pickNode(); node !== undefined; node = this.#pickNode()) {
      const reply = await this.#attempt(node)
      if (reply !== undefined) return reply
    }
    const isOutage = (this.#bestFailure === undefined || this.#bestFailure.fault === 'upstream') && !this.#isAtConcurrencyLimit
    const forwarded = isOutage && partner?.isUsable(this.#selection.methodClass) ? await this.#attempt(partner) : undefined
    return forwarded ?? this.#unexpectedReply ?? this.#bestFailure ?? noUpstream(this.#selection.candidates)
  }

  #pickNode(): UpstreamNode | undefined {
    const { candidates, methodClass } = this.#selection
    const { request } = this.#call.context
    const mayAnswer = (each: UpstreamNode) => !this.#tried.has(each) && each.isUsable(methodClass)
    const node = candidates.find(each => mayAnswer(each) && !each.isDeprioritized(request)) ?? candidates.find(mayAnswer)
    if (node !== undefined) this.#tried.add(node)
    return node
  }

  /** Undefined: another node is to be asked. Without a place in the budget, or time, it is the end of the way. */
  async #attempt(node: UpstreamNode): Promise<Reply | undefined> {
    const { retryBudget, methodClass } = this.#selection
    const isRetry = this.#hasFailed
    if (isRetry && !(await retryBudget.reserve()))
      return this.#unexpectedReply ?? this.#bestFailure ?? noUpstream(this.#selection.candidates)
    let isFinal = false
    try {
      // It may have been cut off, or limit us, while its place was waited for.
      if (isRetry && !node.isUsable(methodClass)) {
        isFinal = true
        return undefined
      }
      const answer = await (isRetry ? this.#requestWithinMaxTime(node) : this.#request(node))
      if (answer === undefined) return this.#unexpectedReply ?? this.#bestFailure ?? retryTimeout(node)
      const settled = this.#resolveDuplicate(answer, node)
      const reply = settled instanceof Promise ? await settled : settled
      isFinal = isFinalReply(reply)
      if (!isFinal) this.#recordRejected(reply, node)
      else if (!isFailure(reply) && reply.source === 'node') {
        for (const beaten of this.#rejectedReplies) beaten.node.deprioritize(this.#call.context.request, beaten.reply)
      }
      return isFinal ? reply : undefined
    } finally {
      if (isRetry) retryBudget.release(!isFinal)
    }
  }

  /** Of two that were asked at once, the one that was asked second may have replied. */
  #recordRejected(reply: Reply, requestedNode: UpstreamNode): void {
    const node = this.#selection.candidates.find(({ name }) => name === reply.upstream) ?? requestedNode
    if (!isFailure(reply)) this.#unexpectedReply ??= reply
    this.#rejectedReplies.push({ node, reply })
    this.#hasFailed ||= reply.source !== 'gateway'
    if (!isFailure(reply)) return
    if (reply.retryElsewhere === true) this.#bestFailure = betterFailure(this.#bestFailure, reply)
    else if (reply.source === 'gateway') this.#isAtConcurrencyLimit = true
  }

  /** The time of a method is for all nodes together (contract 8). */
  #requestWithinMaxTime(node: UpstreamNode): Promise<Reply | undefined> {
    const { methodClass, method, clock } = this.#selection
    if (method?.maxTime === undefined) return this.#request(node)
    const signal = this.#call.signal ?? this.#call.origin.signal
    const remainingMs = method.maxTime - (clock.monotonic() - this.#startedAt)
    return attemptWithin(remainingMs, end => node.request({ ...this.#call, signal: end }, methodClass, this.#next), clock, signal)
  }

  #request(node: UpstreamNode): Promise<Reply> {
    const { methodClass, method, clock, mayHedge } = this.#selection
    const delay = mayHedge && method?.idempotent === true && !this.#hasFailed ? node.p95LatencyMs(methodClass) : undefined
    if (delay === undefined) return node.request(this.#call, methodClass, this.#next)
    const signal = this.#call.signal ?? this.#call.origin.signal
    const attemptOn = (one: UpstreamNode) => (end: Signal) => one.request({ ...this.#call, signal: end }, methodClass, this.#next)
    return hedge(
      attemptOn(node),
      () => {
        const other = this.#pickHedgeNode()
        return other && attemptOn(other)
      },
      { clock, signal, delayMs: delay, isFinal: isFinalReply, better: betterReply },
    )
  }

  /** An attempt that is not needed takes its place for good: it is load, whoever wins. */
  #pickHedgeNode(): UpstreamNode | undefined {
    const { retryBudget } = this.#selection
    if (!retryBudget.tryReserve()) return undefined
    const node = this.#pickNode()
    retryBudget.release(node !== undefined)
    return node
  }

  #resolveDuplicate(reply: Reply, node: UpstreamNode): Reply | Promise<Reply> {
    const { method, methodClass } = this.#selection
    if (method?.idempotent !== false || !this.#hasFailed || !isFailure(reply)) return reply
    return resolveDuplicateTransaction(reply, this.#call.context.request, request =>
      node.request({ ...this.#call, context: { ...this.#call.context, request } }, methodClass, this.#next),
    )
  }
}

/** Of answers that another node may better, the first that is about the question rather than about its node. */
const betterFailure = (one: Failure | undefined, other: Failure): Failure =>
  one === undefined || (one.fault === 'upstream' && other.fault !== 'upstream') ? other : one

const betterReply = (one: Reply, other: Reply): Reply => (!isFailure(one) ? one : isFailure(other) ? betterFailure(one, other) : other)

/** Whatever came, no other node need be asked. */
const isFinalReply = (reply: Reply): boolean =>
  isFailure(reply) ? reply.fault !== 'upstream' && reply.retryElsewhere !== true : reply.unexpectedType !== true

/** Nodes failed, and then the query had no time left: not the caller's doing, so it costs nothing. */
const retryTimeout = ({ name: upstream }: UpstreamNode): Failure => refuse('timeout', { upstream, fault: 'upstream' })

const noUpstream = (candidates: readonly UpstreamNode[]): Failure => {
  const retryInMs = Math.min(...candidates.map(node => node.retryInMs()))
  return refuse('unavailable', { retryAfter: Math.min(5, Math.max(1, Math.ceil(retryInMs / 1000))) })
}
