import { LRUCache } from 'lru-cache'
import { isFailure, isJsonNull, isJsonObject, keccak256, parseHexQuantity, releaseResult, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Failure, Json, JsonObject, Request, Result } from '../../src/plugin/plugin.ts'
import { emptyListHash, toTrustedHeader } from './block-header.ts'
import type { TrustedHeader } from './block-header.ts'
import type { ChainRules, Finding } from './chain-rules.ts'
import { MalformedMember, isAbsent, isSameHex, toHex, toList, toObject } from './hex.ts'
import { parseSteps } from './json-steps.ts'
import { isFailed, notLinked, notProvable, send, toJson, toResult } from './node-requests.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import {
  receiptFindings,
  senderFinding,
  transactionFindings,
  withdrawalsFinding,
  withoutPendingPrice,
  withoutUnsetTimes,
} from './derived-members.ts'
import { logsBloomSteps } from './logs-bloom.ts'
import { coveredReceiptsSteps, isEncodableIn, lengthOf } from './receipts-root.ts'
import { headerFinding, orderFinding } from './result-checks.ts'
import { SharedRequests } from './shared-requests.ts'
import { encodeTransaction, hasKnownEncoding, isSigned, withoutUncovered } from './transaction-encoding.ts'
import { senderOf } from './transaction-sender.ts'
import { emptyRoot } from './trie-proof.ts'
import { trieRootSteps } from './trie-root.ts'
import { requiredVotesOf } from './votes.ts'
import type { Steps, WorkTurns } from './work-turns.ts'
import type { ConfirmRight, RefuseWrong } from './wrong-results.ts'

/** A block whose transactions are those of its header. */
interface ProvenBlock {
  readonly header: TrustedHeader
  /** As the node says, with whole transactions. */
  readonly block: JsonObject
  readonly transactions: readonly JsonObject[]
  /** Computed from the transactions, in lower case. */
  readonly hashes: readonly string[]
  /** The positions of the transactions whose senders are those of their signatures. */
  readonly checkedSenders: Set<number>
  /** Of the answer that it was made from. */
  readonly bytes: number
  /** Of the encodings of its transactions. */
  readonly encodedBytes: number
}

interface ProvenReceipts {
  readonly block: ProvenBlock
  readonly receipts: readonly JsonObject[]
  readonly bytes: number
  readonly encodedBytes: number
}

interface ProvenBlocksOptions {
  readonly refuseWrong: RefuseWrong
  readonly confirmRight: ConfirmRight
  readonly rules: ChainRules
  /** Of blocks, and as many of receipts. 0: nothing is shared between calls, as each node must show what it says. */
  readonly maxCachedBytes: number
  readonly turns: WorkTurns
}

const maxCachedHeaders = 2048
/** They take 4 to 8 ms. */
const sendersPerTurn = 32
/** A value that is parsed takes about twice the bytes of its text. */
const bytesPerByte = 2
const minEntryBytes = 1024

const openCache = <T extends { readonly bytes: number }>(maxBytes: number) =>
  new LRUCache<string, T>({ maxSize: Math.max(1, maxBytes), sizeCalculation: ({ bytes }) => minEntryBytes + bytesPerByte * bytes })

/**
 * Headers, transactions and receipts of blocks, by the hash of the block: what a hash is of never changes, so they are requested once for all calls. The
 * hash of a header is that of its fields; transactions and receipts have the roots of their header.
 */
export class ProvenBlocks {
  readonly #options: ProvenBlocksOptions
  readonly #headers = new LRUCache<string, TrustedHeader>({ max: maxCachedHeaders })
  readonly #blocks: LRUCache<string, ProvenBlock>
  readonly #receipts: LRUCache<string, ProvenReceipts>
  readonly #headerRequests = new SharedRequests<TrustedHeader | 'missing'>()
  readonly #blockRequests = new SharedRequests<ProvenBlock | 'missing'>()
  readonly #receiptRequests = new SharedRequests<ProvenReceipts | 'missing'>()
  /** Whether the blooms of headers have all logs, as a block with logs has shown. Networks may fill them otherwise, or not at all. */
  #areBloomsRight: boolean | undefined

  constructor(options: ProvenBlocksOptions) {
    this.#options = options
    this.#blocks = openCache(options.maxCachedBytes)
    this.#receipts = openCache(options.maxCachedBytes)
  }

  /** The header with the hash, if it is known here. */
  knownHeader(hash: string): TrustedHeader | undefined {
    return this.#headers.get(hash)
  }

  recordHeader(header: TrustedHeader): void {
    this.#headers.set(header.hash, header)
  }

