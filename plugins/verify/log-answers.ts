import { LRUCache } from 'lru-cache'
import { resultMemoryOf } from '../../src/plugin/internal.ts'
import {
  blockSelectorOf,
  isFailure,
  isJsonNull,
  isJsonObject,
  keccak256,
  parseHexQuantity,
  refuse,
  refuseTooManyResults,
  toHexQuantity,
} from '../../src/plugin/plugin.ts'
import type { Failure, Json, JsonObject, Method, Reply, Result, Services } from '../../src/plugin/plugin.ts'
import { MalformedMember, isSameHex, toHex, toList, toObject } from './hex.ts'
import { LogQuery } from './log-query.ts'
import { numberOf, send, toJson } from './node-requests.ts'
import type { NextPlugin, RefuseWrong, VerifiedCall } from './node-requests.ts'
import { hasKnownType, receiptsRootOf } from './receipts-root.ts'
import { notAgreed } from './state-answers.ts'
import { encodeTransaction } from './transaction-encoding.ts'
import { trieRootOf } from './trie-root.ts'
import { toTrustedHeader } from './trusted-headers.ts'
import type { TrustedHeader, TrustedHeaders } from './trusted-headers.ts'

/** The newest block of a range first. */
type HeaderChain = readonly TrustedHeader[]

const maxCachedHeaders = 2048
const maxCachedLogBytes = 33_554_432

interface LogAnswersOptions {
  /** Most blocks of one query. */
  readonly maxBlocks: number
  readonly headers: TrustedHeaders
  readonly refuseWrong: RefuseWrong
}

/**
 * Answers eth_getLogs with all logs of the blocks, and no others: each header is linked to one that nodes agree on, the bloom of a header tells that the
 * block has none, or the block's receipts are those of its header, and are filtered here.
 */
export class LogAnswers {
  readonly #options: LogAnswersOptions
  readonly #services: Pick<Services, 'heads'>
  /** By hash: what a hash is of never changes. */
  readonly #headerByHash = new LRUCache<string, TrustedHeader>({ max: maxCachedHeaders })
  /** All logs of a block, by its hash. */
  readonly #logsByHash = new LRUCache<string, readonly JsonObject[]>({
    maxSize: maxCachedLogBytes,
    sizeCalculation: logs => 1024 + logs.length * 1024,
  })

  constructor(options: LogAnswersOptions, services: Pick<Services, 'heads'>) {
    this.#options = options
    this.#services = services
  }

  /** Undefined for a query over more blocks than are proven, or over blocks that are not known yet. */
  async answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | undefined> {
    const { request, target } = call.context
    const [filter] = request.params
    const query = LogQuery.of(isJsonObject(filter) ? filter : {})
    if (query === undefined) return undefined
    const chain = await this.#chainOf(call, method, next)
    if (chain === undefined || 'error' in chain) return chain
    const logs: JsonObject[] = []
    for (const header of chain.toReversed()) {
      if (!query.mayBeIn(header.logsBloom)) continue
      const ofBlock = this.#logsByHash.get(header.hash) ?? (await this.#requestLogs(header, call, next))
      if ('error' in ofBlock) return ofBlock
      for (const log of ofBlock) if (query.selects(log)) logs.push(log)
      if (logs.length > (method.maxResults ?? Infinity))
        return refuseTooManyResults(method.maxResults ?? 0, { source: target.source, upstream: target.name })
    }
    const last = logs.at(-1)
    if (last !== undefined)
      await this.#services.heads.reportHeight(target.name, parseHexQuantity(last['blockNumber']) ?? 0, String(last['blockHash']))
    return { source: target.source, upstream: target.name, result: Buffer.from(JSON.stringify(logs)), count: logs.length }
  }

  async #chainOf(call: VerifiedCall, method: Method, next: NextPlugin): Promise<HeaderChain | Failure | undefined> {
    const { heads } = this.#services
    const { headers, refuseWrong, maxBlocks } = this.#options
    const blocks = blockSelectorOf(method, call.context.request.params)
    if (blocks !== undefined && 'hash' in blocks) {
      const header = await this.#headerOf(blocks.hash.toLowerCase(), { method: 'eth_getBlockByHash', block: blocks.hash }, call, next)
      return 'error' in header ? header : [header]
    }
    const from = await numberOf(blocks?.from ?? 'latest', call, next, { heads, refuseWrong })
    const to = await numberOf(blocks?.to ?? 'latest', call, next, { heads, refuseWrong })
    if (typeof from !== 'number') return from
    if (typeof to !== 'number') return to
    const { head = Infinity, reportedHeight } = heads.snapshot
    if (from > to || to - from >= maxBlocks || to > Math.max(head, reportedHeight)) return undefined
    const newest = await headers.at(to, call, blocks?.to === 'latest' ? reportedHeight : to)
    if (newest === undefined) return notAgreed
    if (blocks?.from === 'latest') return [newest]
    return newest.number < from ? [] : this.#linkTo(newest, from, call, next)
  }

  /** The headers of the range. Those that are not known are requested together. */
  async #linkTo(newest: TrustedHeader, from: number, call: VerifiedCall, next: NextPlugin): Promise<HeaderChain | Failure> {
    const chain = [newest]
    const requested = new Map<number, Promise<TrustedHeader | Failure>>()
    for (let number = newest.number - 1; number >= from; number--) {
      const hash = chain.at(-1)!.parentHash
      const known = this.#headerByHash.get(hash)
      if (known === undefined && requested.size === 0) {
        for (let below = number; below >= from; below--)
          requested.set(below, this.#requestHeader({ method: 'eth_getBlockByNumber', block: toHexQuantity(below) }, call, next))
      }
      const header = known ?? (await requested.get(number))!
      if ('error' in header) return header
      if (header.hash !== hash) return notLinked(call)
      this.#headerByHash.set(hash, header)
      chain.push(header)
    }
    return chain
  }

  async #headerOf(hash: string, request: HeaderRequest, call: VerifiedCall, next: NextPlugin): Promise<TrustedHeader | Failure> {
    const header = this.#headerByHash.get(hash) ?? (await this.#requestHeader(request, call, next))
    if ('error' in header) return header
    if (header.hash !== hash) return notLinked(call)
    this.#headerByHash.set(hash, header)
    return header
  }

  async #requestHeader({ method, block }: HeaderRequest, call: VerifiedCall, next: NextPlugin): Promise<TrustedHeader | Failure> {
    const reply = await send(call, { method, params: [block, false] }, next)
    if (isFailure(reply)) return reply
    if (isJsonNull(reply.result)) return notLinked(call)
    return (
      toTrustedHeader(toJson(reply), () => true) ?? this.#options.refuseWrong(reply, 'the hash of a block is not that of its header', call)
    )
  }

  /** All logs of the block. That a log is of its transaction is proven by the block's transactions, as no root has the hashes of receipts. */
  async #requestLogs(header: TrustedHeader, call: VerifiedCall, next: NextPlugin): Promise<readonly JsonObject[] | Failure> {
    const { refuseWrong } = this.#options
    const [receipts, block] = await Promise.all([
      send(call, { method: 'eth_getBlockReceipts', params: [header.hash] }, next),
      send(call, { method: 'eth_getBlockByHash', params: [header.hash, true] }, next),
    ])
    if (isFailure(receipts)) return receipts
    if (isFailure(block)) return block
    if (isJsonNull(receipts.result) || isJsonNull(block.result)) return notLinked(call)
    const logs = logsOf(toJson(receipts), toJson(block), header)
    if (logs === 'unknown') return notProvable(call)
    if (logs === 'wrong') return refuseWrong(receipts, 'receipts are not those of the header', call)
    release(receipts, block)
    this.#logsByHash.set(header.hash, logs)
    return logs
  }
}

