import { blockSelectorOf, copyReply, isFailure, keccak256, releaseResult, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Method, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'
import { notAgreed, numberOf, send, toJson } from './node-requests.ts'
import type { NextPlugin, RefuseWrong, VerifiedCall } from './node-requests.ts'
import { MalformedMember, isSameHex, toBytes, toHex } from './hex.ts'
import { emptyCodeHash, provenAccountOf, provenSlotOf } from './state-proof.ts'
import type { ProvenAccount } from './state-proof.ts'
import { toTrustedHeader } from './trusted-headers.ts'
import type { TrustedHeader, TrustedHeaders } from './trusted-headers.ts'

/** A block whose state root is known, and how it is named in requests. */
interface StateBlock {
  readonly header: TrustedHeader
  readonly param: Json
  /** Undefined for a block that the caller has named by its hash. */
  readonly number: number | undefined
}

/** The methods that are answered here. */
export const provableStates: readonly string[] = ['eth_getBalance', 'eth_getTransactionCount', 'eth_getCode', 'eth_getStorageAt']

/** Answers questions about the state with what eth_getProof proves of it, whatever the node says besides. */
export class StateAnswers {
  readonly #headers: TrustedHeaders
  readonly #refuseWrong: RefuseWrong
  readonly #services: Pick<Services, 'heads'>

  constructor(headers: TrustedHeaders, refuseWrong: RefuseWrong, services: Pick<Services, 'heads'>) {
    this.#headers = headers
    this.#refuseWrong = refuseWrong
    this.#services = services
  }

  /** The proven answer, or a failure in its place. */
  async answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply> {
    const block = await this.#blockOf(call, method, next)
    if ('error' in block) return block
    const { address, slot } = subjectOf(call.context.request)
    const proof = await send(call, { method: 'eth_getProof', params: [address, slot === undefined ? [] : [slot], block.param] }, next)
    if (isFailure(proof)) return proof
    const proven = await this.#verify(toJson(proof), block, call)
    if (proven === undefined) return this.#refuseWrong(proof, 'the proof does not lead to the state root of the block', call)
    releaseResult(proof)
    if (method.name === 'eth_getCode') return this.#answerCode(proof, proven.account, block, call, next)
    const text =
      method.name === 'eth_getStorageAt'
        ? toWord(proven.slot)
        : toQuantity(proven.account[method.name === 'eth_getBalance' ? 'balance' : 'nonce'])
    return withJson(proof, text)
  }

  async #answerCode(
    proof: Result,
    { codeHash }: ProvenAccount,
    { param }: StateBlock,
    call: VerifiedCall,
    next: NextPlugin,
  ): Promise<Reply> {
    if (codeHash === emptyCodeHash) return withJson(proof, '0x')
    const code = await send(call, { method: 'eth_getCode', params: [call.context.request.params[0]!, param] }, next)
    if (isFailure(code) || isCode(toJson(code), codeHash)) return code
    return this.#refuseWrong(code, 'the code is not that of the proven hash', call)
  }

  /** The chain may have left the block between the answers about it and about its state: then its header is asked for once more. */
  async #verify(proof: Json, { header, number }: StateBlock, call: VerifiedCall): Promise<Proven | undefined> {
    const subject = subjectOf(call.context.request)
    const proven = proves(proof, header, subject)
    if (proven !== undefined || number === undefined) return proven
    this.#headers.forget(number)
    const now = await this.#headers.at(number, call)
    return now === undefined || now.hash === header.hash ? undefined : proves(proof, now, subject)
  }

  async #blockOf(call: VerifiedCall, method: Method, next: NextPlugin): Promise<StateBlock | Failure> {
    const blocks = blockSelectorOf(method, call.context.request.params)
    if (blocks !== undefined && 'hash' in blocks) return this.#blockByHash(blocks.hash, call, method, next)
    const number = await numberOf(blocks?.from ?? 'latest', call, next, { heads: this.#services.heads, refuseWrong: this.#refuseWrong })
    if (typeof number !== 'number') return number
    const least = blocks?.from === 'latest' ? this.#services.heads.snapshot.reportedHeight : number
    const header = await this.#headers.at(number, call, least)
    return header === undefined ? notAgreed : { header, param: toHexQuantity(header.number), number: header.number }
  }

  /** The caller trusts the hash, so the fields that it is of need no other node. */
  async #blockByHash(hash: string, call: VerifiedCall, method: Method, next: NextPlugin): Promise<StateBlock | Failure> {
    const reply = await send(call, { method: 'eth_getBlockByHash', params: [hash, false] }, next)
    if (isFailure(reply)) return reply
    const header = toTrustedHeader(toJson(reply), block => isSameHex(block['hash'], hash))
    const param = call.context.request.params[method.blockParam ?? 0] ?? hash
    return header === undefined
      ? this.#refuseWrong(reply, 'the header is not that of the hash', call)
      : { header, param, number: undefined }
  }
}

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

/** Whether the result is the code with this hash. */
const isCode = (result: Json, codeHash: string): boolean => {
  try {
    return toHex(keccak256(toBytes(result))) === codeHash
  } catch (error) {
    if (error instanceof MalformedMember) return false
    throw error
  }
}

const withJson = (reply: Result, text: string): Reply => copyReply(reply, { result: Buffer.from(`"${text}"`), count: undefined })

const toWord = (value: Uint8Array): string => `0x${Buffer.from(value).toString('hex').padStart(64, '0')}`

const toQuantity = (value: Uint8Array): string =>
  `0x${
    Buffer.from(value)
      .toString('hex')
      .replace(/^0+(?=.)/, '') || '0'
  }`
