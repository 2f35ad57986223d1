import { isFailure } from '../../src/plugin.ts'
import type { Meaning, Reply, Request, Services } from '../../src/plugin.ts'
import type { BreakerOptions } from './breaker.ts'
import { depthOf } from './depth.ts'
import type { Depth } from './depth.ts'

/** Of a method: all its questions, or those of one depth. */
type Share = 'all' | Depth

/**
 * The questions at which a node is outdone: it fails them, in a way that a question may bring about, and another node
 * answers the same ones. No breaker counts that, since callers could cut the node off; but it is asked last, so that
 * such questions do not cost two attempts each. When nobody else can answer, it is asked all the same.
 *
 * What it lacks, a block or a state, says something about questions of the same depth only: who asks for old state does
 * not move recent calls to another node.
 */
export class Outdone {
  readonly #options: Pick<BreakerOptions, 'streak' | 'pause'>
  readonly #services: Services
  /** By method. */
  readonly #counts = new Map<string, Map<Share, { readonly times: number; readonly until: number }>>()

  constructor(options: Pick<BreakerOptions, 'streak' | 'pause'>, services: Services) {
    this.#options = options
    this.#services = services
  }

  /** After the pause it takes one more such question to begin another. */
  at(request: Request): boolean {
    const counts = this.#counts.get(request.method)
    if (counts === undefined) return false
    const now = this.#services.clock.monotonic()
    return this.#sharesOf(request).some(share => {
      const { times, until } = counts.get(share) ?? { times: 0, until: 0 }
      return times >= this.#options.streak && now < until
    })
  }

  /** Another node has answered what this one replied to so. */
  add(upstream: string, request: Request, reply: Reply): void {
    const share = this.#shareOf(request, reply)
    if (share === undefined) return
    const [{ method }, { streak, pause }, { clock, log }] = [request, this.#options, this.#services]
    const counts = this.#counts.get(method) ?? new Map<Share, { times: number; until: number }>()
    const times = 1 + (counts.get(share)?.times ?? 0)
    this.#counts.set(method, counts.set(share, { times, until: clock.monotonic() + pause }))
    if (times === streak) log.warn({ upstream, method, blocks: share }, 'upstream is asked last: others answer what it fails')
  }

  /** It has answered. */
  clear(request: Request): void {
    const counts = this.#counts.get(request.method)
    if (counts === undefined) return
    for (const share of this.#sharesOf(request)) counts.delete(share)
    if (counts.size === 0) this.#counts.delete(request.method)
  }

  #sharesOf(request: Request): readonly Share[] {
    const depth = depthOf(request, this.#services)
    return depth === undefined ? ['all'] : ['all', depth]
  }

  /** Undefined: breakers count it; or it is the question's doing, and says nothing about others. */
  #shareOf(request: Request, reply: Reply): Share | undefined {
    if (!isFailure(reply)) return 'all'
    if (reply.elsewhere !== true) return undefined
    if (reply.fault !== 'caller') return 'all'
    return lacks.has(reply.meaning) ? depthOf(request, this.#services) : undefined
  }
}

const lacks: ReadonlySet<Meaning | undefined> = new Set(['unknown', 'pruned'])
