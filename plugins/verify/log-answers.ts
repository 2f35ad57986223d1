import { blockSelectorOf, isFailure, isJsonObject, parseHexQuantity, refuseTooManyResults } from '../../src/plugin/plugin.ts'
import type { Failure, JsonObject, Method, Reply, Services } from '../../src/plugin/plugin.ts'
import { stringifySteps } from './json-steps.ts'
import { LogQuery } from './log-query.ts'
import { isFailed, notLinked, numberOf } from './node-requests.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import type { TrustedHeader } from './block-header.ts'
import { logsOf } from './proven-blocks.ts'
import type { ProvenBlocks } from './proven-blocks.ts'
import type { TrustedHeaders } from './trusted-headers.ts'
import type { WorkTurns } from './work-turns.ts'
import type { RefuseWrong } from './wrong-results.ts'

/** The newest block of a range first. */
type HeaderChain = readonly TrustedHeader[]

interface LogAnswersOptions {
  /** Most blocks of one query. */
  readonly maxBlocks: number
  /** Most bytes of receipts and transactions of one query. */
  readonly maxProofBytes: number
  /** Called for queries up to the newest block. */
  onUse(): void
  readonly headers: TrustedHeaders
  readonly blocks: ProvenBlocks
  readonly refuseWrong: RefuseWrong
  readonly turns: WorkTurns
}

/** Blocks whose receipts are requested at once. */
const concurrentBlocks = 4

/**
 * Answers eth_getLogs with all logs of the blocks, and no others: each header is linked to one that nodes agree on, the bloom of a header tells that the
 * block has none, or the block's receipts are those of its header, and are filtered here.
 */
export class LogAnswers {
  readonly #options: LogAnswersOptions
  readonly #services: Pick<Services, 'heads'>

  constructor(options: LogAnswersOptions, services: Pick<Services, 'heads'>) {
    this.#options = options
    this.#services = services
  }

  /** Undefined for a query over more blocks or bytes than are proven, or over blocks that are not known yet. */
  async answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | undefined> {
    const { request, target } = call.context
    const [filter] = request.params
    const query = LogQuery.of(isJsonObject(filter) ? filter : {})
    if (query === undefined) return undefined
    const chain = await this.#chainOf(call, method, next)
    if (chain === undefined || 'error' in chain) return chain
    const logs: JsonObject[] = []
    const matching = chain.toReversed().filter(header => this.#options.blocks.mayHaveLogs(header, bloom => query.mayBeIn(bloom)))
    let bytes = 0
    for (let i = 0; i < matching.length; i += concurrentBlocks) {
      const requests = matching.slice(i, i + concurrentBlocks).map(({ hash }) => this.#options.blocks.receiptsOf(hash, call, next))
      for (const request of await Promise.all(requests)) {
        const proven = request ?? notLinked(call)
        if (isFailed(proven)) return proven
        bytes += proven.encodedBytes + proven.block.encodedBytes
        await this.#options.turns.run(query.selectSteps(logsOf(proven), logs))
      }
      if (logs.length > (method.maxResults ?? Infinity))
        return refuseTooManyResults(method.maxResults ?? 0, { source: target.source, upstream: target.name })
      if (bytes > this.#options.maxProofBytes) return undefined
    }
    const last = logs.at(-1)
    const { heads } = this.#services
    if (last !== undefined)
      await heads.reportHeight(heads.reporterOf(target), parseHexQuantity(last['blockNumber']) ?? 0, String(last['blockHash']))
    const result = await this.#options.turns.run(stringifySteps(logs))
    return { source: target.source, upstream: target.name, result, count: logs.length }
  }

  async #chainOf(call: VerifiedCall, method: Method, next: NextPlugin): Promise<HeaderChain | Failure | undefined> {
    const { heads } = this.#services
    const { headers, blocks: provenBlocks, refuseWrong, maxBlocks, onUse } = this.#options
    const blocks = blockSelectorOf(method, call.context.request.params)
    if (blocks !== undefined && 'hash' in blocks) {
      const header = await provenBlocks.headerOf(blocks.hash.toLowerCase(), call, next)
      if (header !== undefined) return isFailed(header) ? header : [header]
      const reply = await next(call)
      return isFailure(reply) ? reply : notLinked(call)
    }
    const from = await numberOf(blocks?.from ?? 'latest', call, next, { heads, headers, refuseWrong })
    const to = await numberOf(blocks?.to ?? 'latest', call, next, { heads, headers, refuseWrong })
    if (typeof from !== 'number') return from
    if (typeof to !== 'number') return to
    const { head = Infinity, reportedHeight } = heads.snapshot
    if (from > to || to - from >= maxBlocks || to > Math.max(head, reportedHeight)) return undefined
    if (to >= reportedHeight) onUse()
    const newest = await (blocks?.to === 'latest' ? headers.latest(to, call) : headers.at(to, call))
    if (newest === undefined) return headers.notTrusted
    provenBlocks.recordHeader(newest)
    if (blocks?.from === 'latest') return [newest]
    // Callers may know of a block that no header is trusted of yet: that it has no logs is not so.
    return newest.number < from ? headers.notTrusted : this.#linkTo(newest, from, call, next)
  }

  /** The headers of the range. Those that are not known are requested together. */
  async #linkTo(newest: TrustedHeader, from: number, call: VerifiedCall, next: NextPlugin): Promise<HeaderChain | Failure> {
    const chain = [newest]
    const { blocks } = this.#options
    const requested = new Map<number, Promise<TrustedHeader | Failure>>()
    for (let number = newest.number - 1; number >= from; number--) {
      const hash = chain.at(-1)!.parentHash
      const known = blocks.knownHeader(hash)
      if (known === undefined && requested.size === 0) {
        for (let below = number; below >= from; below--) requested.set(below, blocks.headerAt(below, call, next))
      }
      const header = known ?? (await requested.get(number))!
      if (isFailed(header)) return header
      if (header.hash !== hash) return notLinked(call)
      blocks.recordHeader(header)
      chain.push(header)
    }
    return chain
  }
}
