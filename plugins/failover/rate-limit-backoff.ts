import type { Clock } from '../../src/plugin/plugin.ts'

/** In ms: the first rest after a refusal without Retry-After, doubled each time; and the longest of any. */
const minBackoffMs = 1000
const maxBackoffMs = 60_000

/**
 * An upstream that limits us is left alone for as long as it says. After that a single call may try; the rest is over
 * when that call is answered.
 */
export class RateLimitBackoff {
  readonly #clock: Clock
  #until: number | undefined
  #nextBackoffMs = minBackoffMs
  #isProbing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whoever asks the upstream takes the turn first, if there is one. */
  get mayRequest(): boolean {
    return this.#until === undefined || (this.#clock.monotonic() >= this.#until && !this.#isProbing)
  }

  /** Milliseconds until a call may try. */
  get remainingMs(): number {
    return this.#until === undefined ? 0 : Math.max(0, this.#until - this.#clock.monotonic())
  }

  /** A call goes to the upstream; true when it is the one that tries. */
  beginRequest(): boolean {
    return (this.#isProbing = this.#until !== undefined)
  }

  /** The upstream limits us; `seconds` is its Retry-After. */
  onRateLimited(retryAfterSeconds: number | undefined, wasProbe: boolean): void {
    if (wasProbe) this.#isProbing = false
    const now = this.#clock.monotonic()
    // One refusal of many, all sent before the rest began.
    if (this.#until !== undefined && now < this.#until && retryAfterSeconds === undefined) return
    const backoffMs = Math.min(
      maxBackoffMs,
      retryAfterSeconds === undefined ? this.#nextBackoffMs : Math.max(minBackoffMs, retryAfterSeconds * 1000),
    )
    this.#nextBackoffMs = Math.min(maxBackoffMs, retryAfterSeconds === undefined ? 2 * this.#nextBackoffMs : minBackoffMs)
    this.#until = Math.max(this.#until ?? 0, now + backoffMs)
  }

  /** The upstream did something else than limit us; only of the call that tried does that say anything. */
  onOtherReply(wasProbe: boolean, result: 'good' | 'bad' | undefined): void {
    if (!wasProbe) return
    this.#isProbing = false
    if (result !== 'good') return
    this.#until = undefined
    this.#nextBackoffMs = minBackoffMs
  }
}
