import { onAbort, refuse } from '../../src/plugin/plugin.ts'
import type { Clock, Failure, Reply, Request, Signal, Target, UpstreamRate } from '../../src/plugin/plugin.ts'
import type { RequestLimits } from './split-logs/index.ts'

type SendRequest = (request: Request, limits: RequestLimits) => Promise<Reply>

/**
 * Sends the requests of one call within the rate of the upstream. When the rate is spent the first is refused, so that the call
 * goes elsewhere at once; the others, such as chunks of eth_getLogs, wait.
 */
export const withinRate = (sendRequest: SendRequest, rate: UpstreamRate, target: Target, clock: Clock): SendRequest => {
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
