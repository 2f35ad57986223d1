import { LRUCache } from 'lru-cache'
import { Cancellation, isFailure, toBuffer, toHexQuantity, withContext } from '../../../src/plugin/plugin.ts'
import type { Json, Request, Result, Services, Target } from '../../../src/plugin/plugin.ts'
import { toTrustedHeader } from '../block-header.ts'
import type { TrustedHeader } from '../block-header.ts'
import { MalformedMember, isSameHex, toHex } from '../hex.ts'
import { votersOf } from '../node-requests.ts'
import { provenAccountOf, provenSlotOf } from '../state-proof.ts'
import type { VerifiedCall } from '../verified-call.ts'
import type { RefuseWrong } from '../wrong-results.ts'
import type { BeaconHeads, SignedBlock } from './beacon-heads.ts'

interface BeaconHeadersOptions {
  readonly beacon: Pick<BeaconHeads, 'head' | 'finalNumber' | 'isFailing' | 'signedBefore' | 'use' | 'next' | 'recordFound'>
  /** For a block that is not signed yet. */
  readonly maxWaitMs: number
  /** The header with that hash, if it is known. */
  knownHeader(hash: string): TrustedHeader | undefined
  readonly refuseWrong: RefuseWrong
}

type BeaconHeadersServices = Pick<Services, 'upstreamClient' | 'heads' | 'clock'>

/** `unknown`: the beacon chain says nothing about it, as it is too new or too old, or the consensus node does not answer. */
export type Found = TrustedHeader | 'unknown' | undefined

const requestTimeoutMs = 2_000
const maxHeaderBytes = 8_388_608
const maxProofBytes = 262_144
/** Then a header that no node had is requested again. */
const retryMs = 1_000
const maxHeaders = 1024
/** A node may be on another branch for so long, or behind. */
const maxBranchMs = 60_000
/** Older ones are proven by the state, in one request in place of one for each. */
const maxParents = 4

/** EIP-2935: the state has the hashes of so many blocks before its own. */
const historyAddress = '0x0000f90827f1c53a10cb7a02335b175320002935'
const historyBlocks = 8191

/**
 * Headers of blocks that the beacon chain proves. Of the newest signed block the hash is known, and a node is asked for its header; earlier blocks are its
 * parents, or have the hash that its state has. What nodes say of the hash is of no weight.
 */
export class BeaconHeaders {
  readonly #options: BeaconHeadersOptions
  readonly #services: BeaconHeadersServices
  /** By hash, of the newest signed blocks. */
  readonly #heads = new LRUCache<string, Promise<TrustedHeader | undefined>>({ max: 16 })
  /** By number, of blocks before the head with that hash. */
  readonly #ancestors = new LRUCache<number, { readonly head: string; readonly header: Promise<Found> }>({ max: maxHeaders })

  constructor(options: BeaconHeadersOptions, services: BeaconHeadersServices) {
    this.#options = options
    this.#services = services
  }

  /** The newest block that is signed: one or two behind those that nodes have. */
  async latest(call: VerifiedCall): Promise<Found> {
    const head = await this.#newest()
    return head === undefined ? 'unknown' : this.#headerOf(head, call)
  }

  /** Of the newest final block; undefined where the newest signed one is not known, and since the fork Gloas. */
  async finalNumber(): Promise<number | undefined> {
    return (await this.#newest()) === undefined ? undefined : this.#options.beacon.finalNumber
  }

  async #newest(): Promise<SignedBlock | undefined> {
    const { beacon, maxWaitMs } = this.#options
    beacon.use()
    if (beacon.head === undefined && !beacon.isFailing) await beacon.next(maxWaitMs)
    return beacon.head
  }

  /** A block that nodes have, and that is not signed yet, is waited for. */
  async at(number: number, call: VerifiedCall): Promise<Found> {
    const { beacon, maxWaitMs } = this.#options
    const { clock } = this.#services
    const signal = call.signal ?? call.origin.signal
    const deadline = clock.monotonic() + maxWaitMs
    for (;;) {
      const head = await this.latest(call)
      if (head === undefined || (head !== 'unknown' && number <= head.number)) return head && this.#ancestorOf(head, number, call)
      const timeoutMs = deadline - clock.monotonic()
      if (timeoutMs <= 0 || signal.aborted || beacon.isFailing) return 'unknown'
      await beacon.next(timeoutMs)
    }
  }

  /** A header that could not be had is requested again. */
  forget(number: number): void {
    this.#ancestors.delete(number)
  }

