import { Backoff } from '../../util/async.ts'
import type { Clock } from '../clock.ts'

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
