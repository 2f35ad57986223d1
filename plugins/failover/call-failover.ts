import { copyReply, isFailure, isJsonNull } from '../../src/plugin/plugin.ts'
import type { Failure, Reply, Request, Signal } from '../../src/plugin/plugin.ts'
import { findSentAtNodes, resolveDuplicateTransaction } from './duplicate-transaction.ts'
import { lateAfterMs, silentAfterMs } from './late-calls.ts'
import { attemptWithin, hedge } from './hedging.ts'
import { late } from './node-attempt.ts'
import type { Attempt } from './hedging.ts'
import type { NodeSelection } from './node-selection.ts'
import { RejectedReplies, isFinalReply, noUpstream, retryTimeout } from './retries.ts'
import type { Alternatives, FailoverCall, NextBelow, UpstreamNode } from './upstream-node.ts'

/** The failover of one call: it tries node after node, each at most once, until a reply is final. */
export class CallFailover implements Alternatives {
  readonly nodes: readonly UpstreamNode[]
  readonly #call: FailoverCall
  readonly #next: NextBelow
  readonly #selection: NodeSelection
  /** On the monotonic clock. */
  readonly #startedAt: number
  /** Requests to nodes. */
  #attemptCount = 0
  readonly #triedNodes: UpstreamNode[] = []
  readonly #rejected = new RejectedReplies()
  #isRetryBudgetExhausted = false
  /** It was silent, so that another node was asked too. */
  #silentNode: UpstreamNode | undefined
  /** It has waited for a node to get the required block. */
  #hasWaited = false

