import type { Request, Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure, Reply } from '../../reply.ts'
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
  /** How many connections the node has ended so far. When there are more, another node may be there. */
  losses(target: Target): number
}

/** What is kept for each target. */
interface Post {
  readonly place: Place
  readonly gate: Gate
}

/** Answers take their place in `room` while they come in; where there is none left, they are given up. */
export const openAgents = (clock: Clock, room: Room): Agents & { close(): Promise<void> } => {
  const lines = openLines(clock)
  const posts = new WeakMap<Target, Post>()
  const postOf = (target: Target): Post => {
    const known = posts.get(target)
    if (known !== undefined) return known
    const fresh = { place: placeOf(target.url), gate: new Gate(clock, target.concurrency ?? Infinity) }
    posts.set(target, fresh)
    return fresh
  }
  // What inflates a brotli answer takes up to 16 MiB, however short the answer is; any other 0.1.
  const inflaters = { zlib: new Gate(clock, 32, Infinity), brotli: new Gate(clock, 2, Infinity) }
  let lastId = 0
  /** Without a promise of its own: few calls have to wait for their place. */
  const askNow = ({ target, request, terms, watch, gate }: Asking): Promise<Reply> => {
    const id = (lastId += 1)
    const { maxBytes, resend = false } = terms
    const onEnd = () => {
      watch.end()
      gate?.leave()
    }
    const means = { id, request, target, maxBytes, resend, clock, room, inflaters, watch, onEnd }
    return exchange(lines, postOf(target).place, means)
  }
  const refuseNow = ({ target, watch }: Asking): Failure => {
    watch.end()
    return watch.explain(target) ?? busy(target)
  }
  const askLater = async (asking: Asking, entering: Promise<boolean>): Promise<Reply> => {
    asking.watch.wait()
    return (await entering) ? askNow(asking) : refuseNow(asking)
  }
  return {
    ask(target, request, terms) {
      const watch = new Watch(clock, terms)
      const gate = terms.ahead === true ? undefined : postOf(target).gate
      const asking = { target, request, terms, watch, gate }
      const entered = gate?.enter(watch) ?? true
      if (entered instanceof Promise) return askLater(asking, entered)
      return entered ? askNow(asking) : Promise.resolve(refuseNow(asking))
    },
    losses: target => lines.losses(postOf(target).place),
    close: () => lines.close(),
  }
}

/** One ask, from its beginning. */
interface Asking {
  readonly target: Target
  readonly request: Request
  readonly terms: Terms
  readonly watch: Watch
  /** Where it has a place, or waits for one. */
  readonly gate: Gate | undefined
}

/** The node did nothing wrong: `source` keeps breakers out of it, `fault` lets another node be asked. */
const busy = ({ name }: Target): Failure =>
  refuse('unavailable', { source: 'gateway', upstream: name, cause: 'as many calls as its limit are under way' })
