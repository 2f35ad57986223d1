import type { Request, Target } from '../../plugin/call.ts'
import { refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import { sendRequest } from './http-exchange.ts'
import { ConcurrencyLimit } from './concurrency-limit.ts'
import { openHttpClient } from './http-client.ts'
import { parseEndpoint } from './endpoint.ts'
import type { Endpoint } from './endpoint.ts'
import type { MemoryBudget } from '../memory-budget.ts'
import type { RequestOptions } from './request-options.ts'
import { RequestDeadline } from './request-deadline.ts'

export type { RequestOptions } from './request-options.ts'

/** Connections to nodes: kept alive, one set per process. */
export interface UpstreamClient {
  /**
   * Asks the node, and scans what it answers without parsing a result. Whatever is not a well-formed JSON-RPC answer to
   * this very request comes back as a failure with `fault: 'upstream'`: `kind: 'timeout'` when it is alive but slow,
   * `category: 'rateLimited'` when it limits us, with its Retry-After, and `hangs` when it answers nothing at all. With the
   * source `gateway` it was not asked, or not to its end: too many calls at once for it, or too many bytes in all.
   */
  request(target: Target, request: Request, options: RequestOptions): Promise<Reply>
  /** How many connections the node has ended so far. When there are more, another node may be there. */
  disconnects(target: Target): number
}

/** What is kept for each target. */
interface UpstreamState {
  readonly endpoint: Endpoint
  readonly concurrency: ConcurrencyLimit
}

/** Answers take their place in `room` while they come in; where there is none left, they are given up. */
export const openUpstreamClient = (clock: Clock, memoryBudget: MemoryBudget): UpstreamClient & { close(): Promise<void> } => {
  const httpClient = openHttpClient(clock)
  const states = new WeakMap<Target, UpstreamState>()
  const stateOf = (target: Target): UpstreamState => {
    const existing = states.get(target)
    if (existing !== undefined) return existing
    const created = { endpoint: parseEndpoint(target.url), concurrency: new ConcurrencyLimit(clock, target.concurrency ?? Infinity) }
    states.set(target, created)
    return created
  }
  // What inflates a brotli answer takes up to 16 MiB, however short the answer is; any other 0.1.
  const decompressionLimits = { zlib: new ConcurrencyLimit(clock, 32, Infinity), brotli: new ConcurrencyLimit(clock, 2, Infinity) }
  let lastRequestId = 0
  /** Without a promise of its own: few calls have to wait for their place. */
  const sendNow = ({ target, request, options, deadline, concurrency }: PendingRequest): Promise<Reply> => {
    const id = (lastRequestId += 1)
    const { maxBytes, idempotent = false } = options
    const onSettled = () => {
      deadline.stop()
      concurrency?.release()
    }
    const exchangeOptions = { id, request, target, maxBytes, idempotent, clock, memoryBudget, decompressionLimits, deadline, onSettled }
    return sendRequest(httpClient, stateOf(target).endpoint, exchangeOptions)
  }
  const refuseRequest = ({ target, deadline }: PendingRequest): Failure => {
    deadline.stop()
    return deadline.toFailure(target) ?? concurrencyExceeded(target)
  }
  const sendWhenAdmitted = async (pending: PendingRequest, admission: Promise<boolean>): Promise<Reply> => {
    pending.deadline.startDeadline()
    return (await admission) ? sendNow(pending) : refuseRequest(pending)
  }
  return {
    request(target, request, options) {
      const deadline = new RequestDeadline(clock, options)
      const concurrency = options.bypassConcurrencyLimit === true ? undefined : stateOf(target).concurrency
      const pending = { target, request, options, deadline, concurrency }
      const admission = concurrency?.acquire(deadline) ?? true
      if (admission instanceof Promise) return sendWhenAdmitted(pending, admission)
      return admission ? sendNow(pending) : Promise.resolve(refuseRequest(pending))
    },
    disconnects: target => httpClient.disconnects(stateOf(target).endpoint),
    close: () => httpClient.close(),
  }
}

/** One ask, from its beginning. */
interface PendingRequest {
  readonly target: Target
  readonly request: Request
  readonly options: RequestOptions
  readonly deadline: RequestDeadline
  /** Where it has a place, or waits for one. */
  readonly concurrency: ConcurrencyLimit | undefined
}

/** The node did nothing wrong: `source` keeps breakers out of it, `fault` lets another node be asked. */
const concurrencyExceeded = ({ name }: Target): Failure =>
  refuse('unavailable', { source: 'gateway', upstream: name, cause: 'as many calls as its limit are under way' })
