import { blockSelectorOf, copyReply, isFailure, isJsonNull, isJsonObject, parseHexQuantity, withContext } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Method, Reply, Result, Services, Timer } from '../../src/plugin/plugin.ts'
import { stringifySteps } from './json-steps.ts'
import { isFailed, notAgreed, notLinked, numberOf, toJson, toResult, toResultOf, voterCountOf, votersOf } from './node-requests.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import type { ProvenBlocks } from './proven-blocks.ts'
import type { TrustedHeaders } from './trusted-headers.ts'
import type { WorkTurns } from './work-turns.ts'
import { agreedValue, requiredVotesOf } from './votes.ts'
import type { ConfirmRight, RefuseWrong } from './wrong-results.ts'

/** What the node says that it does not have: `null`, or a transaction that is in no block. Nothing proves that. */
interface Missing {
  readonly missing: Result
}

/** The block that a call names by its hash, or by a number at which nodes agree on the hash. */
interface NamedBlock {
  readonly hash: string
  /** Undefined where the call has the hash. */
  readonly number: number | undefined
}

interface HistoryAnswersOptions {
  readonly agree: number | undefined
  readonly headers: TrustedHeaders
  readonly blocks: ProvenBlocks
  readonly refuseWrong: RefuseWrong
  readonly confirmRight: ConfirmRight
  readonly turns: WorkTurns
}

/** For so long, once enough nodes lack something, the others may still say that they have it. */
const maxDissentMs = 500

type Prove = (call: VerifiedCall, method: Method, next: NextPlugin) => Promise<Reply | Missing>

/**
 * Answers what was in blocks (blocks, transactions and receipts) with what the roots of a trusted header prove, whatever the node says besides. A node that has
 * not got it proves nothing: then as many nodes as must agree on a header must lack it, and one that has it is right.
 */
