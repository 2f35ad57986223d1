import { copyReply, isFailure, refuse, releaseResult } from '../../src/plugin/plugin.ts'
import type { Failure, Reply, Request } from '../../src/plugin/plugin.ts'
import type { Clock } from '../../src/plugin/internal.ts'
import { isLate } from './node-attempt.ts'
import type { UpstreamNode } from './upstream-node.ts'

// Whether a call is tried again, and what bounds how often.

/** True when no other node can have a better reply. */
export const isFinalReply = (reply: Reply): boolean =>
  isFailure(reply) ? reply.fault !== 'upstream' && reply.retryElsewhere !== true : reply.unexpectedType !== true

/** The first failure that is about the request rather than about its node. */
const betterFailure = (one: Failure | undefined, other: Failure): Failure =>
  one === undefined || (one.fault === 'upstream' && other.fault !== 'upstream') ? other : one

export const betterReply = (one: Reply, other: Reply): Reply =>
  !isFailure(one) ? one : isFailure(other) ? betterFailure(one, other) : other

/** The replies to one call that were not final, as another node may have a better one. */
export class RejectedReplies {
  /** A node was requested, and failed: each further attempt is a retry. */
  hasFailed = false
  bestFailure: Failure | undefined
  readonly #replies: { readonly node: UpstreamNode; readonly reply: Reply }[] = []
  /** An own node refused the call because of its concurrency limit, so it is no outage. */
  #isAtConcurrencyLimit = false
  /** A result of a type that the method does not give, or `null` of a node that is behind: better than an error. */
  #unexpectedResult: Reply | undefined

  get best(): Reply | undefined {
    return this.#unexpectedResult ?? this.bestFailure
  }

