import type { CallOutcome } from '../../src/plugin/internal.ts'
import { isFailure } from '../../src/plugin/plugin.ts'
import type { Failure, Reply } from '../../src/plugin/plugin.ts'

/**
 * Ignored are replies that are no evidence of the health of the node: rate limits, the gateway's own limits, a query that
 * takes too long, a caller who left, errors that callers can cause. If breakers counted those, one caller could open them
 * for everybody.
 */
export const outcomeOf = (reply: Reply): CallOutcome => {
  if (!isFailure(reply)) return reply.unexpectedType === true ? 'ignored' : 'success'
  if (reply.retryElsewhere === true) return 'ignored'
  if (reply.fault === 'upstream') return reply.source === 'gateway' || isRateLimited(reply) ? 'ignored' : 'failure'
  return reply.fault === 'caller' && (reply.kind === 'node' || reply.kind === 'tooMany') ? 'success' : 'ignored'
}

/** By the node itself. */
export const isRateLimited = (reply: Reply): reply is Failure =>
  isFailure(reply) && reply.category === 'rateLimited' && reply.source !== 'gateway'