interface HeaderRequest {
  readonly method: string
  readonly block: string
}

const release = (...replies: readonly Result[]): void => {
  for (const reply of replies) resultMemoryOf(reply)?.release()
}

/** The logs of a block's receipts, if these are those of the header, and each log says of itself where it is. */
const logsOf = (receiptsJson: Json, blockJson: Json, header: TrustedHeader): readonly JsonObject[] | 'unknown' | 'wrong' => {
  try {
    const receipts = toList(receiptsJson).map(toObject)
    const transactions = toList(toObject(blockJson)['transactions']).map(toObject)
    if (![...receipts, ...transactions].every(hasKnownType)) return 'unknown'
    const encodings = transactions.map(encodeTransaction)
    if (receiptsRootOf(receipts) !== header.receiptsRoot || toHex(trieRootOf(encodings)) !== header.transactionsRoot) return 'wrong'
    const logs: JsonObject[] = []
    for (const [i, receipt] of receipts.entries()) {
      const transactionHash = toHex(keccak256(encodings[i]!))
      for (const log of toList(receipt['logs']).map(toObject)) {
        const isHere =
          isSameHex(log['blockHash'], header.hash) &&
          parseHexQuantity(log['blockNumber']) === header.number &&
          isSameHex(log['transactionHash'], transactionHash) &&
          parseHexQuantity(log['transactionIndex']) === i &&
          parseHexQuantity(log['logIndex']) === logs.length
        if (!isHere) return 'wrong'
        logs.push(log)
      }
    }
    return logs
  } catch (error) {
    if (error instanceof MalformedMember) return 'wrong'
    throw error
  }
}

/** The node may be on another branch, or behind: that is no lie. */
const notLinked = ({ context: { target } }: VerifiedCall): Failure =>
  refuse('unavailable', {
    source: target.source,
    upstream: target.name,
    cause: 'not proven: the node has another block, or none',
    retryAfter: 1,
    retryElsewhere: true,
  })

const notProvable = ({ context: { target } }: VerifiedCall): Failure =>
  refuse('unavailable', {
    source: target.source,
    upstream: target.name,
    cause: 'not proven: transactions of a type that is not known',
    retryAfter: 1,
    retryElsewhere: true,
  })
