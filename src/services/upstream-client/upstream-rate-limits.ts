import type { Target } from '../../plugin/call.ts'
import { Backoff, thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { RateLimits, TokenRequest } from '../rate-limits.ts'

/** Without Retry-After the delay is `minBackoffMs`, doubled each time. No delay is shorter or longer than these two. */
const minBackoffMs = 1000
const maxBackoffMs = 60_000

/**
 * Keeps requests away from an upstream that is rate limiting them, for as long as its Retry-After says. Then one request at
 * a time may probe; the back-off is over when such a probe is answered.
 */
export class RateLimitBackoff {
  readonly #clock: Clock
  readonly #delays = new Backoff({ minMs: minBackoffMs, maxMs: maxBackoffMs })
  /** Undefined while the upstream limits nothing. */
  #until: number | undefined
  #isProbing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a request may be sent now. Each request that is sent calls begin(), then end(). */
  get mayRequest(): boolean {
    return this.#until === undefined || (this.#clock.monotonic() >= this.#until && !this.#isProbing)
  }

  /** Milliseconds until the next probe may be sent. */
  get remainingMs(): number {
    return this.#until === undefined ? 0 : Math.max(0, this.#until - this.#clock.monotonic())
  }

  /** True when the request is a probe. */
  begin(): boolean {
    return (this.#isProbing = this.#until !== undefined)
  }

  /** An answered probe ends the back-off; after one that failed or was canceled, another request may probe. */
  end(isProbe: boolean, isAnswered: boolean): void {
    if (!isProbe) return
    this.#isProbing = false
    if (!isAnswered) return
    this.#until = undefined
    this.#delays.reset()
  }

  /** A request was refused because of a rate limit. */
  onRateLimited(retryAfterSeconds: number | undefined): void {
    const now = this.#clock.monotonic()
    // Requests that were sent together are refused together: only the first refusal lengthens the delay.
    if (this.#until !== undefined && now < this.#until && retryAfterSeconds === undefined) return
    if (retryAfterSeconds !== undefined) this.#delays.reset()
    const delayMs = retryAfterSeconds === undefined ? this.#delays.next() : Math.max(minBackoffMs, retryAfterSeconds * 1000)
    this.#until = Math.max(this.#until ?? 0, now + Math.min(maxBackoffMs, delayMs))
  }
}

/** For so long after a refused request the rate counts as spent for operators: the next request may be allowed within milliseconds. */
const shownMs = 1000

interface RateServices {
  readonly rateLimits: RateLimits
  readonly clock: Clock
  readonly log: Log
  readonly network: { readonly name: string }
}

/** The requests in a time that an upstream allows, by its options. All workers share it. */
export class UpstreamRate {
  readonly #services: RateServices
  readonly #upstream: string
  readonly #request: readonly [TokenRequest]
  #spentUntil = -Infinity
  #shownUntil = -Infinity

  constructor(upstream: string, perSecond: number, services: RateServices) {
    this.#services = services
    this.#upstream = upstream
    const bucket = `upstream ${services.network.name} ${upstream}`
    this.#request = [{ bucket, rate: { perSecond, burst: Math.ceil(perSecond) }, tokens: 1 }]
  }

  /** Milliseconds until a request may be allowed; 0 unless one was refused. */
  get remainingMs(): number {
    return Math.max(0, this.#spentUntil - this.#services.clock.monotonic())
  }

  /** A request was refused in the last second. */
  get isShownAsSpent(): boolean {
    return this.#services.clock.monotonic() < this.#shownUntil
  }

  /** Takes one request. 0 when it may be sent, else the milliseconds until one may. */
  take(): MaybePromise<number> {
    return thenMaybe(this.#services.rateLimits.take(this.#request), refused => {
      if (refused !== undefined) this.#recordSpent(refused.waitMs)
      return refused?.waitMs ?? 0
    })
  }

  #recordSpent(waitMs: number): void {
    const { clock, log } = this.#services
    if (!this.isShownAsSpent) log.warn({ upstream: this.#upstream }, 'upstream rate spent: calls go to other upstreams')
    const now = clock.monotonic()
    this.#spentUntil = now + waitMs
    this.#shownUntil = now + Math.max(shownMs, waitMs)
  }
}

const rates = new WeakMap<Target, UpstreamRate>()

/** The rate of the upstream, which all plugins share that send it calls; undefined when it has none. */
export const rateOf = (target: Target, services: RateServices): UpstreamRate | undefined => {
  const { name, rate } = target
  return rate === undefined ? undefined : getOrCreate(rates, target, () => new UpstreamRate(name, rate, services))
}
