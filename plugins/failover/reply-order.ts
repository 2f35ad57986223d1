import { isFailure } from '../../src/plugin/plugin.ts'
import type { Failure, Reply } from '../../src/plugin/plugin.ts'

/** The first failure that is about the request rather than about its node. */
export const betterFailure = (one: Failure | undefined, other: Failure): Failure =>
  one === undefined || (one.fault === 'upstream' && other.fault !== 'upstream') ? other : one

export const betterReply = (one: Reply, other: Reply): Reply =>
  !isFailure(one) ? one : isFailure(other) ? betterFailure(one, other) : other

/** True when no other node can have a better reply. */
export const isFinalReply = (reply: Reply): boolean =>
  isFailure(reply) ? reply.fault !== 'upstream' && reply.retryElsewhere !== true : reply.unexpectedType !== true
