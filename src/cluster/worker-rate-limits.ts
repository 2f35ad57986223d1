import { LRUCache } from 'lru-cache'
import type { Clock } from '../services/clock.ts'
import type { BucketState, Rate, RateLimits, TokenRequest, TooFewTokens } from '../services/rate-limits.ts'
import { withTimeoutOr } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { PrimaryMessage, WorkerMessage } from './channel.ts'

/** A worker takes this part of a full bucket at a time, at least: it asks the primary once for so many calls. */
const chunkPercent = 5

/** When the primary does not answer in time, a call is let through: a limit protects, it does not bill. */
const primaryTimeoutMs = 50

const maxBuckets = 100_000

/** What the primary has told of a bucket. */
interface LocalBucket extends BucketState {
  /** Taken from the primary's bucket, and not used yet. */
  tokens: number
  /** The primary refuses requests for so many tokens, and more, until `refusedUntil` on the monotonic clock. */
  refusedTokens: number
  refusedUntil: number
}

const notRefused = { refusedTokens: 0, refusedUntil: -Infinity }

type Reply = Extract<PrimaryMessage, { readonly kind: 'tokens' }>

/**
 * The buckets of a worker. The primary has the buckets of the gateway; a worker takes tokens from them in chunks. So all workers
 * together never let more calls through than the rate allows; what workers hold for later is at most a chunk each.
 */
export class WorkerRateLimits implements RateLimits {
  readonly #clock: Clock
  readonly #send: (message: WorkerMessage) => void
  readonly #buckets = new LRUCache<string, LocalBucket>({ maxSize: maxBuckets, sizeCalculation: () => 1 })
  readonly #pending = new Map<number, (reply: Reply) => void>()
  /** Requests in flight, by bucket. */
  readonly #refills = new Map<string, Promise<boolean>>()
  #lastId = 0

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    this.#clock = clock
    this.#send = send
  }

  take(requests: readonly TokenRequest[]): TooFewTokens | undefined | Promise<TooFewTokens | undefined> {
    const isHere = ({ bucket, tokens }: TokenRequest) => (this.#buckets.get(bucket)?.tokens ?? 0) >= tokens
    if (!requests.every(isHere)) return this.#takeFromPrimary(requests)
    for (const { bucket, tokens } of requests) this.#add(bucket, -tokens)
    return undefined
  }

  stateOf(bucket: string, { burst }: Rate): BucketState {
    const { tokens, remaining, resetsInMs } = this.#bucketOf(bucket)
    return { remaining: Math.min(burst, remaining + Math.floor(tokens)), resetsInMs }
  }

  /** From the primary. */
  handleMessage(reply: Reply): void {
    this.#pending.get(reply.id)?.(reply)
  }

  async #takeFromPrimary(requests: readonly TokenRequest[]): Promise<TooFewTokens | undefined> {
    const taken: TokenRequest[] = []
    for (const request of requests) {
      const waitMs = await this.#takeOne(request)
      if (waitMs > 0) {
        for (const { bucket, tokens } of taken) this.#add(bucket, tokens)
        return { refused: request, waitMs }
      }
      taken.push(request)
    }
    return undefined
  }

  /** Resolves with 0 once the tokens are taken, else with the ms until there are enough. */
  async #takeOne(request: TokenRequest): Promise<number> {
    const { bucket, tokens } = request
    for (;;) {
      const [local, now] = [this.#bucketOf(bucket), this.#clock.monotonic()]
      if (local.tokens >= tokens) {
        this.#add(bucket, -tokens)
        return 0
      }
      if (tokens >= local.refusedTokens && now < local.refusedUntil) return local.refusedUntil - now
      // Calls that come meanwhile wait for the same tokens.
      const refill = getOrCreate(this.#refills, bucket, () => this.#refill(request).finally(() => this.#refills.delete(bucket)))
      if (!(await refill)) return 0
    }
  }

  /** False when the primary does not answer. */
  async #refill(request: TokenRequest): Promise<boolean> {
    const { bucket, tokens, rate } = request
    const most = Math.max(tokens, Math.floor((chunkPercent / 100) * rate.burst))
    const reply = await this.#request({ kind: 'takeTokens', id: (this.#lastId += 1), request, most })
    if (reply === undefined) return false
    const { granted, waitMs, state } = reply
    const refusal = waitMs > 0 ? { refusedTokens: tokens, refusedUntil: this.#clock.monotonic() + waitMs } : notRefused
    this.#buckets.set(bucket, { ...state, tokens: this.#bucketOf(bucket).tokens + granted, ...refusal })
    return true
  }

  async #request(message: Extract<WorkerMessage, { readonly kind: 'takeTokens' }>): Promise<Reply | undefined> {
    const reply = new Promise<Reply>(resolve => this.#pending.set(message.id, resolve))
    this.#send(message)
    const received = await withTimeoutOr(this.#clock, primaryTimeoutMs, reply, () => undefined)
    this.#pending.delete(message.id)
    return received
  }

  #bucketOf(name: string): LocalBucket {
    return this.#buckets.get(name) ?? { tokens: 0, remaining: 0, resetsInMs: 0, ...notRefused }
  }

  #add(name: string, tokens: number): void {
    const bucket = this.#bucketOf(name)
    this.#buckets.set(name, { ...bucket, tokens: bucket.tokens + tokens })
  }
}
