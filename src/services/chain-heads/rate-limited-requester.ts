import { isFailure, refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import { RateLimitBackoff } from '../upstream-client/rate-limit-backoff.ts'
import type { UpstreamRequester } from './upstream-requester.ts'

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