export class HistoryAnswers {
  readonly #options: HistoryAnswersOptions
  readonly #services: Pick<Services, 'heads' | 'clock'>
  readonly #proofs: Readonly<Record<string, Prove>> = {
    eth_getBlockByNumber: (call, method, next) => this.#proveBlock(call, method, next),
    eth_getBlockByHash: (call, method, next) => this.#proveBlock(call, method, next),
    eth_getBlockReceipts: (call, method, next) => this.#proveReceipts(call, method, next),
    eth_getTransactionByBlockNumberAndIndex: (call, method, next) => this.#proveTransactionAt(call, method, next),
    eth_getTransactionByBlockHashAndIndex: (call, method, next) => this.#proveTransactionAt(call, method, next),
    eth_getTransactionByHash: (call, _, next) => this.#proveMined(call, next, false),
    eth_getTransactionReceipt: (call, _, next) => this.#proveMined(call, next, true),
  }

  constructor(options: HistoryAnswersOptions, services: Pick<Services, 'heads' | 'clock'>) {
    this.#options = options
    this.#services = services
  }

  /** The proven answer, or a failure in its place. */
  async answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply> {
    const prove = this.#proofs[method.name]!
    const proven = await prove(call, method, next)
    return 'missing' in proven ? this.#confirmMissing(proven, call, target => prove(withContext(call, { target }), method, next)) : proven
  }

  async #confirmMissing(
    { missing }: Missing,
    call: VerifiedCall,
    proveBy: (target: VerifiedCall['context']['target']) => Promise<Reply | Missing>,
  ): Promise<Reply> {
    const voters = votersOf(call, this.#services.heads)
    const others = voters.filter(({ name }) => name !== call.context.target.name)
    let found: Reply | undefined
    let pending: Result = missing
    const votes = [
      Promise.resolve('missing' as const),
      ...others.map(async target => {
        const proven = await proveBy(target)
        if ('missing' in proven) {
          if (!isJsonNull(proven.missing.result)) pending = proven.missing
          return 'missing' as const
        }
        if (isFailure(proven)) return undefined
        found ??= proven
        return 'found' as const
      }),
    ]
    const voterCount = voterCountOf(call, this.#services.heads)
    const required = requiredVotesOf(this.#options.agree, voterCount)
    // One that is proven is enough.
    const isMissing = await agreedValue(
      votes,
      vote => vote,
      (answered, left) => (found === undefined ? required(answered, left) : 1),
    )
    if (found === undefined && isMissing === 'missing') await this.#waitForOthers(Promise.all(votes))
    if (found !== undefined || isMissing !== 'missing') return found ?? notAgreed
    return copyReply(pending, { verified: voterCount <= 1 && others.length === 0 ? 'none' : 'quorum' })
  }

  async #waitForOthers(votes: Promise<unknown>): Promise<void> {
    const { clock } = this.#services
    let timer: Timer | undefined
    await Promise.race([votes, new Promise<void>(resolve => (timer = clock.after(maxDissentMs, resolve)))])
    timer?.cancel()
  }

  async #proveBlock(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | Missing> {
    const isWhole = call.context.request.params[1] === true
    return this.#proveOf(call, method, next, async hash => {
      const proven = await this.#options.blocks.blockOf(hash, call, next)
      if (proven === undefined || isFailed(proven)) return proven
      const failure = isWhole ? await this.#options.blocks.checkSenders(proven, proven.transactions.keys(), call) : undefined
      if (failure !== undefined) return failure
      const value = isWhole ? proven.block : { ...proven.block, transactions: proven.hashes }
      return toResultOf(await this.#options.turns.run(stringifySteps(value)), call)
    })
  }

  async #proveReceipts(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | Missing> {
    return this.#proveOf(call, method, next, async hash => {
      const proven = await this.#options.blocks.receiptsOf(hash, call, next)
      if (proven === undefined || isFailed(proven)) return proven
      const failure = await this.#options.blocks.checkSenders(proven.block, proven.receipts.keys(), call)
      return failure ?? toResultOf(await this.#options.turns.run(stringifySteps(proven.receipts)), call)
    })
  }

  /** A position behind the last transaction is proven to be empty. */
  async #proveTransactionAt(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | Missing> {
    const position = parseHexQuantity(call.context.request.params[1]) ?? Infinity
    return this.#proveOf(call, method, next, async hash => {
      const proven = await this.#options.blocks.blockOf(hash, call, next)
      if (proven === undefined || isFailed(proven)) return proven
      const transaction = proven.transactions[position]
      if (transaction === undefined) return toResult(null, call)
      return (await this.#options.blocks.checkSenders(proven, [position], call)) ?? toResult(transaction, call)
    })
  }

  /** `prove` resolves with undefined where the node lacks the block. The chain may have left the block meanwhile: then its number is looked up once more. */
  async #proveOf(
    call: VerifiedCall,
    method: Method,
    next: NextPlugin,
    prove: (hash: string) => Promise<Reply | undefined>,
  ): Promise<Reply | Missing> {
    const named = await this.#namedBlock(call, method, next)
    if (isFailed(named) || 'missing' in named) return named
    const proven = await prove(named.hash)
    if (proven !== undefined) return proven
    if (named.number === undefined) return { missing: toResult(null, call) }
    this.#options.headers.forget(named.number)
    const now = await this.#options.headers.at(named.number, call)
    return (now === undefined || now.hash === named.hash ? undefined : await prove(now.hash)) ?? notLinked(call)
  }

  /** A transaction, or its receipt. The node's answer says in which block it is. */
  async #proveMined(call: VerifiedCall, next: NextPlugin, isReceipt: boolean): Promise<Reply | Missing> {
    const { blocks, headers, refuseWrong, confirmRight } = this.#options
    const reply = await next(call)
    if (isFailure(reply)) return reply
    const place = placeOf(toJson(reply))
    if (place === undefined) return { missing: reply }
    const header = await headers.withHash(place.hash, place.number, call)
    if (header === undefined) return notLinked(call)
    const block = await blocks.blockOf(place.hash, call, next)
    if (block === undefined) return notLinked(call)
    if (isFailed(block)) return block
    const index = block.hashes.indexOf(String(call.context.request.params[0]).toLowerCase())
    if (index < 0) return refuseWrong(reply, { cause: 'the block has no such transaction', header }, call)
    const failure = await blocks.checkSenders(block, [index], call)
    if (failure !== undefined) return failure
    confirmRight(call.context.request, header, call)
    if (!isReceipt) return toResult(block.transactions[index]!, call)
    const proven = (await blocks.receiptsOf(place.hash, call, next)) ?? notLinked(call)
    return isFailed(proven) ? proven : toResult(proven.receipts[index]!, call)
  }

  /** `missing` for a block above the head that the node does not have either. */
  async #namedBlock(call: VerifiedCall, method: Method, next: NextPlugin): Promise<NamedBlock | Failure | Missing> {
    const { heads } = this.#services
    const { headers, refuseWrong } = this.#options
    const selected = blockSelectorOf(method, call.context.request.params)
    if (selected !== undefined && 'hash' in selected) return { hash: selected.hash.toLowerCase(), number: undefined }
    const named = selected?.from ?? 'latest'
    const number = await numberOf(named, call, next, { heads, headers, refuseWrong })
    if (typeof number !== 'number') return number
    const { head = Infinity, reportedHeight } = heads.snapshot
    if (number > Math.max(head, reportedHeight)) {
      const reply = await next(call)
      if (isFailure(reply)) return reply
      if (isJsonNull(reply.result)) return { missing: reply }
    }
    const header = await (named === 'latest' ? headers.latest(number, call) : headers.at(number, call))
    return header === undefined ? headers.notTrusted : { hash: header.hash, number: header.number }
  }
}

/** In which block a transaction or a receipt says that it is; undefined for `null`, and for a transaction that is in none. */
const placeOf = (value: Json): { readonly number: number; readonly hash: string } | undefined => {
  if (!isJsonObject(value)) return undefined
  const { blockHash, blockNumber } = value
  const number = parseHexQuantity(blockNumber)
  return number === undefined || typeof blockHash !== 'string' ? undefined : { number, hash: blockHash.toLowerCase() }
}
