import type { Clock } from '../services/clock.ts'
import { boundedCache } from './bounded-cache.ts'

export interface AttemptLimitOptions {
  /** Attempts within one window. */
  readonly max: number
  readonly windowMs: number
}

interface Window {
  readonly endsAt: number
  readonly count: number
}

/** Where there are more, the least recent ones are dropped. */
const maxWindows = 10_000

/** Limits attempts by who makes them, in this process. A window begins with the first attempt. */
export class AttemptLimit {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #options: AttemptLimitOptions
  readonly #windows = boundedCache<Window>(maxWindows)

  constructor(clock: Pick<Clock, 'monotonic'>, options: AttemptLimitOptions) {
    this.#clock = clock
    this.#options = options
  }

  /** Seconds until the next attempt, for one who has made as many as are allowed; else undefined. */
  retryAfter(who: string): number | undefined {
    const { count, endsAt } = this.#windowOf(who)
    return count < this.#options.max ? undefined : Math.max(1, Math.ceil((endsAt - this.#clock.monotonic()) / 1_000))
  }

  record(who: string): void {
    const { count, endsAt } = this.#windowOf(who)
    this.#windows.set(who, { endsAt, count: count + 1 })
  }

  #windowOf(who: string): Window {
    const now = this.#clock.monotonic()
    const window = this.#windows.get(who)
    return window !== undefined && now < window.endsAt ? window : { endsAt: now + this.#options.windowMs, count: 0 }
  }
}
