import { isFailure, refuse } from '../../src/plugin.ts'
import type { Clock, Failure, Method, Reply, Signal } from '../../src/plugin.ts'
import type { Budget } from './budget.ts'
import { hedge } from './hedge.ts'
import type { Below, FailoverCall, Node } from './node.ts'
import { settleSent } from './transaction.ts'
import { within } from './within.ts'

/** What a call's way depends on. */
export interface Choice {
  readonly kind: string
  readonly method: Method | undefined
  /** Own nodes in the order in which this call tries them. */
  readonly own: readonly Node[]
  readonly budget: Budget
  readonly clock: Clock
  readonly mayHedge: boolean
}

/** One call's way over the nodes. Each is asked once at most. */
export class Route {
  readonly #call: FailoverCall
  readonly #next: Below
  readonly #choice: Choice
  readonly #tried = new Set<Node>()
  /** What nodes said to it that is not the answer, if another one knows better. */
  readonly #beaten: { readonly node: Node; readonly reply: Reply }[] = []
  /** A node was asked and failed; the next one is an attempt beyond the first. */
  #hasFailed = false
  /** What the caller gets if no node knows better. */
  #best: Failure | undefined
  /** What no node should answer, but one did: better than nothing. */
  #odd: Reply | undefined
  readonly #begun: number
  /** Own nodes work, but have more to do than they may. */
  #isBusy = false

  constructor(call: FailoverCall, next: Below, choice: Choice) {
    this.#call = call
    this.#next = next
    this.#choice = choice
    this.#begun = choice.clock.monotonic()
    choice.budget.count()
  }

  /** The partner is for an outage: each own node failed this call, or is cut off or rests. */
  async run(partner: Node | undefined): Promise<Reply> {
    for (let node = this.#pick(); node !== undefined; node = this.#pick()) {
      const reply = await this.#try(node)
      if (reply !== undefined) return reply
    }
    const isOut = (this.#best === undefined || this.#best.fault === 'upstream') && !this.#isBusy
    const forwarded = isOut && partner?.isUsable(this.#choice.kind) ? await this.#try(partner) : undefined
    return forwarded ?? this.#odd ?? this.#best ?? outage(this.#choice.own)
  }

  #pick(): Node | undefined {
    const { own, kind } = this.#choice
    const { request } = this.#call.notes
    const mayAnswer = (each: Node) => !this.#tried.has(each) && each.isUsable(kind)
    const node = own.find(each => mayAnswer(each) && !each.isOutdone(request)) ?? own.find(mayAnswer)
    if (node !== undefined) this.#tried.add(node)
    return node
  }

  /** Undefined: another node is to be asked. Without a place in the budget, or time, it is the end of the way. */
  async #try(node: Node): Promise<Reply | undefined> {
    const { budget, kind } = this.#choice
    const isExtra = this.#hasFailed
    if (isExtra && !(await budget.start())) return this.#odd ?? this.#best ?? outage(this.#choice.own)
    let isFinal = false
    try {
      // It may have been cut off, or limit us, while its place was waited for.
      if (isExtra && !node.isUsable(kind)) {
        isFinal = true
        return undefined
      }
      const answer = await (isExtra ? this.#askInTime(node) : this.#ask(node))
      if (answer === undefined) return this.#odd ?? this.#best ?? late(node)
      const settled = this.#settle(answer, node)
      const reply = settled instanceof Promise ? await settled : settled
      isFinal = isLast(reply)
      if (!isFinal) this.#note(reply, node)
      else if (!isFailure(reply) && reply.source === 'node') {
        for (const beaten of this.#beaten) beaten.node.outdo(this.#call.notes.request, beaten.reply)
      }
      return isFinal ? reply : undefined
    } finally {
      if (isExtra) budget.finish(!isFinal)
    }
  }

  /** Of two that were asked at once, the one that was asked second may have replied. */
  #note(reply: Reply, asked: Node): void {
    const node = this.#choice.own.find(({ name }) => name === reply.upstream) ?? asked
    if (!isFailure(reply)) this.#odd ??= reply
    this.#beaten.push({ node, reply })
    this.#hasFailed ||= reply.source !== 'gateway'
    if (!isFailure(reply)) return
    if (reply.elsewhere === true) this.#best = better(this.#best, reply)
    else if (reply.source === 'gateway') this.#isBusy = true
  }

  /** The time of a method is for all nodes together (contract 8). */
  #askInTime(node: Node): Promise<Reply | undefined> {
    const { kind, method, clock } = this.#choice
    if (method?.maxTime === undefined) return this.#ask(node)
    const signal = this.#call.signal ?? this.#call.origin.signal
    const left = method.maxTime - (clock.monotonic() - this.#begun)
    return within(left, end => node.ask({ ...this.#call, signal: end }, kind, this.#next), clock, signal)
  }

  #ask(node: Node): Promise<Reply> {
    const { kind, method, clock, mayHedge } = this.#choice
    const delay = mayHedge && method?.resend === true && !this.#hasFailed ? node.usual(kind) : undefined
    if (delay === undefined) return node.ask(this.#call, kind, this.#next)
    const signal = this.#call.signal ?? this.#call.origin.signal
    const askUntil = (one: Node) => (end: Signal) => one.ask({ ...this.#call, signal: end }, kind, this.#next)
    return hedge(
      askUntil(node),
      () => {
        const other = this.#pickExtra()
        return other && askUntil(other)
      },
      { clock, signal, delay, isGood: isLast, better: betterReply },
    )
  }

  /** An attempt that is not needed takes its place for good: it is load, whoever wins. */
  #pickExtra(): Node | undefined {
    const { budget } = this.#choice
    if (!budget.startNow()) return undefined
    const node = this.#pick()
    budget.finish(node !== undefined)
    return node
  }

  #settle(reply: Reply, node: Node): Reply | Promise<Reply> {
    const { method, kind } = this.#choice
    if (method?.resend !== false || !this.#hasFailed || !isFailure(reply)) return reply
    return settleSent(reply, this.#call.notes.request, request =>
      node.ask({ ...this.#call, notes: { ...this.#call.notes, request } }, kind, this.#next),
    )
  }
}

/** Of answers that another node may better, the first that is about the question rather than about its node. */
const better = (one: Failure | undefined, other: Failure): Failure =>
  one === undefined || (one.fault === 'upstream' && other.fault !== 'upstream') ? other : one

const betterReply = (one: Reply, other: Reply): Reply => (!isFailure(one) ? one : isFailure(other) ? better(one, other) : other)

/** Whatever came, no other node need be asked. */
const isLast = (reply: Reply): boolean => (isFailure(reply) ? reply.fault !== 'upstream' && reply.elsewhere !== true : reply.odd !== true)

/** Nodes failed, and then the query had no time left: not the caller's doing, so it costs nothing. */
const late = ({ name: upstream }: Node): Failure => refuse('timeout', { upstream, fault: 'upstream' })

const outage = (own: readonly Node[]): Failure => {
  const wait = Math.min(...own.map(node => node.wait()))
  return refuse('unavailable', { retryAfter: Math.min(5, Math.max(1, Math.ceil(wait / 1000))) })
}
