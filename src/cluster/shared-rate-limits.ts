import type { Clock } from '../services/clock.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import { RemoteRateLimits } from '../services/remote-rate-limits.ts'
import { PendingReplies } from './channel.ts'
import { primaryTimeoutMs } from './worker-messages.ts'
import type { PrimaryMessage, TakeTokens, WorkerChannel, WorkerMessage } from './worker-messages.ts'

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

type TokensReply = Extract<PrimaryMessage, { readonly kind: 'tokens' }>

/** The buckets of a worker: the primary has those of the gateway. */
export class WorkerRateLimits extends RemoteRateLimits {
  readonly #replies: PendingReplies<TokensReply>

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    const replies = new PendingReplies<TokensReply>(clock)
    super(clock, (request, most) =>
      replies.request(
        primaryTimeoutMs,
        id => send({ kind: 'takeTokens', id, request, most }),
        () => undefined,
      ),
    )
    this.#replies = replies
  }

  /** From the primary. */
  handleMessage(reply: TokensReply): void {
    this.#replies.resolve(reply.id, reply)
  }
}