  /** Whether the block may have logs whose bits a bloom may have. */
  mayHaveLogs({ logsBloom, receiptsRoot }: TrustedHeader, mayBeIn: (logsBloom: string) => boolean): boolean {
    if (receiptsRoot === emptyRoot) return false
    return !(this.#options.rules.areAllKnown || this.#areBloomsRight === true) || mayBeIn(logsBloom)
  }

  /** No node chooses what is seen here: the header has both roots. */
  async #compareBloom(proven: ProvenReceipts): Promise<void> {
    const logs = logsOf(proven)
    if (this.#options.rules.areAllKnown || this.#areBloomsRight === false || logs.length === 0) return
    this.#areBloomsRight = (await this.#options.turns.run(logsBloomSteps(logs))) === proven.block.header.logsBloom
  }

  /** Undefined where the node lacks it. */
  async headerOf(hash: string, call: VerifiedCall, next: NextPlugin): Promise<TrustedHeader | Failure | undefined> {
    const known = this.#headers.get(hash)
    if (known !== undefined) return known
    const header = await this.#requestHeader('eth_getBlockByHash', hash, call, next)
    if (header === 'missing' || isFailed(header)) return header === 'missing' ? undefined : header
    if (header.hash !== hash) return notLinked(call)
    this.recordHeader(header)
    return header
  }

  /** The header that the node has at that height. */
  async headerAt(number: number, call: VerifiedCall, next: NextPlugin): Promise<TrustedHeader | Failure> {
    const header = await this.#requestHeader('eth_getBlockByNumber', toHexQuantity(number), call, next)
    return header === 'missing' ? notLinked(call) : header
  }

  #requestHeader(method: string, block: string, call: VerifiedCall, next: NextPlugin): Promise<TrustedHeader | Failure | 'missing'> {
    return this.#headerRequests.get(block, call, async shared => {
      const request = { method, params: [block, false] }
      const reply = await send(shared, request, next)
      if (isFailure(reply)) return reply
      if (isJsonNull(reply.result)) return 'missing'
      return this.#toHeader({ reply, request }, shared)
    })
  }

  /** Of a chain that hashes its headers otherwise nothing is proven, and no node has lied. */
  #toHeader({ reply, request }: Pick<NodeAnswer, 'reply' | 'request'>, call: VerifiedCall): TrustedHeader | Failure {
    const { rules, refuseWrong } = this.#options
    const value = toJson(reply)
    const header = toTrustedHeader(value, () => true)
    const findings = isJsonObject(value)
      ? [header === undefined ? headerFinding(value) : headerFinding(value, true), orderFinding(value)]
      : []
    const decisions = findings.map(each => rules.decide(each, call.context.target.name))
    if (header !== undefined) return header
    if (findings.length === 0 || decisions.includes('refuse'))
      return refuseWrong(reply, { cause: 'the hash of a block is not that of its header', request }, call)
    releaseResult(reply)
    return notProvable(call, 'the hash of a block is not that of its header')
  }

  /** The block with its transactions; undefined where the node lacks it. */
  async blockOf(hash: string, call: VerifiedCall, next: NextPlugin): Promise<ProvenBlock | Failure | undefined> {
    const known = this.#blocks.get(hash)
    if (known !== undefined) return known
    const block = await this.#blockRequests.get(hash, call, async shared => {
      const request = { method: 'eth_getBlockByHash', params: [hash, true] }
      const reply = await send(shared, request, next)
      if (isFailure(reply)) return reply
      if (isJsonNull(reply.result)) return 'missing'
      const value = await this.#options.turns.run(parseSteps(reply.result))
      const header = toTrustedHeader(value, block => isSameHex(block['hash'], hash))
      const answer = { reply, request, header: header ?? this.#headers.get(hash) }
      if (answer.header === undefined) {
        const other = this.#toHeader(answer, shared)
        if (isFailed(other)) return other
        return this.#options.refuseWrong(reply, { cause: 'the header is not that of the hash', request }, shared)
      }
      const bytes = reply.result.byteLength
      const proof = header === undefined ? 'the header is not that of the hash' : provenBlockSteps(value, header, bytes)
      return this.#accept(answer, shared, this.#blocks, hash, proof)
    })
    if (block === 'missing') return undefined
    if (!isFailed(block)) this.recordHeader(block.header)
    return block
  }

  /**
   * All receipts of the block; undefined where the node lacks it. That a receipt is of its transaction is proven by the transactions, as no root has the hashes
   * that are in receipts.
   */
  async receiptsOf(hash: string, call: VerifiedCall, next: NextPlugin): Promise<ProvenReceipts | Failure | undefined> {
    const known = this.#receipts.get(hash)
    if (known !== undefined) return known
    const receipts = await this.#receiptRequests.get(hash, call, async shared => {
      const request = { method: 'eth_getBlockReceipts', params: [hash] }
      const [reply, block] = await Promise.all([send(shared, request, next), this.blockOf(hash, shared, next)])
      if (isFailure(reply)) return reply
      if (block === undefined) return 'missing'
      if (isFailed(block)) return block
      if (isJsonNull(reply.result)) return notLinked(shared)
      const answer = { reply, request, header: block.header }
      const proven = await this.#accept(answer, shared, this.#receipts, hash, provenReceiptsSteps(reply, block))
      if (!isFailed(proven)) await this.#compareBloom(proven)
      return proven
    })
    return receipts === 'missing' ? undefined : receipts
  }

  /** No root has the senders of transactions: they are computed for answers that show them, in 0.1 to 0.2 ms each. A failure where one is another. */
  async checkSenders(block: ProvenBlock, positions: Iterable<number>, call: VerifiedCall): Promise<Failure | undefined> {
    const { header, transactions, checkedSenders } = block
    const { areAllKnown } = this.#options.rules
    let checkedCount = 0
    for (const i of positions) {
      const transaction = transactions[i]!
      if (checkedSenders.has(i) || !(areAllKnown || isSigned(transaction))) continue
      checkedCount += 1
      if (checkedCount % sendersPerTurn === 0) await this.#options.turns.next()
      const findings = [senderFinding(transaction, await senderOf(transaction), header)]
      const failure = this.#findBroken(findings, { reply: toResult(transaction, call), request: undefined, header }, call)
      if (failure !== undefined) {
        this.#blocks.delete(header.hash)
        this.#receipts.delete(header.hash)
        return failure
      }
      checkedSenders.add(i)
    }
    return undefined
  }

  /** Keeps what is proven; a failure for what is not. */
  async #accept<T extends ProvenBlock | ProvenReceipts>(
    answer: NodeAnswer,
    call: VerifiedCall,
    cache: LRUCache<string, T>,
    hash: string,
    proof: Steps<Checked<T>> | string,
  ): Promise<T | Failure> {
    const { reply, request, header } = answer
    const checked = typeof proof === 'string' ? proof : await this.#options.turns.run(withoutMalformed(proof))
    if (typeof checked === 'string' && checked !== 'unknown')
      return this.#options.refuseWrong(reply, { cause: checked, request, header }, call)
    const failure = typeof checked === 'string' ? undefined : this.#findBroken(checked.findings, answer, call)
    if (failure !== undefined) return failure
    releaseResult(reply)
    if (typeof checked === 'string') return notProvable(call, 'transactions or receipts of a kind that is not known')
    cache.set(hash, checked.value)
    if (request !== undefined && header !== undefined) this.#options.confirmRight(request, header, call)
    return checked.value
  }

  /**
   * The failure for the first finding that the answer is to be refused for. Where the rule may be none of the chain, it is no lie; and where it has not held yet,
   * a majority of the upstreams must break it.
   */
  #findBroken(findings: readonly Finding[], { reply, request, header }: NodeAnswer, call: VerifiedCall): Failure | undefined {
    const { refuseWrong, rules } = this.#options
    const { target, upstreams } = call.context
    const decisions = findings.map(finding => ({ finding, decision: rules.decide(finding, target.name) }))
    const broken = decisions.find(({ decision }) => decision === 'refuse')?.finding
    if (broken === undefined) {
      const required = requiredVotesOf(undefined, upstreams.length)(upstreams.length, 0)
      const unknown = decisions.filter(({ finding, decision }) => decision === 'unknown' && finding.isDerived)
      const doubted = unknown.filter(({ finding }) => !rules.isBrokenByEnough(finding, target.name, required))[0]
      if (doubted === undefined) return undefined
      releaseResult(reply)
      return notProvable(call, `not so: ${doubted.finding.rule}`)
    }
    const isKnown = rules.isKnown(broken)
    return refuseWrong(
      reply,
      { cause: `not so: ${broken.rule}`, request, header: isKnown ? header : undefined, isRuleOfAll: isKnown },
      call,
    )
  }
}

