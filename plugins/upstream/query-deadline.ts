import { Cancellation, onAbort, refuse } from '../../src/plugin/plugin.ts'
import type { Clock, Reply, Request, RequestOptions, Target } from '../../src/plugin/plugin.ts'
import type { SendRequest } from './split-logs/split-filter.ts'

export type RequestLimits = Pick<RequestOptions, 'timeoutMs' | 'maxBytes' | 'signal'>

/** A query that may need several requests to its node. */
export interface NodeQuery {
  readonly request: Request
  readonly target: Target
  /** For the query as a whole. */
  readonly limits: RequestLimits
  /** Sends one request to the node; the reply is normalized. */
  sendRequest(request: Request, limits: RequestLimits): Promise<Reply>
}

/** Sends requests within what is left of the query's time, until the caller disconnects or the query is canceled. */
export const openDeadline = (
  { sendRequest, limits, target }: NodeQuery,
  clock: Clock,
): { readonly sendRequest: SendRequest; cancel(): void } => {
  const cancellation = new Cancellation()
  const deadlineAt = clock.monotonic() + limits.timeoutMs
  const stopListening = onAbort(limits.signal, () => cancellation.abort())
  return {
    async sendRequest(request) {
      const timeoutMs = deadlineAt - clock.monotonic()
      if (timeoutMs <= 0) return refuse('timeout', { source: target.source, upstream: target.name })
      return sendRequest(request, { ...limits, timeoutMs, signal: cancellation })
    },
    cancel() {
      stopListening()
      cancellation.abort()
    },
  }
}
