import { toBuffer } from '../../json/chunked-bytes.ts'
import type { Json, Target, Signal } from '../../plugin/call.ts'
import { isFailure, refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import { parseHexQuantity, isJsonObject } from '../../util/json.ts'
import type { Clock } from '../clock.ts'
import { memberIsOneOf } from '../member-search.ts'
import { results } from '../results.ts'
import type { RequestOptions, UpstreamClient } from '../upstream-client/index.ts'
import { RateLimitBackoff } from '../upstream-client/upstream-rate-limits.ts'

/** Sends one upstream a request about its chain, ahead of the calls that wait for the upstream's concurrency limit. */
export type UpstreamRequester = (method: string, ...params: readonly Json[]) => Promise<Reply>

export const openUpstreamRequester =
  (upstreamClient: UpstreamClient, target: Target, signal: Signal, limits: HeadRequestLimits = headRequestLimits): UpstreamRequester =>
  (method, ...params) =>
    upstreamClient.request(target, { method, params }, { ...limits, signal, idempotent: true, bypassConcurrencyLimit: true })

/** Sends no requests while the upstream is rate limiting them: callers get a rate-limit error at once. */
export const withRateLimitBackoff = (request: UpstreamRequester, clock: Clock): UpstreamRequester => {
  const backoff = new RateLimitBackoff(clock)
  return async (method, ...params) => {
    if (!backoff.mayRequest) return rateLimitedReply
    const isProbe = backoff.begin()
    let isAnswered = false
    try {
      const reply = await request(method, ...params)
      isAnswered = !isRateLimited(reply)
      if (isRateLimited(reply)) backoff.onRateLimited(reply.retryAfter)
      return reply
    } finally {
      backoff.end(isProbe, isAnswered)
    }
  }
}

/** Over HTTP, or as a JSON-RPC error: the requests that are sent here are too small to exceed any other limit. */
const isRateLimited = (reply: Reply): reply is Failure =>
  isFailure(reply) && (reply.category === 'rateLimited' || (reply.kind === 'node' && rateLimitCodes.has(reply.error.code)))

/** Limit exceeded (EIP-1474), and the HTTP status 429 as a JSON-RPC code. */
const rateLimitCodes: ReadonlySet<number> = new Set([-32005, 429])

const rateLimitedReply = refuse('unavailable', { category: 'rateLimited', cause: 'the upstream is rate limiting' })

/** The block with this hash or number; undefined when the upstream does not return it. */
export const fetchBlock = async (request: UpstreamRequester, hashOrNumber: string): Promise<BlockHeader | undefined> =>
  parseBlockReply(await request(hashOrNumber.length === hashChars ? 'eth_getBlockByHash' : 'eth_getBlockByNumber', hashOrNumber, false))

/** `0x` and 32 bytes in hex. */
const hashChars = 66

type HeadRequestLimits = Pick<RequestOptions, 'timeoutMs' | 'maxBytes' | 'livenessProbe'>

const headRequestLimits: HeadRequestLimits = { timeoutMs: 2000, maxBytes: 8_388_608 }

/** For the logs of one block. */
const logRequestLimits = { timeoutMs: 10_000, maxBytes: 33_554_432 }
/** An upstream that does not answer eth_blockNumber either hangs: it is not the block whose logs take long. */
const logProbeAfterMs = 5_000

/** JSON text of the logs of a block, or the limit that they exceed. */
export type FetchedLogs = { readonly json: string } | { readonly exceededLimit: string }

/** Resolves with the logs of the block with this hash; with undefined for a failure, and for anything but its logs. */
export const openLogFetcher = (upstreamClient: UpstreamClient, target: Target, signal: Signal, clock: Clock) => {
  const probe = openUpstreamRequester(upstreamClient, target, signal)
  const livenessProbe = { afterMs: logProbeAfterMs, isAlive: async () => !isFailure(await probe('eth_blockNumber')) }
  const limits = { ...logRequestLimits, livenessProbe }
  const request = withRateLimitBackoff(openUpstreamRequester(upstreamClient, target, signal, limits), clock)
  return async (blockHash: string): Promise<FetchedLogs | undefined> => {
    const reply = await request('eth_getLogs', { blockHash })
    if (isFailure(reply)) return exceededLimitOf(reply)
    if (reply.count === undefined) return undefined
    const areOfBlock = await results.everyObjectHas(reply.result, reply.count, [memberIsOneOf('blockHash', [blockHash])])
    return areOfBlock ? { json: toBuffer(reply.result).toString() } : undefined
  }
}

const exceededLimitOf = ({ kind }: Failure): FetchedLogs | undefined => {
  if (kind === 'tooLarge') return { exceededLimit: `${logRequestLimits.maxBytes / 1_048_576} MiB` }
  return kind === 'timeout' ? { exceededLimit: `${logRequestLimits.timeoutMs / 1_000} s` } : undefined
}

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
