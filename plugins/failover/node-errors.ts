import { metricDefinitions } from '../../src/plugin/internal.ts'
import type { NodeError } from '../../src/plugin/internal.ts'
import { isFailure } from '../../src/plugin/plugin.ts'
import type { Counter, Failure, Reply, Services } from '../../src/plugin/plugin.ts'

/** A node chooses its HTTP status: what else it fails with than so many is `other`. */
const maxErrors = 10
const otherErrors = 'other'
const maxErrorChars = 60

interface CountedError {
  readonly counter: Counter
  count: number
  last: Pick<NodeError, 'at' | 'method' | 'requestId'>
}

/** By the fault of the node, also where that says nothing of its health. */
export const isErrorOfNode = (reply: Reply): reply is Failure =>
  isFailure(reply) && reply.fault === 'upstream' && reply.source !== 'gateway'

/** The category, or else the cause that log lines have, without its details: `rateLimited`, `HTTP 503`, `connection refused (ECONNREFUSED)`. */
const nameOf = ({ category, cause, kind }: Failure): string => (category ?? cause?.split(':')[0] ?? kind).slice(0, maxErrorChars)

/** What attempts have failed with at one node: how often, and the last one of each. */
export class NodeErrors {
  readonly #services: Pick<Services, 'clock' | 'metrics'>
  readonly #upstream: string
  readonly #errors = new Map<string, CountedError>()

  constructor(upstream: string, services: Pick<Services, 'clock' | 'metrics'>) {
    this.#upstream = upstream
    this.#services = services
  }

  record(failure: Failure, method: string, requestId: string): void {
    const name = nameOf(failure)
    const error = this.#errors.has(name) || this.#errors.size < maxErrors ? name : otherErrors
    const last = { at: this.#services.clock.now(), method, requestId }
    const known = this.#errors.get(error)
    const counted = known ?? { counter: this.#counterOf(error), count: 0, last }
    if (known === undefined) this.#errors.set(error, counted)
    counted.counter.add()
    counted.count += 1
    counted.last = last
  }

  list(): readonly NodeError[] {
    return Array.from(this.#errors, ([error, { count, last }]) => ({ error, count, ...last }))
  }

  #counterOf(error: string): Counter {
    return this.#services.metrics.counter(metricDefinitions.upstreamFailures, { upstream: this.#upstream, error })
  }
}
