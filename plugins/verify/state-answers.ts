import { blockSelectorOf, isFailure, releaseResult, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Method, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'
import { isFailed, notLinked, notProvable, numberOf, send, toJson, toResult } from './node-requests.ts'
import type { ProvenBlocks } from './proven-blocks.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import { MalformedMember } from './hex.ts'
import type { ProvenCodes } from './proven-codes.ts'
import { emptyCodeHash, isCode, provenAccountOf, provenSlotOf } from './state-proof.ts'
import type { ProvenAccount } from './state-proof.ts'
import type { TrustedHeader } from './block-header.ts'
import type { TrustedHeaders } from './trusted-headers.ts'
import type { ConfirmRight, RefuseWrong } from './wrong-results.ts'

/** A block whose state root is known, and how it is named in requests. */
interface StateBlock {
  readonly header: TrustedHeader
  readonly param: Json
  /** Undefined for a block that the caller has named by its hash. */
  readonly number: number | undefined
}

/** A result that does not fit the header. */
interface Mismatch {
  readonly mismatch: Result
  readonly cause: string
  readonly request: Request
}

interface StateAnswersOptions {
  readonly headers: TrustedHeaders
  readonly blocks: ProvenBlocks
  readonly codes: ProvenCodes
  readonly refuseWrong: RefuseWrong
  readonly confirmRight: ConfirmRight
}

/** Answers questions about the state with what eth_getProof proves of it, whatever the node says besides. */
export class StateAnswers {
  readonly #options: StateAnswersOptions
  readonly #services: Pick<Services, 'heads'>

  constructor(options: StateAnswersOptions, services: Pick<Services, 'heads'>) {
    this.#options = options
    this.#services = services
  }

  /**
   * The proven answer, or a failure in its place. Where the proof does not fit, the chain may have left the block meanwhile, or the node may be on another branch:
   * both are asked once more. A node that has the header before and after, and no proof that fits, has lied.
   */
  async answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply> {
    const { headers, refuseWrong } = this.#options
    let hadHeader = true
    for (let attempts = 1; ; attempts++) {
      const block = await this.#blockOf(call, method, next)
      if ('error' in block) return block
      const { header, number } = block
      if (/^0x0*$/.test(header.stateRoot)) return notProvable(call, 'the block has no state root')
      const answer = await this.#answerAt(block, call, method, next)
      if (!('mismatch' in answer)) return answer
      const { mismatch, ...wrong } = answer
      const hasHeader = number === undefined || (await this.#hasHeader(header, call, next))
      if (!hasHeader || !hadHeader) {
        releaseResult(mismatch)
        if (attempts === maxAttempts) return notLinked(call)
      } else if (number === undefined || attempts === maxAttempts) return refuseWrong(mismatch, { ...wrong, header }, call)
      hadHeader = hasHeader
      if (number !== undefined) headers.forget(number)
    }
  }

  async #answerAt({ header, param }: StateBlock, call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | Mismatch> {
    const subject = subjectOf(call.context.request)
    const request = { method: 'eth_getProof', params: [subject.address, subject.slot === undefined ? [] : [subject.slot], param] }
    const proof = await send(call, request, next)
    if (isFailure(proof)) return proof
    const proven = proof.result.byteLength > maxProofAnswerBytes ? undefined : proves(toJson(proof), header, subject)
    if (proven === undefined) return { mismatch: proof, cause: 'the proof does not lead to the state root of the block', request }
    releaseResult(proof)
    this.#options.confirmRight(request, header, call)
    this.#options.codes.record(subject.address, { codeHash: proven.account.codeHash, header })
    if (method.name === 'eth_getCode') return this.#codeAt({ header, param }, proven.account, call, next)
    const text =
      method.name === 'eth_getStorageAt'
        ? toWord(proven.slot)
        : toQuantity(proven.account[method.name === 'eth_getBalance' ? 'balance' : 'nonce'])
    return toResult(text, call)
  }

  async #codeAt(
    { header, param }: Pick<StateBlock, 'header' | 'param'>,
    { codeHash }: ProvenAccount,
    call: VerifiedCall,
    next: NextPlugin,
  ): Promise<Reply | Mismatch> {
    if (codeHash === emptyCodeHash) return toResult('0x', call)
    const request = { method: 'eth_getCode', params: [call.context.request.params[0]!, param] }
    const code = await send(call, request, next)
    if (isFailure(code)) return code
    const text = toJson(code)
    if (!isCode(text, codeHash)) return { mismatch: code, cause: 'the code is not that of the proven hash', request }
    this.#options.confirmRight(request, header, call)
    releaseResult(code)
    // Nodes may write the same bytes in capitals.
    return toResult(String(text).toLowerCase(), call)
  }

  async #hasHeader({ number, hash }: TrustedHeader, call: VerifiedCall, next: NextPlugin): Promise<boolean> {
    const own = await this.#options.blocks.headerAt(number, call, next)
    return !isFailed(own) && own.hash === hash
  }

  async #blockOf(call: VerifiedCall, method: Method, next: NextPlugin): Promise<StateBlock | Failure> {
    const { headers, blocks: provenBlocks, refuseWrong } = this.#options
    const { heads } = this.#services
    const blocks = blockSelectorOf(method, call.context.request.params)
    if (blocks !== undefined && 'hash' in blocks) {
      // The caller trusts the hash, so the fields that it is of need no other node.
      const header = (await provenBlocks.headerOf(blocks.hash.toLowerCase(), call, next)) ?? notLinked(call)
      const param = call.context.request.params[method.blockParam ?? 0] ?? blocks.hash
      return isFailed(header) ? header : { header, param, number: undefined }
    }
    const number = await numberOf(blocks?.from ?? 'latest', call, next, { heads, headers, refuseWrong })
    if (typeof number !== 'number') return number
    const header = await (blocks?.from === 'latest' ? headers.latest(number, call) : headers.at(number, call))
    return header === undefined ? headers.notTrusted : { header, param: toHexQuantity(header.number), number: header.number }
  }
}

const maxAttempts = 2
/** Two paths of 64 branches have 140 KB of hex. */
const maxProofAnswerBytes = 262_144

interface Subject {
  readonly address: string
  /** 32 bytes, for a value in the storage. */
  readonly slot: string | undefined
}

interface Proven {
  readonly account: ProvenAccount
  readonly slot: Uint8Array
}

const subjectOf = ({ method, params: [address, slot] }: Request): Subject => ({
  address: String(address),
  slot: method === 'eth_getStorageAt' ? `0x${String(slot).slice(2).padStart(64, '0')}` : undefined,
})

/** Undefined where the proof is none of this state. */
const proves = (proof: Json, { stateRoot }: TrustedHeader, { address, slot }: Subject): Proven | undefined => {
  try {
    const account = provenAccountOf(proof, stateRoot, address)
    return { account, slot: slot === undefined ? Buffer.alloc(0) : provenSlotOf(proof, account, slot) }
  } catch (error) {
    if (error instanceof MalformedMember) return undefined
    throw error
  }
}

const toWord = (value: Uint8Array): string => `0x${Buffer.from(value).toString('hex').padStart(64, '0')}`

const toQuantity = (value: Uint8Array): string =>
  `0x${
    Buffer.from(value)
      .toString('hex')
      .replace(/^0+(?=.)/, '') || '0'
  }`