  /** Callers at the same time share the requests. */
  #headerOf(block: SignedBlock, call: VerifiedCall): Promise<TrustedHeader | undefined> {
    const known = this.#heads.get(block.blockHash)
    if (known !== undefined) return known
    const header = this.#requestHead(block, call)
    this.#heads.set(block.blockHash, header)
    void header.then(found => {
      if (found === undefined) this.#services.clock.after(retryMs, () => this.#heads.delete(block.blockHash))
    })
    return header
  }

  async #requestHead(block: SignedBlock, call: VerifiedCall): Promise<TrustedHeader | undefined> {
    const { header, lacking } = this.#requestHeader(block.blockHash, call)
    void lacking.then(targets => this.#findContradictions(targets, call))
    const found = await header
    this.#options.beacon.recordFound(block, found !== undefined)
    return found
  }

  #ancestorOf(head: TrustedHeader, number: number, call: VerifiedCall): Found | Promise<Found> {
    if (head.number === number) return head
    const known = this.#ancestors.get(number)
    if (known?.head === head.hash) return known.header
    const header = this.#findAncestor(head, number, call)
    this.#ancestors.set(number, { head: head.hash, header })
    void header.then(found => {
      if (typeof found !== 'object' && this.#ancestors.peek(number)?.header === header) this.#ancestors.delete(number)
    })
    return header
  }

  async #findAncestor(head: TrustedHeader, number: number, call: VerifiedCall): Promise<Found> {
    if (head.number - number > historyBlocks) return 'unknown'
    let lowest = head
    for (let header: TrustedHeader | undefined = head; header !== undefined && header.number >= number; ) {
      lowest = header
      header = this.#options.knownHeader(header.parentHash)
    }
    if (lowest.number - number > maxParents) {
      const hash = await this.#provenHash(head, number, call)
      return hash === undefined ? undefined : this.#headerWith(hash, number, call)
    }
    while (lowest.number > number) {
      const parent = await this.#headerWith(lowest.parentHash, lowest.number - 1, call)
      if (parent === undefined) return undefined
      lowest = parent
    }
    return lowest
  }

  async #headerWith(hash: string, number: number, call: VerifiedCall): Promise<TrustedHeader | undefined> {
    const header = this.#options.knownHeader(hash) ?? (await this.#requestHeader(hash, call).header)
    return header?.number === number ? header : undefined
  }

  /** The hash of the block, as the state of the head has it. */
  async #provenHash({ stateRoot, number: headNumber }: TrustedHeader, number: number, call: VerifiedCall): Promise<string | undefined> {
    const slot = `0x${(number % historyBlocks).toString(16).padStart(64, '0')}`
    const request = { method: 'eth_getProof', params: [historyAddress, [slot], toHexQuantity(headNumber)] }
    const answers = this.#voters(call).map(async target => {
      const proof = await this.#request(target, request, maxProofBytes)
      return proof === undefined ? undefined : slotOf(toJson(proof), stateRoot, slot)
    })
    return firstDefined(answers)
  }

  /** All nodes are asked at once. `lacking`: those that answer, and not with this header. */
  #requestHeader(hash: string, call: VerifiedCall) {
    const request = { method: 'eth_getBlockByHash', params: [hash, false] }
    const answers = this.#voters(call).map(async target => {
      const result = await this.#request(target, request, maxHeaderBytes)
      return { target, result, header: result && toTrustedHeader(toJson(result), block => isSameHex(block['hash'], hash)) }
    })
    const isLacking = ({ result, header }: Awaited<(typeof answers)[number]>) => result !== undefined && header === undefined
    return {
      header: firstDefined(answers.map(answer => answer.then(({ header }) => header))),
      lacking: Promise.all(answers).then(all => all.filter(isLacking).map(({ target }) => target)),
    }
  }

  /** A node that is as high as a block that was signed a minute ago, and does not have it, is on no branch that the beacon chain has. */
  async #findContradictions(targets: readonly Target[], call: VerifiedCall): Promise<void> {
    const signed = this.#options.beacon.signedBefore(maxBranchMs)
    if (signed === undefined) return
    const height = signed.blockNumber ?? (await this.#heads.get(signed.blockHash))?.number ?? Infinity
    const request = { method: 'eth_getBlockByHash', params: [signed.blockHash, false] }
    for (const target of targets.filter(({ name }) => (this.#services.heads.headOf(name)?.number ?? -1) >= height)) {
      const result = await this.#request(target, request, maxHeaderBytes)
      if (result === undefined || toTrustedHeader(toJson(result), block => isSameHex(block['hash'], signed.blockHash)) !== undefined)
        continue
      this.#options.refuseWrong(result, { cause: 'the block that the beacon chain has is missing', request }, withContext(call, { target }))
    }
  }

  #voters(call: VerifiedCall): readonly Target[] {
    return votersOf(call, this.#services.heads)
  }

  /** Undefined where the node does not answer. */
  async #request(target: Target, request: Request, maxBytes: number): Promise<Result | undefined> {
    const limits = { timeoutMs: requestTimeoutMs, maxBytes, signal: new Cancellation(), idempotent: true }
    const reply = await this.#services.upstreamClient.request(target, request, limits)
    return isFailure(reply) ? undefined : reply
  }
}

const toJson = ({ result }: Result): Json => JSON.parse(toBuffer(result).toString())

const slotOf = (proof: Json, stateRoot: string, slot: string): string | undefined => {
  try {
    const value = provenSlotOf(proof, provenAccountOf(proof, stateRoot, historyAddress), slot)
    return value.length === 0 ? undefined : toHex(Buffer.concat([Buffer.alloc(32 - value.length), value]))
  } catch (error) {
    if (error instanceof MalformedMember) return undefined
    throw error
  }
}

/** Undefined once all have come, and none is defined. */
const firstDefined = <T>(values: readonly Promise<T | undefined>[]): Promise<T | undefined> =>
  new Promise((resolve, reject) => {
    for (const value of values) value.then(found => found !== undefined && resolve(found), reject)
    void Promise.all(values).then(() => resolve(undefined), reject)
  })
