import { refuseWrongResult, releaseResult, toBuffer } from '../../src/plugin/plugin.ts'
import type { Failure, JsonObject, Request, Result, Services } from '../../src/plugin/plugin.ts'
import type { VerifyCounters } from './metrics.ts'
import type { VerifiedCall } from './verified-call.ts'
import type { TrustedHeader } from './block-header.ts'

/** Why a result is wrong. */
interface WrongResult {
  readonly cause: string
  /** What the node was sent; the request of the call, unless given. */
  readonly request?: Request | undefined
  /** The header on which nodes agree, and which the result does not fit: the node has lied. Without one, the result contradicts itself, or a rule of the chain. */
  readonly header?: TrustedHeader | undefined
}

/** The failure in place of a result that is wrong, once the node has been blamed for it. */
export type RefuseWrong = (result: Result, wrong: WrongResult, call: VerifiedCall) => Failure

interface WrongResultsOptions {
  /** Whether a node that has lied gets calls again. */
  readonly readmit: boolean
  readonly counters: VerifyCounters
}

/** Keeps evidence of wrong results, and calls away from nodes that lied. */
export class WrongResults {
  readonly #options: WrongResultsOptions
  readonly #services: Pick<Services, 'log' | 'evidence' | 'nodes' | 'methods'>

  constructor(options: WrongResultsOptions, services: Pick<Services, 'log' | 'evidence' | 'nodes' | 'methods'>) {
    this.#options = options
    this.#services = services
  }

  /** Nodes that lied before a restart, where they get no calls for good. */
  async restore(): Promise<void> {
    if (this.#options.readmit) return
    const { evidence, nodes } = this.#services
    for (const { upstream, methodClass } of await evidence.proven()) nodes.trust.distrust(upstream, methodClass, { isForGood: true })
  }

  readonly refuse: RefuseWrong = (result, { cause, request, header }, { context: { request: called, target }, origin: { requestId } }) => {
    const { log, evidence, methods } = this.#services
    const failure = refuseWrongResult(result, cause)
    const methodClass = methods.get(called.method)?.class ?? 'other'
    this.#options.counters.count(target.name, 'refused')
    const id = evidence.add({
      ...{ upstream: target.name, methodClass, cause, request: request ?? called, answer: toBuffer(result.result) },
      header: header === undefined ? null : ({ ...header } as unknown as JsonObject), // of texts and numbers
    })
    log.warn(
      { requestId, upstream: target.name, method: called.method, cause: failure.cause, ...(id !== undefined && { evidence: id }) },
      'upstream returned a wrong result',
    )
    if (header !== undefined) this.#recordLie(target.name, methodClass, cause)
    releaseResult(result)
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
