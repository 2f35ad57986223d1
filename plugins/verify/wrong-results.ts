import { isFailure, refuseWrongResult, releaseResult, toBuffer } from '../../src/plugin/plugin.ts'
import type { Failure, JsonObject, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'
import type { ChainRules } from './chain-rules.ts'
import type { VerifyCounters } from './metrics.ts'
import { notProvable, votersOf } from './node-requests.ts'
import { SuspectedLies } from './suspected-lies.ts'
import type { VerifiedCall } from './verified-call.ts'
import type { TrustedHeader } from './block-header.ts'

/** Why a result is wrong. */
interface WrongResult {
  readonly cause: string
  /** What the node was sent; the request of the call, unless given. */
  readonly request?: Request | undefined
  /** The header on which nodes agree, and which the result does not fit: the node has lied. Without one, the result contradicts itself, or a rule of the chain. */
  readonly header?: TrustedHeader | undefined
  /** It breaks a rule of every chain, so that the chain is not the cause. */
  readonly isRuleOfAll?: boolean
}

/** The failure in place of a result that is wrong, once the node has been blamed for it. */
export type RefuseWrong = (result: Result, wrong: WrongResult, call: VerifiedCall) => Failure

/** The node of the call has proven what it was asked about the block of this header: others that have failed at it have lied. */
export type ConfirmRight = (request: Request, header: TrustedHeader, call: VerifiedCall) => void

/**
 * Asks a node that has lied, and counts its answer as right where the node has proven any of it: all of it may be known from others. `isRight`: what else
 * must be so.
 */
export type RecordIfRight = <R extends Reply | undefined>(
  upstream: string,
  methodClass: string,
  ask: () => Promise<R>,
  isRight?: (result: Result) => boolean,
) => Promise<R>

interface WrongResultsOptions {
  /** Whether a node that has lied gets calls again. */
  readonly readmit: boolean
  readonly rules: Pick<ChainRules, 'areAllKnown'>
  readonly counters: VerifyCounters
}

type WrongResultsServices = Pick<Services, 'log' | 'evidence' | 'nodes' | 'methods' | 'heads'>

/** Keeps evidence of wrong results, and calls away from nodes that lied. */
export class WrongResults {
  readonly #options: WrongResultsOptions
  readonly #services: WrongResultsServices
  readonly #suspectedLies = new SuspectedLies()
  /** By upstream, while one has lied: how often it has proven something. */
  readonly #provenCounts = new Map<string, number>()
  /** By method and cause: what each upstream fails at. */
  readonly #shared = new Set<string>()

  constructor(options: WrongResultsOptions, services: WrongResultsServices) {
    this.#options = options
    this.#services = services
  }

  /** Nodes that lied before a restart in these classes, where they get no calls for good. */
  async restore(methodClasses: ReadonlySet<string>): Promise<void> {
    if (this.#options.readmit) return
    const { evidence, nodes } = this.#services
    for (const { upstream, methodClass } of await evidence.proven())
      if (methodClasses.has(methodClass)) nodes.trust.distrust(upstream, methodClass, { isForGood: true })
  }

  readonly confirm: ConfirmRight = (request, header, { context: { target } }) => {
    if (this.#services.nodes.trust.isAnyDistrusted) this.#provenCounts.set(target.name, this.#provenCountOf(target.name) + 1)
    if (!this.#options.rules.areAllKnown) this.#suspectedLies.confirm(request, header)
  }

  #provenCountOf(upstream: string): number {
    return this.#provenCounts.get(upstream) ?? 0
  }

  readonly recordIfRight: RecordIfRight = async (upstream, methodClass, ask, isRight = () => true) => {
    const { nodes, log } = this.#services
    const before = this.#provenCountOf(upstream)
    const reply = await ask()
    const hasProven = this.#provenCountOf(upstream) > before
    if (reply === undefined || isFailure(reply) || reply.upstream !== upstream || !hasProven || !isRight(reply)) return reply
    if (nodes.trust.recordRight(upstream, methodClass))
      log.info({ event: 'upstream-readmitted', upstream, class: methodClass }, 'upstream has answered right 100 times: it gets calls again')
    return reply
  }

  readonly refuse: RefuseWrong = (result, wrong, call) => {
    const { target } = call.context
    this.#options.counters.count(target.name, 'refused')
    const { header } = wrong
    const failure =
      header === undefined || wrong.isRuleOfAll === true || this.#isBlamedAtOnce(call)
        ? this.#blame(result, wrong, call)
        : this.#suspect(result, { ...wrong, header }, call)
    releaseResult(result)
    return failure
  }

  /** The chain is not the cause where it is as Ethereum, nor of what a node does that has lied before. */
  #isBlamedAtOnce({ context: { request, target } }: VerifiedCall): boolean {
    return this.#options.rules.areAllKnown || this.#services.nodes.trust.isDistrusted(target.name, this.#classOf(request))
  }

  #classOf({ method }: Request): string {
    return this.#services.methods.get(method)?.class ?? 'other'
  }

  /** Which node is wrong is not known yet. */
  #suspect(result: Result, wrong: WrongResult & { readonly header: TrustedHeader }, call: VerifiedCall): Failure {
    const { log, heads } = this.#services
    const { context, origin } = call
    const { request = context.request, header, cause } = wrong
    const { name: upstream } = context.target
    // The memory of the result is released before it is known.
    const kept: Result = { ...result, result: Buffer.from(toBuffer(result.result)) }
    const lie = { request, header, upstream, cause, bytes: kept.result.byteLength, blame: () => void this.#blame(kept, wrong, call) }
    const suspicion = this.#suspectedLies.add(
      lie,
      votersOf(call, heads).map(({ name }) => name),
    )
    const { method } = context.request
    if (suspicion === 'suspected' && !this.#shared.has(`${method} ${cause}`))
      log.warn({ requestId: origin.requestId, upstream, method, cause }, 'result of upstream refused: no other upstream has proven it yet')
    if (suspicion === 'shared') this.#recordShared(method, wrong)
    return notProvable(call, cause)
  }

  /** Logged once: a chain may have such a block each minute. */
  #recordShared(method: string, { cause, header }: WrongResult): void {
    const key = `${method} ${cause}`
    if (this.#shared.has(key)) return
    this.#shared.add(key)
    this.#services.log.error(
      { event: 'chain-not-provable', method, cause, block: header?.number },
      `no upstream proves ${method}, as all of them fail in the same way: blocks of this chain have what their roots do not show; give ${method} the policy \`check\``,
    )
  }

  #blame(result: Result, { cause, request, header }: WrongResult, { context, origin: { requestId } }: VerifiedCall): Failure {
    const { log, evidence } = this.#services
    const { request: called, target } = context
    const failure = refuseWrongResult(result, cause)
    const methodClass = this.#classOf(called)
    const id = evidence.add({
      ...{ upstream: target.name, methodClass, cause, request: request ?? called, answer: toBuffer(result.result) },
      header: header === undefined ? null : ({ ...header } as unknown as JsonObject), // of texts and numbers
    })
    log.warn(
      { requestId, upstream: target.name, method: called.method, cause: failure.cause, ...(id !== undefined && { evidence: id }) },
      'upstream returned a wrong result',
    )
    if (header !== undefined) this.#recordLie(target.name, methodClass, cause)
    return failure
  }

  #recordLie(upstream: string, methodClass: string, cause: string): void {
    const { nodes, log } = this.#services
    const { readmit, counters } = this.#options
    counters.countLie(upstream)
    if (!nodes.trust.distrust(upstream, methodClass, { isForGood: !readmit })) return
    const until = readmit ? 'until it has answered right 100 times beside others' : 'until operators clear its evidence'
    log.error({ event: 'upstream-lied', upstream, class: methodClass, cause }, `upstream lied: it gets no calls of the class ${until}`)
  }
}
