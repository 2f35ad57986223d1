import type { Request, Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure, Reply } from '../../reply.ts'
import { writeRequest } from '../../wire/node.ts'
import type { Clock } from '../clock.ts'
import { exchange } from './exchange.ts'
import { Gate } from './gate.ts'
import { openLines } from './lines.ts'
import { placeOf } from './place.ts'
import type { Place } from './place.ts'
import type { Room } from './room.ts'
import type { Terms } from './terms.ts'
import { Watch } from './watch.ts'

export type { Terms } from './terms.ts'

/** Connections to nodes: kept alive, one set per process. */
export interface Agents {
  /**
   * Asks the node, and scans what it answers without parsing a result. Whatever is not a well-formed JSON-RPC answer to
   * this very request comes back as a failure with `fault: 'upstream'`: `kind: 'timeout'` when it is alive but slow,
   * `meaning: 'limited'` when it limits us, with its Retry-After, and `hangs` when it answers nothing at all. With the
   * source `gateway` it was not asked, or not to its end: too many calls at once for it, or too many bytes in all.
   */
  ask(target: Target, request: Request, terms: Terms): Promise<Reply>
}

/** What is kept for each target. */
interface Post {
  readonly place: Place
  readonly gate: Gate
}

/** `room` bounds the bytes of all answers that are still coming in. */
export const openAgents = (clock: Clock, room: Room): Agents & { close(): Promise<void> } => {
  const lines = openLines()
  const posts = new WeakMap<Target, Post>()
  const postOf = (target: Target): Post => {
    const known = posts.get(target)
    if (known !== undefined) return known
    const fresh = { place: placeOf(target.url), gate: new Gate(clock, target.concurrency ?? Infinity) }
    posts.set(target, fresh)
    return fresh
  }
  const inflaters = new Gate(clock, mostInflaters, Infinity)
  let lastId = 0
  const askNow = (target: Target, request: Request, terms: Terms, watch: Watch): Promise<Reply> => {
    const id = (lastId += 1)
    const { maxBytes, resend = false } = terms
    const means = { id, target, maxBytes, resend, clock, room, inflaters, watch }
    return exchange(lines, postOf(target).place, writeRequest(id, request), means)
  }
  const askInTurn = async (target: Target, request: Request, terms: Terms, watch: Watch): Promise<Reply> => {
    const { gate } = postOf(target)
    const entered = gate.enter(watch)
    if (entered instanceof Promise) watch.wait()
    if (!(entered instanceof Promise ? await entered : entered)) return watch.explain(target) ?? busy(target)
    try {
      return await askNow(target, request, terms, watch)
    } finally {
      gate.leave()
    }
  }
  return {
    async ask(target, request, terms) {
      const watch = new Watch(clock, terms)
      try {
        return await (terms.ahead === true ? askNow : askInTurn)(target, request, terms, watch)
      } finally {
        watch.end()
      }
    },
    close: () => lines.close(),
  }
}

/** What inflates a brotli answer takes up to 16 MiB, however short the answer is. */
const mostInflaters = 2

/** The node did nothing wrong: `source` keeps breakers out of it, `fault` lets another node be asked. */
const busy = ({ name }: Target): Failure =>
  refuse('unavailable', { source: 'gateway', upstream: name, cause: 'as many calls as its limit are under way' })
