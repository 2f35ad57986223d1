import { resultMemoryOf } from '../../src/plugin/internal.ts'
import {
  blockSelectorOf,
  copyReply,
  isFailure,
  keccak256,
  parseJsonHexQuantity,
  refuse,
  toBuffer,
  toHexQuantity,
  withContext,
} from '../../src/plugin/plugin.ts'
import type { Call, Failure, Json, Method, Next, Reply, Request, Result, Services, Target } from '../../src/plugin/plugin.ts'
import { MalformedMember, isSameHex, toBytes, toHex } from './hex.ts'
import { emptyCodeHash, provenAccountOf, provenSlotOf } from './state-proof.ts'
import type { ProvenAccount } from './state-proof.ts'
import { toTrustedHeader } from './trusted-headers.ts'
import type { TrustedHeader, TrustedHeaders } from './trusted-headers.ts'

/** The failure in place of a result that is wrong, once the node has been blamed for it. */
export type RefuseWrong = (result: Result, cause: string, call: Call<VerifyContext>) => Failure

export type VerifyContext = 'request' | 'target' | 'upstreams'
type VerifiedCall = Call<VerifyContext>
type NextPlugin = Next<VerifyContext>

/** A block whose state root is known, and how it is named in requests. */
interface ProvenBlock {
  readonly header: TrustedHeader
  readonly param: Json
  /** Undefined for a block that the caller has named by its hash. */
  readonly number: number | undefined
}

/** The methods that are answered from proofs. */
export const provableMethods: ReadonlySet<string> = new Set([
  'eth_getBalance',
  'eth_getTransactionCount',
  'eth_getCode',
  'eth_getStorageAt',
])

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
    if (isFailure(proof)) return toProofFailure(proof)
    const proven = await this.#verify(toJson(proof), block, call)
    if (proven === undefined) return this.#refuseWrong(proof, 'the proof does not lead to the state root of the block', call)
    resultMemoryOf(proof)?.release()
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
    { param }: ProvenBlock,
    call: VerifiedCall,
    next: NextPlugin,
  ): Promise<Reply> {
    if (codeHash === emptyCodeHash) return withJson(proof, '0x')
    const code = await send(call, { method: 'eth_getCode', params: [call.context.request.params[0]!, param] }, next)
    if (isFailure(code) || isCode(toJson(code), codeHash)) return code
    return this.#refuseWrong(code, 'the code is not that of the proven hash', call)
  }

  /** The chain may have left the block between the answers about it and about its state: then its header is asked for once more. */
  async #verify(proof: Json, { header, number }: ProvenBlock, { context }: VerifiedCall): Promise<Proven | undefined> {
    const subject = subjectOf(context.request)
    const proven = proves(proof, header, subject)
    if (proven !== undefined || number === undefined) return proven
    this.#headers.forget(number)
    const now = await this.#headers.at(number, this.#peersOf(context.upstreams))
    return now === undefined || now.hash === header.hash ? undefined : proves(proof, now, subject)
  }

  async #blockOf(call: VerifiedCall, method: Method, next: NextPlugin): Promise<ProvenBlock | Failure> {
    const { request, upstreams } = call.context
    const blocks = blockSelectorOf(method, request.params)
    if (blocks !== undefined && 'hash' in blocks) return this.#blockByHash(blocks.hash, call, method, next)
    const number = await this.#numberOf(blocks?.from ?? 'latest', call, next)
    if (typeof number !== 'number') return number
    const header = await this.#headers.at(number, this.#peersOf(upstreams))
    return header === undefined ? notAgreed : { header, param: toHexQuantity(number), number }
  }

  /** The caller trusts the hash, so the fields that it is of need no other node. */
  async #blockByHash(hash: string, call: VerifiedCall, method: Method, next: NextPlugin): Promise<ProvenBlock | Failure> {
    const reply = await send(call, { method: 'eth_getBlockByHash', params: [hash, false] }, next)
    if (isFailure(reply)) return reply
    const header = toTrustedHeader(toJson(reply), block => isSameHex(block['hash'], hash))
    const param = call.context.request.params[method.blockParam ?? 0] ?? hash
    return header === undefined
      ? this.#refuseWrong(reply, 'the header is not that of the hash', call)
      : { header, param, number: undefined }
  }

  /** The number of the block that the tag names: of the newest block as far as it is known, else as the node says. */
  async #numberOf(block: number | string, call: VerifiedCall, next: NextPlugin): Promise<number | Failure> {
    if (typeof block === 'number') return block
    const { head, reportedHeight } = this.#services.heads.snapshot
    if (block === 'earliest') return 0
    if (block === 'latest' && head !== undefined) return Math.max(head, reportedHeight)
    const reply = await send(call, { method: 'eth_getBlockByNumber', params: [block, false] }, next)
    if (isFailure(reply)) return reply
    const found = toJson(reply)
    const number = parseJsonHexQuantity(JSON.stringify((found as { readonly number?: Json } | null)?.number)) // undefined for anything else
    return number ?? this.#refuseWrong(reply, 'the block has no number', call)
  }

  /** A node of another chain has no say. */
  #peersOf(upstreams: readonly Target[]): readonly Target[] {
    return upstreams.filter(({ name }) => !['chain', 'unverified'].includes(this.#services.heads.exclusionOf(name) ?? ''))
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

const send = (call: VerifiedCall, request: Request, next: NextPlugin): Promise<Reply> => next(withContext(call, { request }))

const toJson = ({ result }: Result): Json => JSON.parse(toBuffer(result).toString())

const withJson = (reply: Result, text: string): Reply => copyReply(reply, { result: Buffer.from(`"${text}"`), count: undefined })

const toWord = (value: Uint8Array): string => `0x${Buffer.from(value).toString('hex').padStart(64, '0')}`

const toQuantity = (value: Uint8Array): string =>
  `0x${
    Buffer.from(value)
      .toString('hex')
      .replace(/^0+(?=.)/, '') || '0'
  }`

const notAgreed = refuse('unavailable', { cause: 'upstreams do not agree on the header of the block', retryAfter: 1 })

/** The caller has not asked for a proof: an error about it says nothing to them, unless the node lacks the block or its state. */
const toProofFailure = (failure: Failure): Reply =>
  failure.kind !== 'node' || failure.category === 'blockNotFound' || failure.category === 'stateUnavailable'
    ? failure
    : refuse('unavailable', {
        source: failure.source,
        upstream: failure.upstream,
        cause: `no proof: ${failure.error.message}`,
        retryAfter: 1,
        retryElsewhere: true,
      })
