import type { Clock } from './clock.ts'

const minIntervalMs = 10_000

/** Lines that callers cause: of each kind there is one in 10 s. */
export class LogInterval {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #lastAt = new Map<string, number>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** True where the line is to be written. There are few kinds. */
  begin(kind: string): boolean {
    const now = this.#clock.monotonic()
    if (now - (this.#lastAt.get(kind) ?? -Infinity) < minIntervalMs) return false
    this.#lastAt.set(kind, now)
    return true
  }
}
