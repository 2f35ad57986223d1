import { getOrCreate } from '../../src/plugin/internal.ts'
import { blockSelectorOf, isFailure } from '../../src/plugin/plugin.ts'
import type { Reply, Request, Services } from '../../src/plugin/plugin.ts'
import type { ErrorCategory } from '../../src/plugin/internal.ts'
import { fullStateBlocks, oldestBlockAge } from './upstream-capabilities.ts'
import type { FailoverOptions } from './failover-options.ts'

/** A node is deprioritized when it fails so many such requests in a row that another node answers. */
const minFailuresInRow = 5

/** The requests of a method that are counted together: all of them, or those of one age. */
type RequestGroup = 'all' | HistoryAge

interface FailureCount {
  readonly failures: number
  /** When a request may try the node again, on the monotonic clock; Infinity while one does. */
  readonly until: number
}

/**
 * Finds the requests that one node fails and other nodes answer. No breaker counts such failures, since callers can cause
 * them; but the node is requested last for such requests, so that each of them does not take two attempts. When no other
 * node can answer, the node is requested all the same.
 *
 * A missing block or state counts only for requests of the same age: requests for old state do not move calls for recent
 * state to another node.
 */
export class Deprioritizer {
  readonly #options: FailoverOptions['breaker']
  readonly #services: Services
  readonly #countsByMethod = new Map<string, Map<RequestGroup, FailureCount>>()

  constructor(options: FailoverOptions['breaker'], services: Services) {
    this.#options = options
    this.#services = services
  }

  /** Until a request may try the node after `openFor`; the others wait for what becomes of it. */
  isDeprioritized(request: Request): boolean {
    const now = this.#services.clock.monotonic()
    return this.#deprioritizedCountsOf(request).some(({ until }) => now < until)
  }

  /** The node gets the request, and is tried with it where it is time for that. Returns how to end that: undefined where nothing was learned. */
  begin(request: Request): ((isAnswered: boolean | undefined) => void) | undefined {
    const { clock } = this.#services
    const counts = this.#countsByMethod.get(request.method)
    const tried = this.#deprioritizedCountsOf(request).filter(({ until }) => until <= clock.monotonic())
    if (counts === undefined || tried.length === 0) return undefined
    for (const { group, failures } of tried) counts.set(group, { failures, until: Infinity })
    return isAnswered => {
      const until = clock.monotonic() + (isAnswered === undefined ? 0 : this.#options.openFor)
      for (const { group } of tried) {
        const count = counts.get(group)
        if (count?.until === Infinity) counts.set(group, { ...count, until })
      }
    }
  }

  /** Another node answered the request to which `upstream` gave the reply. */
  recordAnsweredElsewhere(upstream: string, request: Request, reply: Reply): void {
    const group = this.#failedGroupOf(request, reply)
    if (group === undefined) return
    const [{ method }, { openFor }, { clock, log }] = [request, this.#options, this.#services]
    const counts = getOrCreate(this.#countsByMethod, method, () => new Map<RequestGroup, FailureCount>())
    const failures = 1 + (counts.get(group)?.failures ?? 0)
    counts.set(group, { failures, until: clock.monotonic() + openFor })
    if (failures !== minFailuresInRow) return
    log.warn({ upstream, method, blocks: group }, 'upstream deprioritized: other upstreams succeed where it fails')
  }

  /** The node answered the request. */
  recordSuccess(request: Request): void {
    const counts = this.#countsByMethod.get(request.method)
    if (counts === undefined) return
    for (const group of this.#groupsOf(request)) counts.delete(group)
    if (counts.size === 0) this.#countsByMethod.delete(request.method)
  }

  #deprioritizedCountsOf(request: Request): readonly (FailureCount & { readonly group: RequestGroup })[] {
    const counts = this.#countsByMethod.get(request.method)
    if (counts === undefined) return []
    return this.#groupsOf(request).flatMap(group => {
      const count = counts.get(group)
      return count === undefined || count.failures < minFailuresInRow ? [] : [{ ...count, group }]
    })
  }

  #groupsOf(request: Request): readonly RequestGroup[] {
    const age = historyAgeOf(request, this.#services)
    return age === undefined ? ['all'] : ['all', age]
  }

  /** Undefined for failures that breakers count, and for failures that are no evidence about other requests. */
  #failedGroupOf(request: Request, reply: Reply): RequestGroup | undefined {
    if (!isFailure(reply)) return 'all'
    if (reply.retryElsewhere !== true) return undefined
    if (reply.fault !== 'caller') return 'all'
    return missingDataCategories.has(reply.category) ? historyAgeOf(request, this.#services) : undefined
  }
}

const missingDataCategories: ReadonlySet<ErrorCategory | undefined> = new Set(['blockNotFound', 'stateUnavailable'])

/** What blocks a request is about: those whose state each full node has, older ones, or a block named by its hash. */
type HistoryAge = 'recent' | 'historical' | 'byHash'

/** Nodes differ by so many blocks: whether a node has state that is so near to its oldest cannot be known. */
const headToleranceBlocks = 32

/** Undefined where the age cannot be known. */
const historyAgeOf = (
  { method, params }: Request,
  { methods, heads: { snapshot } }: Pick<Services, 'methods' | 'heads'>,
): HistoryAge | undefined => {
  const blocks = blockSelectorOf(methods.get(method), params)
  if (blocks === undefined || 'hash' in blocks) return blocks && 'byHash'
  const age = oldestBlockAge(blocks, snapshot)
  if (age === undefined) return undefined
  return age < fullStateBlocks - headToleranceBlocks ? 'recent' : age < fullStateBlocks + headToleranceBlocks ? undefined : 'historical'
}
