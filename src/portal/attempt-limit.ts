import { LRUCache } from 'lru-cache'
import type { Clock } from '../services/clock.ts'
import { hourMs } from '../util/dates.ts'
import { ApiError } from './api-error.ts'

export interface AttemptLimitOptions {
  /** Attempts within one window. */
  readonly max: number
  readonly windowMs: number
  /** Of the refusal, after "too many": `failed sign-ins`. */
  readonly label: string
}

interface Window {
  readonly endsAt: number
  readonly count: number
}

/** The least recent ones are forgotten where there are more. */
const maxWindows = 10_000

/** Limits attempts by who makes them, in this process. A window begins with the first attempt. */
export class AttemptLimit {
  readonly #clock: Clock
  readonly #options: AttemptLimitOptions
  readonly #windows = new LRUCache<string, Window>({ maxSize: maxWindows, sizeCalculation: () => 1 })

  constructor(clock: Clock, options: AttemptLimitOptions) {
    this.#clock = clock
    this.#options = options
  }

  /** Throws ApiError, 429, when `who` has made as many attempts as are allowed. */
  check(who: string): void {
    const { max, label } = this.#options
    const { count, endsAt } = this.#windowOf(who)
    if (count < max) return
    const retryAfter = Math.max(1, Math.ceil((endsAt - this.#clock.monotonic()) / 1_000))
    throw new ApiError(429, 'too-many-attempts', `too many ${label}: try again in ${retryAfter} s`, undefined, retryAfter)
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

/** What the portal limits. */
export interface PortalLimits {
  /** By the caller's network, as the next two. */
  readonly failedSignIns: AttemptLimit
  readonly failedTokens: AttemptLimit
  readonly linkRequests: AttemptLimit
  /** Links to one e-mail address. */
  readonly links: AttemptLimit
  /** By account. Keys, tokens and people. Removed ones stay in the store. */
  readonly creations: AttemptLimit
}

export const openPortalLimits = (clock: Clock): PortalLimits => ({
  failedSignIns: new AttemptLimit(clock, { max: 10, windowMs: 60_000, label: 'failed sign-ins' }),
  failedTokens: new AttemptLimit(clock, { max: 10, windowMs: 60_000, label: 'requests with an unknown token' }),
  linkRequests: new AttemptLimit(clock, { max: 20, windowMs: hourMs, label: 'requests for sign-in links' }),
  links: new AttemptLimit(clock, { max: 5, windowMs: hourMs, label: 'sign-in links to this address' }),
  creations: new AttemptLimit(clock, { max: 200, windowMs: hourMs, label: 'new keys, tokens and people in one hour' }),
})
