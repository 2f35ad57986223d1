import { isFailure } from '../../src/plugin/plugin.ts'
import type { ErrorCategory, Reply, Request, Services } from '../../src/plugin/plugin.ts'
import type { BreakerOptions } from './circuit-breaker.ts'
import { historyAgeOf } from './history-age.ts'
import type { HistoryAge } from './history-age.ts'

/** Of a method: all its questions, or those of one depth. */
type QuestionGroup = 'all' | HistoryAge

/**
 * The questions at which a node is outdone: it fails them, in a way that a question may bring about, and another node
 * answers the same ones. No breaker counts that, since callers could cut the node off; but it is asked last, so that
 * such questions do not cost two attempts each. When nobody else can answer, it is asked all the same.
 *
 * What it lacks, a block or a state, says something about questions of the same depth only: who asks for old state does
 * not move recent calls to another node.
 */
export class Deprioritizer {
  readonly #options: Pick<BreakerOptions, 'consecutiveFailures' | 'openFor'>
  readonly #services: Services
  /** By method. */
  readonly #failuresByMethod = new Map<string, Map<QuestionGroup, { readonly failures: number; readonly until: number }>>()

  constructor(options: Pick<BreakerOptions, 'consecutiveFailures' | 'openFor'>, services: Services) {
    this.#options = options
    this.#services = services
  }

  /** After `openFor` it takes one more such question to begin another. */
  isDeprioritized(request: Request): boolean {
    const counts = this.#failuresByMethod.get(request.method)
    if (counts === undefined) return false
    const now = this.#services.clock.monotonic()
    return this.#groupsOf(request).some(share => {
      const { failures, until } = counts.get(share) ?? { failures: 0, until: 0 }
      return failures >= this.#options.consecutiveFailures && now < until
    })
  }

  /** Another node has answered what this one replied to so. */
  recordOutdoneBy(upstream: string, request: Request, reply: Reply): void {
    const group = this.#groupOf(request, reply)
    if (group === undefined) return
    const [{ method }, { consecutiveFailures, openFor }, { clock, log }] = [request, this.#options, this.#services]
    const counts = this.#failuresByMethod.get(method) ?? new Map<QuestionGroup, { failures: number; until: number }>()
    const failures = 1 + (counts.get(group)?.failures ?? 0)
    this.#failuresByMethod.set(method, counts.set(group, { failures, until: clock.monotonic() + openFor }))
    if (failures === consecutiveFailures)
      log.warn({ upstream, method, blocks: group }, 'upstream is asked last: others answer what it fails')
  }

  /** It has answered. */
  recordSuccess(request: Request): void {
    const counts = this.#failuresByMethod.get(request.method)
    if (counts === undefined) return
    for (const share of this.#groupsOf(request)) counts.delete(share)
    if (counts.size === 0) this.#failuresByMethod.delete(request.method)
  }

  #groupsOf(request: Request): readonly QuestionGroup[] {
    const depth = historyAgeOf(request, this.#services)
    return depth === undefined ? ['all'] : ['all', depth]
  }

  /** Undefined: breakers count it; or it is the question's doing, and says nothing about others. */
  #groupOf(request: Request, reply: Reply): QuestionGroup | undefined {
    if (!isFailure(reply)) return 'all'
    if (reply.retryElsewhere !== true) return undefined
    if (reply.fault !== 'caller') return 'all'
    return missingDataCategories.has(reply.category) ? historyAgeOf(request, this.#services) : undefined
  }
}

const missingDataCategories: ReadonlySet<ErrorCategory | undefined> = new Set(['blockNotFound', 'stateUnavailable'])