  constructor(call: FailoverCall, next: NextBelow, selection: NodeSelection) {
    this.#call = call
    this.#next = next
    this.#selection = selection
    this.nodes = selection.candidates
    this.#startedAt = selection.clock.monotonic()
    selection.nodes.retryBudget.recordCall(this.#startedAt)
    selection.nodes.hedgeBudget.recordCall(this.#startedAt)
  }

  /** The reply says how nodes were requested. */
  async run(): Promise<Reply> {
    let reply: Reply | undefined
    while (reply === undefined && !this.#isRetryBudgetExhausted) {
      const node = this.#pickNode() ?? (await this.#waitForNode())
      if (node === undefined) break
      reply = this.#rejected.hasFailed ? await this.#retry(node) : await this.#requestFirst(node)
    }
    reply ??= (await this.#forward()) ?? this.#lastReply
    this.#rejected.releaseAllBut(reply)
    if (isFailure(reply)) reply = await this.#findSent(reply)
    const durationMs = this.#selection.clock.monotonic() - this.#startedAt
    return copyReply(reply, { upstreamRequest: { id: this.#call.origin.requestId, attempts: this.#attemptCount, durationMs } })
  }

  #pickNode(): UpstreamNode | undefined {
    const node = this.#findNode() ?? this.#findProvingNode()
    if (node !== undefined) this.#triedNodes.push(node)
    return node
  }

  /** The next node to try, of those that are allowed. */
  #findNode(isAllowed?: (node: UpstreamNode) => boolean): UpstreamNode | undefined {
    return this.#selection.candidates.find(node => this.#isUntried(node) && this.#hasRequiredBlock(node) && isAllowed?.(node) !== false)
  }

  /** Where no node can be asked that has not lied: the plugin that found that out refuses what the node does not prove. */
  #findProvingNode(): UpstreamNode | undefined {
    const { candidates, methodClass } = this.#selection
    if (candidates.some(node => node.isUsable(methodClass))) return undefined
    return candidates.find(node => !this.#triedNodes.includes(node) && node.state.mayProve(methodClass) && this.#hasRequiredBlock(node))
  }

  #isUntried(node: UpstreamNode): boolean {
    return !this.#triedNodes.includes(node) && node.isUsable(this.#selection.methodClass)
  }

  /** Whether another node, or the partner, can be requested. */
  mayMove(): boolean {
    const { candidates, partner, methodClass } = this.#selection
    return candidates.some(node => this.#isUntried(node)) || partner?.isUsable(methodClass) === true
  }

  get hedgedClass(): string | undefined {
    const { isHedgeable, methodClass } = this.#selection
    return isHedgeable ? methodClass : undefined
  }

  #hasRequiredBlock({ name }: UpstreamNode): boolean {
    const { requiredBlock, heads } = this.#selection
    return requiredBlock === undefined || heads.hasBlock(name, requiredBlock.number)
  }

  /** A node that gets the required block soon, when no node that has it can answer; or one that has it and can be requested again. */
  async #waitForNode(): Promise<UpstreamNode | undefined> {
    const { candidates, requiredBlock, heads } = this.#selection
    if (requiredBlock === undefined || this.#hasWaited || this.#rejected.bestFailure?.fault === 'caller') return undefined
    const lagging = candidates.filter(node => this.#isUntried(node))
    if (lagging.length === 0) return undefined
    this.#hasWaited = true
    const limits = { timeoutMs: maxCatchUpMs, isOver: () => this.#findNode() !== undefined, signal: this.#signal }
    const names = lagging.map(({ name }) => name)
    await heads.waitForBlock(names, requiredBlock.number, limits)
    return this.#pickNode()
  }

  /** The first attempt: the final reply. What the partner is asked before, and what the call has waited for a node, counts as its time too. */
  async #requestFirst(node: UpstreamNode): Promise<Reply | undefined> {
    if (!this.#hasWaited && node !== this.#selection.partner) return this.#finalOf(await this.#request(node), node)
    const reply = await this.#requestWithinMaxTime(node)
    return reply === undefined ? retryTimeout(node) : this.#finalOf(reply, node)
  }

  /** An attempt after a failed one: the final reply, undefined when another node may be tried. Without time the best reply so far is final. */
  async #retry(node: UpstreamNode): Promise<Reply | undefined> {
    const { nodes, methodClass } = this.#selection
    const { retryBudget, retries } = nodes
    if (!this.#mayRetry) return this.#lastReply
    if (!(await retryBudget.reserve())) {
      this.#isRetryBudgetExhausted = true
      return undefined
    }
    let hasRetryFailed = true
    try {
      // A breaker may have opened, or a rate limit begun, while the budget was waited for.
      if (!node.isUsable(methodClass) && !node.state.mayProve(methodClass)) {
        hasRetryFailed = false
        return undefined
      }
      retries.retry.add()
      const reply = await this.#requestWithinMaxTime(node)
      if (reply === undefined) return this.#rejected.best ?? retryTimeout(node)
      const final = this.#finalOf(await this.#resolveDuplicate(reply, node), node)
      hasRetryFailed = final === undefined
      return final
    } finally {
      retryBudget.release(hasRetryFailed)
    }
  }

  /** No longer once the time is over for which the caller lets a node wait. */
  get #mayRetry(): boolean {
    const { method, mayRetry, clock } = this.#selection
    const waitMs = method?.waitMs(this.#call.context.request.params) ?? 0
    return mayRetry && (waitMs === 0 || clock.monotonic() - this.#startedAt < waitMs)
  }

  /**
   * The reply of the partner, which is for outages: each own node failed this call, has an open breaker or is rate limiting, or none may
   * be retried. Takes nothing of the retry budget, which bounds what failing calls add to the load of own nodes.
   */
  async #forward(): Promise<Reply | undefined> {
    const { partner, methodClass, nodes } = this.#selection
    const { hasFailed } = this.#rejected
    if (!this.#rejected.isOutage || partner?.isUsable(methodClass) !== true) return undefined
    if (hasFailed && !this.#mayRetry) return undefined
    nodes.retries.partner.add()
    if (!hasFailed) return this.#requestFirst(partner)
    const reply = await this.#requestWithinMaxTime(partner)
    if (reply === undefined) return this.#rejected.best ?? retryTimeout(partner)
    return this.#finalOf(await this.#resolveDuplicate(reply, partner), partner)
  }

  /** The reply, if it is final. A result of an own node then counts against the nodes whose replies were rejected. */
  #finalOf(reply: Reply, node: UpstreamNode): Reply | undefined {
    if (!isFinalReply(reply)) return this.#reject(reply, node)
    if (this.#isMissedBy(node, reply)) return this.#rejected.addMissing(reply)
    if (!isFailure(reply) && reply.source === 'node') this.#recordAnswered(reply.upstream ?? node.name)
    return reply
  }

  #recordAnswered(upstream: string): void {
    const { request } = this.#call.context
    this.#rejected.recordAnsweredElsewhere(request)
    if (this.#silentNode !== undefined && this.#silentNode.name !== upstream)
      this.#silentNode.recordAnsweredElsewhere(request, late(this.#silentNode.target))
  }

  /** What callers ask for by its hash may be in the reported block, which the node lacks; or in a block that is not on the node's branch. */
  #isMissedBy(pickedNode: UpstreamNode, reply: Reply): boolean {
    const { method, requiredBlock, heads } = this.#selection
    if (isFailure(reply) || !isJsonNull(reply.result) || requiredBlock !== undefined) return false
    const isBehind = method?.reports !== undefined && !heads.hasBlock(reply.upstream ?? pickedNode.name)
    return (isBehind || this.#isAboutKnownBlock) && this.#findNode() !== undefined
  }

  /** Such a block has no uncle mostly, for which `null` is right. */
  get #isAboutKnownBlock(): boolean {
    const { method, blocks, heads } = this.#selection
    return blocks !== undefined && 'hash' in blocks && method?.result !== 'objectOrNull' && heads.isKnownBlock(blocks.hash)
  }

  /** The reply may come from the hedge of the request rather than from the node that was picked. */
  #reject(reply: Reply, pickedNode: UpstreamNode): undefined {
    const node = this.#selection.candidates.find(({ name }) => name === reply.upstream) ?? pickedNode
    this.#rejected.add(reply, node)
  }

  /** When no node is left to try. */
  get #lastReply(): Reply {
    const { candidates } = this.#selection
    return this.#rejected.bestOf(candidates.length) ?? noUpstream(candidates)
  }

  /** The maxTime of a method bounds all attempts together (contract 8). Undefined when it is over. */
  #requestWithinMaxTime(node: UpstreamNode): Promise<Reply | undefined> {
    const { method, clock } = this.#selection
    if (method?.maxTime === undefined) return this.#request(node)
    const remainingMs = method.maxTime - (clock.monotonic() - this.#startedAt)
    return attemptWithin(remainingMs, this.#attemptOn(node), clock, this.#signal)
  }

  #request(node: UpstreamNode): Promise<Reply> {
    const { method, methodClass, clock, isHedgeable, isHedgedWhenSilent } = this.#selection
    if (!(isHedgeable || isHedgedWhenSilent) || this.#rejected.hasFailed) return this.#send(node, this.#call)
    const startedAt = clock.monotonic()
    const latency = node.latencyOf(methodClass)
    const onLate = (isFirstTime: boolean) => (isHedgeable ? this.#hedge(node, startedAt, isFirstTime) : this.#hedgeSilent(node, startedAt))
    const delayMs = isHedgeable ? lateAfterMs(latency) : silentAfterMs(latency, method?.maxTime)
    const onRejected = (reply: Reply): void => this.#reject(reply, node)
    return hedge(this.#attemptOn(node), onLate, { clock, signal: this.#signal, delayMs, onRejected })
  }

  /**
   * The node is silent about a heavy call. Where it has answered another of the class as fast as usual since, it is the query that takes long, and no
   * other node would be faster.
   */
  #hedgeSilent(silentNode: UpstreamNode, startedAt: number): Attempt | undefined {
    const { method, methodClass, clock } = this.#selection
    if (silentNode.latencyOf(methodClass).lastUsualAt >= startedAt) return undefined
    const node = this.#findHedgeNode()
    if (node === undefined || !this.#reserveHedge(node, true)) return undefined
    if (!silentNode.hasAnswered(this)) this.#silentNode = silentNode
    const attempt = this.#attemptOn(node)
    if (method?.maxTime === undefined) return attempt
    const remainingMs = method.maxTime - (clock.monotonic() - startedAt)
    return async signal => (await attemptWithin(remainingMs, attempt, clock, signal)) ?? retryTimeout(node)
  }

  /** The call is late on this node: an attempt on another one, if there is one and the budget allows it. */
  #hedge(lateNode: UpstreamNode, startedAt: number, isFirstTime: boolean): Attempt | undefined {
    const { methodClass } = this.#selection
    if (isFirstTime && !lateNode.hasAnswered(this)) lateNode.recordLate(methodClass, startedAt)
    const node = this.#findHedgeNode()
    if (node !== undefined && this.#reserveHedge(node, lateNode.isFailing(methodClass))) return this.#attemptOn(node)
    lateNode.moveLateCalls(methodClass)
    // Not at first: where the event loop was blocked, responses are read before the next time.
    if (node !== undefined && !isFirstTime) lateNode.moveHungCall(methodClass, this)
    return undefined
  }

  #findHedgeNode(): UpstreamNode | undefined {
    const { methodClass, requiredBlock, heads, nodes } = this.#selection
    const { hedgeNodes } = nodes
    // A transaction or a receipt is null where the node is behind.
    const isCurrent = ({ name }: UpstreamNode) => requiredBlock !== undefined || heads.hasBlock(name)
    const mayHedge = (each: UpstreamNode) => hedgeNodes.has(each) && isCurrent(each) && !each.isSuspended(methodClass)
    return hedgeNodes.size === 0 ? undefined : this.#findNode(mayHedge)
  }

  /** False when the budget is exhausted. */
  #reserveHedge(node: UpstreamNode, isFailing: boolean): boolean {
    const { hedgeBudget, retries } = this.#selection.nodes
    if (!hedgeBudget.reserve(isFailing)) return false
    this.#triedNodes.push(node)
    retries.hedge.add()
    return true
  }

  get #signal(): Signal {
    return this.#call.signal ?? this.#call.origin.signal
  }

  #send(node: UpstreamNode, call: FailoverCall): Promise<Reply> {
    this.#attemptCount += 1
    return node.request(call, this.#selection.methodClass, this.#next, this)
  }

  #attemptOn(node: UpstreamNode): Attempt {
    const { message, origin, startedAtMs, context } = this.#call
    return signal => this.#send(node, { message, origin, signal, startedAtMs, context })
  }

  #resolveDuplicate(reply: Reply, node: UpstreamNode): Reply | Promise<Reply> {
    if (this.#selection.method?.idempotent !== false || !isFailure(reply)) return reply
    return resolveDuplicateTransaction(reply, this.#call.context.request, request => this.#lookUp(request, node))
  }

  async #findSent(failure: Failure): Promise<Reply> {
    const { method, mayRetry, methodClass, nodes } = this.#selection
    if (method?.idempotent !== false || !mayRetry || !this.#rejected.hasFailed || failure.fault !== 'upstream') return failure
    const lookUps = this.#triedNodes.map(node => ({
      isPossible: () => node.isUsable(methodClass),
      sendRequest: (request: Request) => this.#lookUp(request, node),
    }))
    return findSentAtNodes(failure, this.#call.context.request, lookUps, nodes.retryBudget)
  }

  #lookUp(request: Request, node: UpstreamNode): Promise<Reply> {
    return node.request({ ...this.#call, context: { ...this.#call.context, request } }, this.#selection.methodClass, this.#next)
  }
}

/** The longest wait for a node that lacks the required block. With blocks of up to 2 s, a reported height that no node has any more goes back within it. */
const maxCatchUpMs = 4_000
