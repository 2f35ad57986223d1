import type { Clock } from '../services/clock.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import type { TokenRequest } from '../services/rate-limits.ts'
import { RemoteRateLimits } from '../services/remote-rate-limits.ts'
import type { TokenGrant } from '../services/remote-rate-limits.ts'
import { isReply } from '../util/channel.ts'
import type { Sender } from '../util/channel.ts'
import { primaryTimeoutMs } from './worker-messages.ts'
import type { ToPrimary } from './worker-messages.ts'

/** The buckets of all workers of a gateway, in its primary. */
export class SharedRateLimits {
  readonly #buckets: TokenBuckets
  readonly #workerCount: number

  constructor(clock: Clock, workerCount: number) {
    this.#buckets = new TokenBuckets(clock)
    this.#workerCount = workerCount
  }

  take(request: TokenRequest, most: number): TokenGrant {
    const waitMs = this.#buckets.take([request])?.waitMs ?? 0
    const { remaining } = this.#buckets.stateOf(request.bucket, request.rate)
    // What one worker holds is refused to the calls of the others: of a bucket that is nearly empty it gets little for later.
    const more = Math.min(most - request.tokens, Math.floor(remaining / (2 * this.#workerCount)))
    const granted = waitMs > 0 ? 0 : request.tokens + this.#buckets.takeMore(request, more)
    return { granted, waitMs, state: this.#buckets.stateOf(request.bucket, request.rate) }
  }
}

/** The buckets of a worker: the primary has those of the gateway. */
export const openWorkerRateLimits = (clock: Clock, primary: Sender<ToPrimary>): RemoteRateLimits =>
  new RemoteRateLimits(clock, async (request, most) => {
    const grant = await primary.call('takeTokens', { request, most }, primaryTimeoutMs)
    return isReply(grant) ? grant : undefined
  })
