import type { Json, Target } from '../../plugin/call.ts'
import type { Signal } from '../../plugin/cancellation.ts'
import { isFailure, refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import { RateLimitBackoff } from '../upstream-client/rate-limit-backoff.ts'
import { parseBlockReply } from './block-header.ts'
import type { BlockHeader } from './block-header.ts'

/** Sends one upstream a request about its chain, ahead of the calls that wait for the upstream's concurrency limit. */
export type UpstreamRequester = (method: string, ...params: readonly Json[]) => Promise<Reply>

export const openUpstreamRequester =
  (upstreamClient: UpstreamClient, target: Target, signal: Signal): UpstreamRequester =>
  (method, ...params) =>
    upstreamClient.request(
      target,
      { method, params },
      { timeoutMs: requestTimeoutMs, maxBytes: maxResponseBytes, signal, idempotent: true, bypassConcurrencyLimit: true },
    )

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

const requestTimeoutMs = 2000
const maxResponseBytes = 8_388_608
