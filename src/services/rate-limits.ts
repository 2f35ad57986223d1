import type { MaybePromise } from '../util/async.ts'
import { boundedCache } from '../util/bounded-cache.ts'
import type { Clock } from './clock.ts'

/** A token bucket: it holds `burst` tokens, and gets `perSecond` of them back each second. */
export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

/** Tokens that a call needs of one bucket. */
export interface TokenRequest {
  /** The bucket's name, among those of the steps of the same name; all networks of the gateway share it. */
  readonly bucket: string
  readonly rate: Rate
  readonly tokens: number
}

/** What a bucket has, for the headers of an answer. */
export interface BucketState {
  readonly remaining: number
  /** Until the bucket is full. */
  readonly resetsInMs: number
}

/** A bucket has too few tokens, and will have enough. */
export interface TooFewTokens {
  readonly refused: TokenRequest
  readonly waitMs: number
}

/** Token buckets that all networks and workers share. */
export interface RateLimits {
  /**
   * Takes the tokens from all buckets, or from none if one has too few. A call that needs more than a full bucket holds is let
   * through by a full one, which is in debt afterwards. Known at once, unless another process has the tokens.
   */
  take(requests: readonly TokenRequest[]): MaybePromise<TooFewTokens | undefined>
  /** As of the last take(). */
  stateOf(bucket: string, rate: Rate): BucketState
}

/** Of accounts, keys and addresses. The bucket that was not used for longest is dropped: it has been full for long. */
export const maxBuckets = 100_000

interface Bucket {
  tokens: number
  /** On the monotonic clock. */
  filledAt: number
}

/** The buckets of one process, exact at every moment. */
export class TokenBuckets implements RateLimits {
  readonly #clock: Clock
  readonly #buckets = boundedCache<Bucket>(maxBuckets)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  take(requests: readonly TokenRequest[]): TooFewTokens | undefined {
    for (const request of requests) {
      const waitMs = this.#waitMs(request)
      if (waitMs > 0) return { refused: request, waitMs }
    }
    for (const { bucket, rate, tokens } of requests) this.#fill(bucket, rate).tokens -= tokens
    return undefined
  }

  /** Takes as many tokens as there are, up to `most`. Returns how many. */
  takeMore({ bucket: name, rate }: TokenRequest, most: number): number {
    const bucket = this.#fill(name, rate)
    const taken = Math.max(0, Math.min(most, Math.floor(bucket.tokens)))
    bucket.tokens -= taken
    return taken
  }

  /** Takes a token at that moment of the monotonic clock. False when there is none. */
  takeOne(name: string, rate: Rate, nowMs: number): boolean {
    const bucket = this.#fill(name, rate, nowMs)
    if (bucket.tokens < 1 - maxRoundingError) return false
    bucket.tokens -= 1
    return true
  }

  stateOf(name: string, rate: Rate): BucketState {
    const { tokens } = this.#fill(name, rate)
    return { remaining: Math.max(0, Math.floor(tokens)), resetsInMs: ((rate.burst - tokens) / rate.perSecond) * 1000 }
  }

  /** Until the bucket has the tokens. */
  #waitMs({ bucket, rate, tokens }: TokenRequest): number {
    const missing = Math.min(tokens, rate.burst) - this.#fill(bucket, rate).tokens
    // Sums of fractions are not exact.
    return missing < maxRoundingError ? 0 : (missing / rate.perSecond) * 1000
  }

  /** A new bucket is full; with another rate, after a reload, it holds no more than that allows. */
  #fill(name: string, { perSecond, burst }: Rate, now = this.#clock.monotonic()): Bucket {
    const bucket = this.#buckets.get(name)
    if (bucket === undefined) {
      const full = { tokens: burst, filledAt: now }
      this.#buckets.set(name, full)
      return full
    }
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond)
    bucket.filledAt = now
    return bucket
  }
}

const maxRoundingError = 1e-6