  /** The best reply. A failure that each of `nodeCount` nodes gave, by its category, is final: no other node may know better. */
  bestOf(nodeCount: number): Reply | undefined {
    const { best, bestFailure } = this
    if (bestFailure?.category === undefined || best !== bestFailure || this.#replies.length < nodeCount) return best
    const isUnanimous = this.#replies.every(({ reply }) => isFailure(reply) && reply.category === bestFailure.category)
    return isUnanimous ? copyReply(bestFailure, { retryElsewhere: undefined }) : best
  }

  /** No own node can answer such a call. */
  get isOutage(): boolean {
    return (this.bestFailure === undefined || this.bestFailure.fault === 'upstream') && !this.#isAtConcurrencyLimit
  }

  add(reply: Reply, node: UpstreamNode): void {
    this.#replies.push({ node, reply })
    this.hasFailed ||= reply.source !== 'gateway'
    if (!isFailure(reply)) this.#unexpectedResult ??= reply
    else if (reply.retryElsewhere === true && !isLate(reply)) this.bestFailure = betterFailure(this.bestFailure, reply)
    else if (reply.source === 'gateway') this.#isAtConcurrencyLimit = true
  }

  /** `null` of a node that is behind: that is no failure of the node. */
  addMissing(reply: Reply): undefined {
    this.hasFailed = true
    this.#unexpectedResult ??= reply
  }

  /** Of the results that are not returned. */
  releaseAllBut(returned: Reply): void {
    for (const { reply } of this.#replies) if (reply !== returned) releaseResult(reply)
  }

  /** Another node has answered the request, which counts against the nodes of these replies. */
  recordAnsweredElsewhere(request: Request): void {
    for (const { node, reply } of this.#replies) node.recordAnsweredElsewhere(request, reply)
  }
}

/** Nodes failed first or were waited for, so that the time was over: not the fault of the caller, so the call costs nothing. */
export const retryTimeout = ({ name: upstream, target: { source } }: UpstreamNode): Failure =>
  refuse('timeout', { source, upstream, fault: 'upstream' })

export const noUpstream = (candidates: readonly { readonly state: { readonly retryInMs: number } }[]): Failure => {
  const retryInMs = Math.min(...candidates.map(({ state }) => state.retryInMs))
  return refuse('unavailable', { retryAfter: Math.min(5, Math.max(1, Math.ceil(retryInMs / 1000))) })
}

/** Retries are at most this ratio of the calls in the window, or the minimum if that is more (Envoy's retry budget). */
const maxRetryRatio = 0.2
const minRetries = 3
const retryWindowMs = 10_000

/**
 * Bounds retries, so that an outage cannot double the load. A retry that succeeds returns its place, and retries without a
 * place wait for one: so all calls move to a healthy node, and few to a node that fails too.
 */
export class RetryBudget {
  readonly #clock: Clock
  readonly #callCount = new SlidingWindowCounter(retryWindowMs)
  readonly #failedRetryCount = new SlidingWindowCounter(retryWindowMs)
  readonly #waiting: ((isReserved: boolean) => void)[] = []
  #retriesInFlight = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  recordCall(now: number): void {
    this.#callCount.add(now)
  }

  /** Reserves a retry, which must be released; false when the budget is exhausted. */
  reserve(): boolean | Promise<boolean> {
    if (this.#isAvailable) return this.#reserveNow()
    // Only a retry in flight can return its place.
    return this.#retriesInFlight > 0 && new Promise<boolean>(resolve => this.#waiting.push(resolve))
  }

  release(failed: boolean): void {
    this.#retriesInFlight -= 1
    if (failed) this.#failedRetryCount.add(this.#now)
    while (this.#waiting.length > 0 && this.#isAvailable) this.#waiting.shift()?.(this.#reserveNow())
    if (this.#retriesInFlight === 0) for (const settle of this.#waiting.splice(0)) settle(false)
  }

  get #isAvailable(): boolean {
    const maxRetries = Math.max(minRetries, maxRetryRatio * this.#callCount.sum(this.#now))
    return this.#retriesInFlight + this.#failedRetryCount.sum(this.#now) + 1 <= maxRetries
  }

  get #now(): number {
    return this.#clock.monotonic()
  }

  #reserveNow(): true {
    this.#retriesInFlight += 1
    return true
  }
}

/** Hedges are at most this ratio of the calls in the window, or the minimum if that is more. */
const maxHedgeRatio = 0.02
const minHedges = 4
const hedgeWindowMs = 60_000

/** Further hedges in the window, for nodes of which more calls are late than usual: the first moments of a hang. */
const maxBurstHedges = 200

/** Bounds hedges apart from retries, so that neither takes what the other needs. */
export class HedgeBudget {
  readonly #clock: Clock
  readonly #callCount = new SlidingWindowCounter(hedgeWindowMs)
  readonly #hedgeCount = new SlidingWindowCounter(hedgeWindowMs)
  readonly #burstCount = new SlidingWindowCounter(hedgeWindowMs)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  recordCall(now: number): void {
    this.#callCount.add(now)
  }

  /** `isFailing`: more calls of the node are late than usual. */
  reserve(isFailing: boolean): boolean {
    const now = this.#clock.monotonic()
    const maxHedges = Math.max(minHedges, maxHedgeRatio * this.#callCount.sum(now))
    const isWithinRatio = this.#hedgeCount.sum(now) + 1 <= maxHedges
    const isWithinBurst = isFailing && this.#burstCount.sum(now) < maxBurstHedges
    if (isWithinRatio) this.#hedgeCount.add(now)
    else if (isWithinBurst) this.#burstCount.add(now)
    return isWithinRatio || isWithinBurst
  }
}

/** Of a sliding window. */
const bucketCount = 10

/** Counts in the last `windowMs`; expires them one bucket at a time. */
class SlidingWindowCounter {
  readonly #bucketMs: number
  readonly #counts = new Array<number>(bucketCount).fill(0)
  #sum = 0
  #lastBucket = 0

  constructor(windowMs: number) {
    this.#bucketMs = windowMs / bucketCount
  }

  add(now: number): void {
    this.#expire(now)
    this.#counts[this.#lastBucket % bucketCount]! += 1
    this.#sum += 1
  }

  sum(now: number): number {
    this.#expire(now)
    return this.#sum
  }

  #expire(now: number): void {
    const bucket = Math.floor(now / this.#bucketMs)
    for (let i = Math.max(this.#lastBucket + 1, bucket - bucketCount + 1); i <= bucket; i++) {
      this.#sum -= this.#counts[i % bucketCount]!
      this.#counts[i % bucketCount] = 0
    }
    this.#lastBucket = bucket
  }
}
