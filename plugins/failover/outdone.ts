import type { Clock, Log } from '../../src/plugin.ts'
import type { BreakerOptions } from './breaker.ts'

/**
 * The methods at which a node is outdone: it fails questions, in a way that a question may bring about, and another node
 * answers the same questions. No breaker counts that, since callers could cut the node off; but it is asked last, so
 * that such questions do not cost two attempts each. When nobody else can answer, it is asked all the same.
 */
export class Outdone {
  readonly #clock: Clock
  readonly #log: Log
  readonly #options: Pick<BreakerOptions, 'streak' | 'pause'>
  readonly #methods = new Map<string, { times: number, until: number }>()

  constructor(options: Pick<BreakerOptions, 'streak' | 'pause'>, clock: Clock, log: Log) {
    this.#options = options
    this.#clock = clock
    this.#log = log
  }

  /** After the pause it takes one more such question to begin another. */
  at(method: string): boolean {
    if (this.#methods.size === 0) return false
    const { times, until } = this.#methods.get(method) ?? { times: 0, until: 0 }
    return times >= this.#options.streak && this.#clock.monotonic() < until
  }

  add(upstream: string, method: string): void {
    const { streak, pause } = this.#options
    const times = 1 + (this.#methods.get(method)?.times ?? 0)
    this.#methods.set(method, { times, until: this.#clock.monotonic() + pause })
    if (times === streak) this.#log.warn({ upstream, method }, 'upstream is asked last: others answer what it fails')
  }

  /** It has answered. */
  clear(method: string): void {
    this.#methods.delete(method)
  }
}
