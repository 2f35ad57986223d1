import type { Clock } from '../../src/plugin.ts'

/** In ms: the first rest after a refusal without Retry-After, doubled each time; and the longest of any. */
const first = 1000
const longest = 60_000

/**
 * An upstream that limits us is left alone for as long as it says. After that a single call may try; the rest is over
 * when that call is answered.
 */
export class Rest {
  readonly #clock: Clock
  #until: number | undefined
  #usual = first
  #isTried = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whoever asks the upstream takes the turn first, if there is one. */
  get isOver(): boolean {
    return this.#until === undefined || (this.#clock.monotonic() >= this.#until && !this.#isTried)
  }

  /** Milliseconds until a call may try. */
  get left(): number {
    return this.#until === undefined ? 0 : Math.max(0, this.#until - this.#clock.monotonic())
  }

  /** A call goes to the upstream; true when it is the one that tries. */
  take(): boolean {
    return (this.#isTried = this.#until !== undefined)
  }

  /** The upstream limits us; `seconds` is its Retry-After. */
  begin(seconds: number | undefined, wasTrial: boolean): void {
    if (wasTrial) this.#isTried = false
    const now = this.#clock.monotonic()
    // One refusal of many, all sent before the rest began.
    if (this.#until !== undefined && now < this.#until && seconds === undefined) return
    const length = Math.min(longest, seconds === undefined ? this.#usual : Math.max(first, seconds * 1000))
    this.#usual = Math.min(longest, seconds === undefined ? 2 * this.#usual : first)
    this.#until = Math.max(this.#until ?? 0, now + length)
  }

  /** The upstream did something else than limit us; only of the call that tried does that say anything. */
  end(wasTrial: boolean, verdict: 'good' | 'bad' | undefined): void {
    if (!wasTrial) return
    this.#isTried = false
    if (verdict !== 'good') return
    this.#until = undefined
    this.#usual = first
  }
}
