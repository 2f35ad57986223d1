import type { Clock } from '../services/clock.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'

type TakeTokens = Extract<WorkerMessage, { readonly kind: 'takeTokens' }>

/** The buckets of all workers of a gateway, in its primary. */
export class SharedRateLimits {
  readonly #buckets: TokenBuckets
  readonly #workerCount: number

  constructor(clock: Clock, workerCount: number) {
    this.#buckets = new TokenBuckets(clock)
    this.#workerCount = workerCount
  }

  answer(worker: WorkerChannel, { id, request, most }: TakeTokens): void {
    const waitMs = this.#buckets.take([request])?.waitMs ?? 0
    const { remaining } = this.#buckets.stateOf(request.bucket, request.rate)
    // What one worker holds is refused to the calls of the others: of a bucket that is nearly empty it gets little for later.
    const more = Math.min(most - request.tokens, Math.floor(remaining / (2 * this.#workerCount)))
    const granted = waitMs > 0 ? 0 : request.tokens + this.#buckets.takeMore(request, more)
    worker.send({ kind: 'tokens', id, granted, waitMs, state: this.#buckets.stateOf(request.bucket, request.rate) })
  }
}
