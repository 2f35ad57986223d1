import { isFailure, refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import type { UpstreamRequester } from './upstream-requester.ts'

/** In ms: the first rest of a node that does not say for how long, doubled each time; and the longest of any. */
const minBackoffMs = 1_000
const maxBackoffMs = 60_000

/** Leaves a node alone that limits us, for as long as it says: meanwhile whoever asks is told that. */
export const withRateLimitBackoff = (request: UpstreamRequester, clock: Clock): UpstreamRequester => {
  let [backoffUntil, limitedCount] = [-Infinity, 0]
  return async (method, ...params) => {
    if (clock.monotonic() < backoffUntil) return rateLimitedReply
    const reply = await request(method, ...params)
    if (!isRateLimited(reply)) {
      limitedCount = 0
    } else if (clock.monotonic() >= backoffUntil) {
      // One refusal of several that were asked for at once.
      const backoffMs = reply.retryAfter === undefined ? minBackoffMs * 2 ** limitedCount : 1000 * reply.retryAfter
      limitedCount += 1
      backoffUntil = clock.monotonic() + Math.min(maxBackoffMs, Math.max(minBackoffMs, backoffMs))
    }
    return reply
  }
}

/** Over HTTP, or in JSON-RPC: of what is asked here nothing is too much but that it is asked so often. */
const isRateLimited = (reply: Reply): reply is Failure =>
  isFailure(reply) && (reply.category === 'rateLimited' || (reply.kind === 'node' && rateLimitCodes.has(reply.error.code)))

/** Limit exceeded (EIP-1474), and HTTP's number for it. */
const rateLimitCodes: ReadonlySet<number> = new Set([-32005, 429])

const rateLimitedReply = refuse('unavailable', { category: 'rateLimited', cause: 'the node limits us' })
