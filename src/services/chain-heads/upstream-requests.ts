import { toBuffer } from '../../json/chunked-bytes.ts'
import type { Json, Target, Signal } from '../../plugin/call.ts'
import type { ErrorCategory } from '../../plugin/error-table.ts'
import { isFailure, refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import { parseHexQuantity, isJsonObject } from '../../util/json.ts'
import type { Clock } from '../clock.ts'
import { memberIsOneOf } from '../member-search.ts'
import type { MethodTable } from '../method-table/index.ts'
import { results } from '../results.ts'
import type { RequestOptions, UpstreamClient } from '../upstream-client/index.ts'
import { RateLimitBackoff } from '../upstream-client/upstream-rate-limits.ts'

/** Sends one upstream a request about its chain, ahead of the calls that wait for the upstream's concurrency limit. */
export type UpstreamRequester = (method: string, ...params: readonly Json[]) => Promise<Reply>

export const openUpstreamRequester =
  (upstreamClient: UpstreamClient, target: Target, signal: Signal, limits: HeadRequestLimits = headRequestLimits): UpstreamRequester =>
  async (method, ...params) => {
    const options = { ...limits, signal, idempotent: true, bypassConcurrencyLimit: true }
    const reply = await upstreamClient.request(target, { method, params }, options)
    return signal.aborted ? canceled : reply
  }

/** Not the caller's fault, as an error with which a node answers may be: nothing is known of what the node has. */
const canceled = refuse('unavailable', { source: 'gateway', fault: 'gateway', cause: 'the upstream is tracked no longer' })

/** Sends no requests while the upstream is rate limiting them: callers get a rate-limit error at once. */
export const withRateLimitBackoff = (
  request: UpstreamRequester,
  clock: Clock,
  errorCategory: MethodTable['errorCategory'],
): UpstreamRequester => {
  const isRateLimited = (reply: Reply, method: string): reply is Failure =>
    isFailure(reply) &&
    (reply.category === 'rateLimited' || (reply.kind === 'node' && errorCategory(reply.error, method) === 'rateLimited'))
  const backoff = new RateLimitBackoff(clock)
  return async (method, ...params) => {
    if (!backoff.mayRequest) return rateLimitedReply
    const isProbe = backoff.begin()
    let isAnswered = false
    try {
      const reply = await request(method, ...params)
      isAnswered = !isRateLimited(reply, method)
      if (isRateLimited(reply, method)) backoff.onRateLimited(reply.retryAfter)
      return reply
    } finally {
      backoff.end(isProbe, isAnswered)
    }
  }
}

const rateLimitedReply = refuse('unavailable', { category: 'rateLimited', cause: 'the upstream is rate limiting' })

/** The block with this hash or number; undefined when the upstream does not return it. */
export const fetchBlock = async (request: UpstreamRequester, hashOrNumber: string): Promise<BlockHeader | undefined> =>
  parseBlockReply(await request(hashOrNumber.length === hashChars ? 'eth_getBlockByHash' : 'eth_getBlockByNumber', hashOrNumber, false))

/** `0x` and 32 bytes in hex. */
const hashChars = 66

type HeadRequestLimits = Pick<RequestOptions, 'timeoutMs' | 'maxBytes' | 'livenessProbe'>

const headRequestLimits: HeadRequestLimits = { timeoutMs: 2000, maxBytes: 8_388_608 }

/** What is requested of each block. */
export type BlockDataKind = 'logs' | 'receipts'

/** By the hash of the block. */
const blockDataRequests: Readonly<Record<BlockDataKind, { readonly method: string; paramOf(hash: string): Json }>> = {
  logs: { method: 'eth_getLogs', paramOf: blockHash => ({ blockHash }) },
  receipts: { method: 'eth_getBlockReceipts', paramOf: blockHash => blockHash },
}

const blockDataLimits = { timeoutMs: 10_000, maxBytes: 33_554_432 }
/** An upstream that does not answer eth_blockNumber either hangs: it is not the block that takes long. */
const probeAfterMs = 5_000

/** JSON text of the logs, or the receipts, of a block. */
interface BlockData {
  readonly json: string
}

/** The limit that they exceed, or how the node refuses them, in words; undefined when it does not answer, or has limited the rate. */
export type FailedBlockData = { readonly exceededLimit: string } | { readonly refusal: string } | undefined

export type FetchedBlockData = BlockData | FailedBlockData

interface BlockDataFetcherOptions {
  readonly upstreamClient: UpstreamClient
  readonly clock: Clock
  readonly errorCategory: MethodTable['errorCategory']
}

/** Resolves with what the block with this hash has. */
export const openBlockDataFetcher = (
  target: Target,
  signal: Signal,
  { upstreamClient, clock, errorCategory }: BlockDataFetcherOptions,
): ((kind: BlockDataKind, blockHash: string) => Promise<FetchedBlockData>) => {
  const probe = openUpstreamRequester(upstreamClient, target, signal)
  const livenessProbe = { afterMs: probeAfterMs, isAlive: async () => !isFailure(await probe('eth_blockNumber')) }
  const limits = { ...blockDataLimits, livenessProbe }
  const request = withRateLimitBackoff(openUpstreamRequester(upstreamClient, target, signal, limits), clock, errorCategory)
  return async (kind, blockHash) => {
    const { method, paramOf } = blockDataRequests[kind]
    const reply = await request(method, paramOf(blockHash))
    if (isFailure(reply)) return failedBlockData(reply, method, errorCategory)
    if (reply.count === undefined) return { refusal: `the result of ${method} is no list` }
    const areOfBlock = await results.everyObjectHas(reply.result, reply.count, [memberIsOneOf('blockHash', [blockHash])])
    return areOfBlock ? { json: toBuffer(reply.result).toString() } : { refusal: `the result of ${method} is of another block` }
  }
}

const failedBlockData = (failure: Failure, method: string, errorCategory: MethodTable['errorCategory']): FailedBlockData => {
  const { kind, nodeError } = failure
  if (kind === 'tooLarge') return { exceededLimit: `${blockDataLimits.maxBytes / 1_048_576} MiB` }
  // The next attempt may be faster.
  if (kind === 'timeout') return { refusal: `no answer within ${blockDataLimits.timeoutMs / 1_000} s` }
  const error = kind === 'node' ? failure.error : nodeError
  const category = error && errorCategory(error, method)
  if (error === undefined || (category !== undefined && healthCategories.has(category))) return undefined
  // The code alone may also mean a limit of the rate.
  const limit = errorCategory({ code: 0, message: error.message }, method)
  return limit === 'tooMany' || limit === 'tooLarge' ? { exceededLimit: error.message } : { refusal: error.message }
}

/** These say that the node, or the provider, cannot answer now. */
const healthCategories: ReadonlySet<ErrorCategory> = new Set(['rateLimited', 'unauthorized', 'noBackend'])

/** After such a failure another node may answer next. A rate limit comes from the same node. */
export const mayBeReplaced = (reply: Reply): boolean => isFailure(reply) && reply.fault !== 'caller' && reply.category !== 'rateLimited'

/** The members of a block that heads need. Hashes are in lower case. */
export interface BlockHeader {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  /** The block's own timestamp, in ms since 1970. */
  readonly timestampMs?: number
  /** JSON text of the header, as eth_subscribe has it: of a whole block, without what is no part of the header. */
  readonly header: string
}

/** Undefined for a failure, for `null`, for a pending block, and for anything else that is not a block. */
export const parseBlockReply = (reply: Reply): BlockHeader | undefined => parseBlockHeader(parseResult(reply))

/** The same for a block from a notification. */
export const parseBlockHeader = (value: unknown): BlockHeader | undefined => {
  const { transactions: _, uncles: __, withdrawals: ___, size: ____, totalDifficulty: _____, ...header } = membersOf(value)
  const { number, hash, parentHash, timestamp } = header
  const height = parseHexQuantity(number)
  if (height === undefined || typeof hash !== 'string' || typeof parentHash !== 'string') return undefined
  const timestampSeconds = parseHexQuantity(timestamp)
  return {
    number: height,
    hash: hash.toLowerCase(),
    parentHash: parentHash.toLowerCase(),
    header: JSON.stringify(header),
    ...(timestampSeconds !== undefined && { timestampMs: 1000 * timestampSeconds }),
  }
}

/** The number in a reply whose result is a hex quantity, as of eth_chainId. */
export const parseQuantityReply = (reply: Reply): number | undefined => parseHexQuantity(parseResult(reply))

/** The members of a JSON object; none for any other value. */
export const membersOf = (value: unknown): Readonly<Record<string, unknown>> => (isJsonObject(value) ? value : {})

/** Undefined for a failure. The upstream client has checked that a result is JSON. */
export const parseResult = (reply: Reply): unknown => (isFailure(reply) ? undefined : JSON.parse(toBuffer(reply.result).toString()))
