import type { Clock } from '../services/clock.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'

type TakeTokens = Extract<WorkerMessage, { readonly kind: 'takeTokens' }>

/** The buckets of all workers of a gateway, in its primary. */
export class SharedRateLimits {
  readonly #buckets: TokenBuckets

  constructor(clock: Clock) {
    this.#buckets = new TokenBuckets(clock)
  }

  answer(worker: WorkerChannel, { id, request, most }: TakeTokens): void {
    const waitMs = this.#buckets.take([request])?.waitMs ?? 0
    const granted = waitMs > 0 ? 0 : request.tokens + this.#buckets.takeMore(request, most - request.tokens)
    worker.send({ kind: 'tokens', id, granted, waitMs, state: this.#buckets.stateOf(request.bucket, request.rate) })
  }
}
