import { blockSelectorOf, copyReply, toBuffer } from '../../src/plugin/plugin.ts'
import type { Json, Method, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'
import type { ChainRules, Finding } from './chain-rules.ts'
import { headerChecks } from './header-checks.ts'
import { MalformedMember } from './hex.ts'
import type { VerifyCounters } from './metrics.ts'
import { toJson } from './node-requests.ts'
import type { ProvenCodes } from './proven-codes.ts'
import { isCode } from './state-proof.ts'
import type { TrustedHeaders } from './trusted-headers.ts'
import type { VerifiedCall } from './verified-call.ts'
import { resultChecks } from './result-checks.ts'
import type { TrustedHeader } from './block-header.ts'
import type { ConfirmRight, RefuseWrong } from './wrong-results.ts'

interface AnswerChecksOptions {
  readonly rules: ChainRules
  readonly counters: VerifyCounters
  readonly refuseWrong: RefuseWrong
  readonly confirmRight: ConfirmRight
  /** Longer results are not checked. */
  readonly maxBytes: number
  knownHeader(hash: string): TrustedHeader | undefined
  readonly headers: Pick<TrustedHeaders, 'knownFinal'>
  readonly codes: Pick<ProvenCodes, 'find'>
}

/** What is computed of the results of a method. */
interface MethodChecks {
  readonly method: Method
  readonly check: (value: Json, params: readonly Json[]) => readonly Finding[]
  readonly headerCheck: (typeof headerChecks)[keyof typeof headerChecks] | undefined
}

/** Refuses results that contradict themselves, their request, or a header that is known. */
export class AnswerChecks {
  readonly #options: AnswerChecksOptions
  readonly #methods: Services['methods']
  /** Found with the first call of a method: most networks use few of the methods. */
  readonly #found = new Map<string, MethodChecks | undefined>()

  constructor(options: AnswerChecksOptions, { methods }: Pick<Services, 'methods'>) {
    this.#options = options
    this.#methods = methods
  }

  /** Whether something is checked of the method. */
  has(name: string): boolean {
    return this.#of(name) !== undefined
  }

  /** The result with what it was verified by, or the failure in its place. */
  check(result: Result, call: VerifiedCall): Reply {
    const { rules, counters, refuseWrong, maxBytes } = this.#options
    const { request, target } = call.context
    const checks = this.#of(request.method)
    if (request.method === 'eth_getCode') return this.#checkCode(result, call)
    if (checks === undefined) return copyReply(result, { verified: 'none' })
    if (result.result.byteLength > maxBytes || isPending(checks.method, request)) {
      counters.count(target.name, 'unchecked')
      return copyReply(result, { verified: 'none' })
    }
    const decisions = this.#findingsOf(result, checks, request).map(finding => ({ finding, decision: rules.decide(finding, target.name) }))
    const broken = decisions.find(({ decision }) => decision === 'refuse')
    if (broken !== undefined) return refuseWrong(result, { cause: `not so: ${broken.finding.rule}` }, call)
    const isPassed = decisions.some(({ decision }) => decision === 'pass')
    counters.count(target.name, isPassed ? 'passed' : 'unchecked')
    return copyReply(result, { verified: isPassed ? 'check' : 'none' })
  }

  /** Code of a block that does not change, of which a proof has shown the hash. */
  #checkCode(result: Result, call: VerifiedCall): Reply {
    const { counters, refuseWrong, confirmRight, headers, codes } = this.#options
    const { request, target } = call.context
    const blocks = blockSelectorOf(this.#methods.get(request.method), request.params)
    const block = blocks === undefined || 'hash' in blocks ? blocks?.hash : headers.knownFinal(Number(blocks.from))?.hash
    const proven = block === undefined ? undefined : codes.find(String(request.params[0]), block)
    if (proven === undefined) return copyReply(result, { verified: 'none' })
    const { codeHash, header } = proven
    if (!isCode(toJson(result), codeHash)) return refuseWrong(result, { cause: 'the code is not that of the proven hash', header }, call)
    confirmRight(request, header, call)
    counters.count(target.name, 'passed')
    return copyReply(result, { verified: 'check' })
  }

  #of(name: string): MethodChecks | undefined {
    const method = this.#methods.get(name)
    if (method === undefined || this.#found.has(name)) return this.#found.get(name)
    const check = isChecked(method.result) ? resultChecks[method.result] : undefined
    const headerCheck = isHeaderChecked(method.result) ? headerChecks[method.result] : undefined
    const checks = check && { method, check, headerCheck }
    this.#found.set(name, checks)
    return checks
  }

  /** None where the result is not what the method returns: the plugin `upstream` has checked its type. */
  #findingsOf({ result }: Result, { check, headerCheck }: MethodChecks, { params }: Request): readonly Finding[] {
    try {
      const value: Json = JSON.parse(toBuffer(result).toString())
      return [...check(value, params), ...(headerCheck?.(value, this.#options.knownHeader) ?? [])]
    } catch (error) {
      if (error instanceof MalformedMember) return []
      throw error
    }
  }
}

/** A block that is being built has no hash, or one that changes. */
export const isPending = (method: Method, { params }: Request): boolean => {
  const blocks = blockSelectorOf(method, params)
  return blocks !== undefined && !('hash' in blocks) && (blocks.from === 'pending' || blocks.to === 'pending')
}

const isChecked = (kind: Method['result']): kind is keyof typeof resultChecks => kind !== undefined && Object.hasOwn(resultChecks, kind)

const isHeaderChecked = (kind: Method['result']): kind is keyof typeof headerChecks =>
  kind !== undefined && Object.hasOwn(headerChecks, kind)
