import { rateOf } from '../../src/plugin/internal.ts'
import type { RequestOptions, Clock } from '../../src/plugin/internal.ts'
import { Cancellation, onAbort, refuse } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Failure, Method, Reply, Request, Services, Signal, Target } from '../../src/plugin/plugin.ts'

export type RequestLimits = Pick<RequestOptions, 'timeoutMs' | 'maxBytes' | 'signal'>

type SendLimitedRequest = (request: Request, limits: RequestLimits) => Promise<Reply>

/** Sends a request to the node of the query, within what is left of the query's time. */
export type SendRequest = (request: Request) => Promise<Reply>

/** A query that may need several requests to its node. */
export interface NodeQuery {
  readonly request: Request
  readonly target: Target
  /** For the query as a whole. */
  readonly limits: RequestLimits
  /** Sends one request to the node; the reply is normalized. */
  readonly sendRequest: SendLimitedRequest
}

/** A query about blocks. */
export interface BlockQuery extends NodeQuery {
  readonly method: Method
  readonly blocks: BlockSelector
}

/** A query whose requests share its time. */
export interface OpenQuery extends Omit<BlockQuery, 'sendRequest'> {
  readonly sendRequest: SendRequest
  cancel(): void
}

/** Requests are sent within what is left of the query's time, and fail with what `createTimeout` returns then, until the caller disconnects or the query is canceled. */
export const openDeadline = (query: BlockQuery, clock: Clock, createTimeout: () => Failure): OpenQuery => {
  const { sendRequest, limits } = query
  const cancellation = new Cancellation()
  const deadlineAt = clock.monotonic() + limits.timeoutMs
  const stopListening = onAbort(limits.signal, () => cancellation.abort())
  return {
    ...query,
    async sendRequest(request) {
      const timeoutMs = deadlineAt - clock.monotonic()
      if (timeoutMs <= 0) return createTimeout()
      return sendRequest(request, { ...limits, timeoutMs, signal: cancellation })
    },
    cancel() {
      stopListening()
      cancellation.abort()
    },
  }
}

/**
 * Sends the requests of one call within the rate of the upstream. When the rate is spent the first is refused, so that the call
 * goes elsewhere at once; the others, such as chunks of eth_getLogs, wait.
 */
export const withinRate = (sendRequest: SendLimitedRequest, target: Target, services: Services): SendLimitedRequest => {
  const rate = rateOf(target, services)
  if (rate === undefined) return sendRequest
  const { clock } = services
  let isFirst = true
  return async (request, limits) => {
    const mayWait = !isFirst
    isFirst = false
    const startedAt = clock.monotonic()
    for (;;) {
      const waitMs = await rate.take()
      const timeoutMs = limits.timeoutMs - (clock.monotonic() - startedAt)
      if (waitMs === 0) return sendRequest(request, { ...limits, timeoutMs })
      if (!mayWait || waitMs >= timeoutMs) return rateSpent(target, waitMs)
      await sleepUnlessAborted(clock, waitMs, limits.signal)
      if (limits.signal.aborted) return rateSpent(target, waitMs)
    }
  }
}

/** A caller who has left takes no more requests, and a call whose other chunk has failed goes to another node at once. */
const sleepUnlessAborted = (clock: Clock, ms: number, signal: Signal): Promise<void> =>
  new Promise(resolve => {
    const timer = clock.after(ms, () => {
      stopListening()
      resolve()
    })
    const stopListening = onAbort(signal, () => {
      timer.cancel()
      resolve()
    })
  })

/** As a rate limit of the node, but no sign of its health. */
const rateSpent = ({ name: upstream }: Target, waitMs: number): Failure =>
  refuse('unavailable', {
    source: 'gateway',
    upstream,
    category: 'rateLimited',
    cause: 'upstream rate spent',
    retryElsewhere: true,
    retryAfter: Math.min(maxRetryAfterSeconds, Math.max(1, Math.ceil(waitMs / 1000))),
  })

/** Another node may answer by then. */
const maxRetryAfterSeconds = 5
