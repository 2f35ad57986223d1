export interface BackoffOptions {
  readonly minMs: number
  readonly maxMs: number
}

/** Exponential backoff: each delay is twice the one before, from `minMs` up to `maxMs`. */
export class Backoff {
  readonly #options: BackoffOptions
  #attempts = 0

  constructor(options: BackoffOptions) {
    this.#options = options
  }

  /** The next delay in ms. */
  next(): number {
    const { minMs, maxMs } = this.#options
    const delayMs = Math.min(maxMs, minMs * 2 ** this.#attempts)
    if (delayMs < maxMs) this.#attempts += 1
    return delayMs
  }

  /** The next delay is `minMs` again. */
  reset(): void {
    this.#attempts = 0
  }
}
