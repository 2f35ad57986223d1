import type { Clock } from '../services/clock.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import type { TokenRequest } from '../services/rate-limits.ts'
import { RemoteRateLimits } from '../services/remote-rate-limits.ts'
import type { TokenGrant } from '../services/remote-rate-limits.ts'
import { withTimeoutOr } from '../util/async.ts'
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

/** A call waits so long for the primary. */
const primaryTimeoutMs = 50

type TokensReply = Extract<PrimaryMessage, { readonly kind: 'tokens' }>

/** The buckets of a worker: the primary has those of the gateway. */
export class WorkerRateLimits extends RemoteRateLimits {
  readonly #primary: PrimaryTokens

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    const primary = new PrimaryTokens(clock, send)
    super(clock, primary.request)
    this.#primary = primary
  }

  /** From the primary. */
  handleMessage(reply: TokensReply): void {
    this.#primary.handleMessage(reply)
  }
}

/** Requests to the primary that wait for their replies. */
class PrimaryTokens {
  readonly #clock: Clock
  readonly #send: (message: WorkerMessage) => void
  readonly #pending = new Map<number, (reply: TokensReply) => void>()
  #lastId = 0

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    this.#clock = clock
    this.#send = send
  }

  readonly request = async (request: TokenRequest, most: number): Promise<TokenGrant | undefined> => {
    const id = (this.#lastId += 1)
    const reply = new Promise<TokensReply>(resolve => this.#pending.set(id, resolve))
    this.#send({ kind: 'takeTokens', id, request, most })
    const received = await withTimeoutOr(this.#clock, primaryTimeoutMs, reply, () => undefined)
    this.#pending.delete(id)
    return received
  }

  handleMessage(reply: TokensReply): void {
    this.#pending.get(reply.id)?.(reply)
  }
}
