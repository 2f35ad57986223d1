import { isFailure, refuse } from '../../reply.ts'
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
    if (!isFailure(reply) || reply.meaning !== 'limited') {
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

const limited = refuse('unavailable', { meaning: 'limited', cause: 'the node limits us' })