interface NodeAnswer {
  readonly reply: Result
  readonly request: Request | undefined
  /** Undefined where the block has no header that hashes as those of Ethereum. */
  readonly header: TrustedHeader | undefined
}

/** What is proven, with what no root shows; or what is wrong; or `unknown` for types of transactions, and forms of receipts, that are not known here. */
type Checked<T> = { readonly value: T; readonly findings: readonly Finding[] } | 'unknown' | (string & {})

function* withoutMalformed<T>(proof: Steps<Checked<T>>): Steps<Checked<T>> {
  try {
    return yield* proof
  } catch (error) {
    if (error instanceof MalformedMember) return 'a member is missing or malformed'
    throw error
  }
}

function* provenBlockSteps(json: Json, header: TrustedHeader, bytes: number): Steps<Checked<ProvenBlock>> {
  const block = toObject(json)
  const transactions = toList(block['transactions']).map(toObject)
  if (!transactions.every(hasKnownEncoding)) return 'unknown'
  const encodings: Buffer[] = []
  const hashes: string[] = []
  for (const transaction of transactions) {
    const encoding = encodeTransaction(transaction)
    encodings.push(encoding)
    hashes.push(toHex(keccak256(encoding)))
    yield memberBytes + encoding.length
  }
  if (toHex(yield* trieRootSteps(encodings)) !== header.transactionsRoot) return 'transactions are not those of the header'
  if (!transactions.every((each, i) => isSameHex(each['hash'], hashes[i]) && isAt(each, header, i)))
    return 'a transaction is not where it says'
  if (!hasUnclesOf(block)) return 'uncles are not those of the header'
  const covered: JsonObject[] = []
  const findings = [withdrawalsFinding(block, header)]
  for (const transaction of transactions) {
    const each = withoutPendingPrice(withoutUncovered(transaction), header)
    covered.push(each)
    findings.push(...transactionFindings(each, header))
    yield memberBytes
  }
  const value = { header, block: { ...block, transactions: covered }, transactions: covered, hashes, checkedSenders: new Set<number>() }
  return { value: { ...value, bytes, encodedBytes: lengthOf(encodings) }, findings }
}

