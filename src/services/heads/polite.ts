import { isFailure, refuse } from '../../reply.ts'
import type { Failure, Reply } from '../../reply.ts'
import type { Clock } from '../clock.ts'
import type { AskNode } from './fetch.ts'

/** In ms: the first rest of a node that does not say for how long, doubled each time; and the longest of any. */
const first = 1_000
const longest = 60_000

/** Leaves a node alone that limits us, for as long as it says: meanwhile whoever asks is told that. */
export const openPolite = (ask: AskNode, clock: Clock): AskNode => {
  let [until, refusals] = [-Infinity, 0]
  return async (method, ...params) => {
    if (clock.monotonic() < until) return limited
    const reply = await ask(method, ...params)
    if (!isLimit(reply)) {
      refusals = 0
    } else if (clock.monotonic() >= until) {
      // One refusal of several that were asked for at once.
      const wait = reply.retryAfter === undefined ? first * 2 ** refusals : 1000 * reply.retryAfter
      refusals += 1
      until = clock.monotonic() + Math.min(longest, Math.max(first, wait))
    }
    return reply
  }
}

/** Over HTTP, or in JSON-RPC: of what is asked here nothing is too much but that it is asked so often. */
const isLimit = (reply: Reply): reply is Failure =>
  isFailure(reply) && (reply.meaning === 'limited' || (reply.kind === 'node' && codes.has(reply.error.code)))

/** Limit exceeded (EIP-1474), and HTTP's number for it. */
const codes: ReadonlySet<number> = new Set([-32005, 429])

const limited = refuse('unavailable', { meaning: 'limited', cause: 'the node limits us' })
