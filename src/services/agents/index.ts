import type { Request, Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure, Reply } from '../../reply.ts'
import { writeRequest } from '../../wire/node.ts'
import type { Clock } from '../clock.ts'
import { readAnswer } from './answer.ts'
import { causeOf } from './cause.ts'
import { Gate } from './gate.ts'
import { openLines } from './lines.ts'
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

/** `room` bounds the bytes of all answers that are still coming in. */
export const openAgents = (clock: Clock, room: Room): Agents & { close(): Promise<void> } => {
  const lines = openLines()
  const gates = new WeakMap<Target, Gate>()
  const gateOf = (target: Target): Gate => {
    const known = gates.get(target)
    if (known !== undefined) return known
    const fresh = new Gate(clock, target.concurrency ?? Infinity)
    gates.set(target, fresh)
    return fresh
  }
  const inflaters = new Gate(clock, mostInflaters, Infinity)
  let lastId = 0
  const exchange = async (target: Target, request: Request, terms: Terms, watch: Watch): Promise<Reply> => {
    const id = (lastId += 1)
    watch.listen()
    try {
      const body = writeRequest(id, request)
      const { signal } = watch
      const { maxBytes, resend = false } = terms
      const response = await lines.post(target.url.reveal(), body, { signal, resend })
      return await readAnswer(response, { id, target, maxBytes, clock, room, inflaters, signal, onBytes: watch.hear })
    } catch (error) {
      return watch.explain(target) ?? blame(error, target)
    }
  }
  return {
    async ask(target, request, terms) {
      const watch = new Watch(clock, terms)
      try {
        if (terms.ahead === true) return await exchange(target, request, terms, watch)
        const gate = gateOf(target)
        if (!await gate.enter(watch.signal)) {
          return (terms.signal.aborted ? watch.explain(target) : undefined) ?? busy(target)
        }
        try {
          return await exchange(target, request, terms, watch)
        } finally {
          gate.leave()
        }
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

/** A broken exchange is the upstream's fault; a bug of ours is not, and goes on as what it is. */
const blame = (error: unknown, { source, name: upstream }: Target): Failure => {
  const cause = causeOf(error)
  if (cause === undefined) throw error
  return refuse('unavailable', { source, upstream, cause })
}