/** As which the members of a transaction, a receipt or a log count that are compared. */
const memberBytes = 256

/** A block has up to two uncles, of which the header has the hash of their headers. */
const hasUnclesOf = ({ uncles, sha3Uncles }: JsonObject): boolean =>
  isSameHex(sha3Uncles, emptyListHash) === (isAbsent(uncles) || toList(uncles).length === 0)

function* provenReceiptsSteps({ result }: Result, block: ProvenBlock): Steps<Checked<ProvenReceipts>> {
  const { header, transactions, hashes } = block
  const receipts = toList(yield* parseSteps(result)).map(toObject)
  if (!receipts.every(receipt => isEncodableIn(receipt, header))) return 'unknown'
  const covered = receipts.length === transactions.length ? yield* coveredReceiptsSteps(receipts, header) : undefined
  if (covered === undefined) return 'receipts are not those of the header'
  if (covered === 'unknown') return 'unknown'
  let logIndex = 0
  for (const [i, receipt] of receipts.entries()) {
    if (!isSameHex(receipt['transactionHash'], hashes[i]) || !isAt(receipt, header, i)) return 'a receipt is not where it says'
    for (const log of toList(receipt['logs']).map(toObject)) {
      const isHere = isSameHex(log['transactionHash'], hashes[i]) && isAt(log, header, i) && parseHexQuantity(log['logIndex']) === logIndex
      if (!isHere || (!isAbsent(log['removed']) && log['removed'] !== false)) return 'a log is not where it says'
      logIndex += 1
      yield memberBytes
    }
  }
  const findings: Finding[] = []
  let before: JsonObject | undefined
  const shown: JsonObject[] = []
  for (const [i, given] of covered.receipts.entries()) {
    const receipt = withoutUnsetTimes(given, header)
    shown.push(receipt)
    findings.push(...receiptFindings(receipt, before, transactions[i]!, header))
    before = receipt
    yield memberBytes * (1 + toList(receipt['logs']).length)
  }
  return { value: { block, ...covered, receipts: shown, bytes: result.byteLength }, findings }
}

/** Whether a transaction, a receipt or a log says of itself that it is of the transaction at that position. */
const isAt = ({ blockHash, blockNumber, transactionIndex }: JsonObject, { hash, number }: TrustedHeader, index: number): boolean =>
  isSameHex(blockHash, hash) && parseHexQuantity(blockNumber) === number && parseHexQuantity(transactionIndex) === index

/** All logs of the block, in their order. */
export const logsOf = ({ receipts }: ProvenReceipts): readonly JsonObject[] => receipts.flatMap(({ logs }) => toList(logs).map(toObject))
