import type { MaybePromise } from '../util/async.ts'
import { boundedCache } from '../util/bounded-cache.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { Clock } from './clock.ts'
import { TokenBuckets, maxBuckets } from './rate-limits.ts'
import type { BucketState, Rate, RateLimits, TokenRequest, TooFewTokens } from './rate-limits.ts'

/** A process takes this part of a full bucket at a time, at least: it asks once for so many calls. */
const chunkPercent = 5

/** While the owner does not answer, it is asked this often; calls do not wait for it meanwhile. */
const retryIntervalMs = 1_000

/** What the owner of the buckets has answered. */
export interface TokenGrant {
  readonly granted: number
  /** 0, or why nothing was granted: the ms until there are enough. */
  readonly waitMs: number
  /** Of the bucket, after this. */
  readonly state: BucketState
}

/** Takes the tokens of the request, and up to `most` where there are many. Undefined when the owner does not answer in time. */
type RequestTokens = (request: TokenRequest, most: number) => Promise<TokenGrant | undefined>

/** What the owner has said of a bucket. */
interface LocalBucket extends BucketState {
  /** Taken from the owner's bucket, and not used yet. */
  tokens: number
  /** The owner refuses requests for so many tokens, and more, at this rate, and less, until `refusedUntil` on the monotonic clock. */
  refusedTokens: number
  refusedRate: Rate
  refusedUntil: number
}

const notRefused = { refusedTokens: 0, refusedRate: { perSecond: 0, burst: 0 }, refusedUntil: -Infinity }

/** Until when the request need not be sent to the owner. The rate of a plan or of a key may be greater since it was refused. */
const refusedUntil = ({ refusedTokens, refusedRate, refusedUntil: until }: LocalBucket, { tokens, rate }: TokenRequest): number =>
  tokens >= refusedTokens && rate.perSecond <= refusedRate.perSecond && rate.burst <= refusedRate.burst ? until : -Infinity

/**
 * Buckets that another process has; this one takes tokens from them in chunks. So all processes together never let more calls
 * through than the rate allows; what they hold for later is at most a chunk each.
 */
export class RemoteRateLimits implements RateLimits {
  readonly #clock: Clock
  readonly #requestTokens: RequestTokens
  /** While the owner does not answer, each process limits its own calls by the whole rate. */
  readonly #fallback: TokenBuckets
  readonly #buckets = boundedCache<LocalBucket>(maxBuckets)
  /** Requests in flight, by bucket. */
  readonly #refills = new Map<string, Promise<boolean>>()
  #isOwnerUnresponsive = false
  /** On the monotonic clock. */
  #retryAt = -Infinity

  constructor(clock: Clock, requestTokens: RequestTokens) {
    this.#clock = clock
    this.#requestTokens = requestTokens
    this.#fallback = new TokenBuckets(clock)
  }

  take(requests: readonly TokenRequest[]): MaybePromise<TooFewTokens | undefined> {
    const isHere = ({ bucket, tokens }: TokenRequest) => (this.#buckets.get(bucket)?.tokens ?? 0) >= tokens
    if (!requests.every(isHere)) return this.#takeFromOwner(requests)
    for (const { bucket, tokens } of requests) this.#add(bucket, -tokens)
    return undefined
  }

  stateOf(bucket: string, rate: Rate): BucketState {
    if (this.#isOwnerUnresponsive) return this.#fallback.stateOf(bucket, rate)
    const { tokens, remaining, resetsInMs } = this.#bucketOf(bucket)
    return { remaining: Math.min(rate.burst, remaining + Math.floor(tokens)), resetsInMs }
  }

  async #takeFromOwner(requests: readonly TokenRequest[]): Promise<TooFewTokens | undefined> {
    const [taken, unanswered]: [TokenRequest[], TokenRequest[]] = [[], []]
    let tooFew: TooFewTokens | undefined
    for (const request of requests) {
      const result = await this.#takeOne(request)
      if (result === 'taken') taken.push(request)
      else if (result === 'unanswered') unanswered.push(request)
      else {
        tooFew = { refused: request, waitMs: result }
        break
      }
    }
    tooFew ??= this.#fallback.take(unanswered)
    if (tooFew !== undefined) for (const { bucket, tokens } of taken) this.#add(bucket, tokens)
    return tooFew
  }

  /** `taken` of this process's tokens, `unanswered` by the owner, or the ms until there are enough. */
  async #takeOne(request: TokenRequest): Promise<'taken' | 'unanswered' | number> {
    const { bucket, tokens } = request
    for (;;) {
      const [local, now] = [this.#bucketOf(bucket), this.#clock.monotonic()]
      if (local.tokens >= tokens) {
        this.#add(bucket, -tokens)
        return 'taken'
      }
      const until = refusedUntil(local, request)
      if (now < until) return until - now
      // Calls that come meanwhile wait for the same tokens.
      const refill = getOrCreate(this.#refills, bucket, () => this.#refill(request).finally(() => this.#refills.delete(bucket)))
      this.#isOwnerUnresponsive = !(await refill)
      if (this.#isOwnerUnresponsive) return 'unanswered'
    }
  }

  /** False when the owner does not answer. */
  async #refill(request: TokenRequest): Promise<boolean> {
    const { bucket, tokens, rate } = request
    if (this.#clock.monotonic() < this.#retryAt) return false
    const grant = await this.#requestTokens(request, Math.max(tokens, Math.floor((chunkPercent / 100) * rate.burst)))
    this.#retryAt = grant === undefined ? this.#clock.monotonic() + retryIntervalMs : -Infinity
    if (grant === undefined) return false
    const { granted, waitMs, state } = grant
    const refusal = waitMs > 0 ? { refusedTokens: tokens, refusedRate: rate, refusedUntil: this.#clock.monotonic() + waitMs } : notRefused
    this.#buckets.set(bucket, { ...state, tokens: this.#bucketOf(bucket).tokens + granted, ...refusal })
    return true
  }

  #bucketOf(name: string): LocalBucket {
    return this.#buckets.get(name) ?? { tokens: 0, remaining: 0, resetsInMs: 0, ...notRefused }
  }

  #add(name: string, tokens: number): void {
    const bucket = this.#bucketOf(name)
    this.#buckets.set(name, { ...bucket, tokens: bucket.tokens + tokens })
  }
}
