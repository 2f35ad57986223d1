import type { Clock } from '../clock.ts'

/** How long a call waits for its place before another node had better be asked, in ms. */
const patience = 1000

/** So many at once; as many again (or `queue`) may wait, first come, first served. */
export class Gate {
  readonly #clock: Clock
  readonly #limit: number
  readonly #queue: number
  /** In order of arrival. */
  readonly #waiting = new Set<(enters: boolean) => void>()
  #inside = 0

  constructor(clock: Clock, limit: number, queue = limit) {
    this.#clock = clock
    this.#limit = limit
    this.#queue = queue
  }

  /** False when there is no place, not even to wait, or none in time. Whoever got in must leave. */
  enter(signal: AbortSignal): boolean | Promise<boolean> {
    if (signal.aborted) return false
    if (this.#inside < this.#limit) {
      this.#inside += 1
      return true
    }
    return this.#waiting.size < this.#queue && this.#wait(signal)
  }

  leave(): void {
    const [next] = this.#waiting
    if (next === undefined) this.#inside -= 1
    else next(true)
  }

  #wait(signal: AbortSignal): Promise<boolean> {
    return new Promise(resolve => {
      const giveUp = () => settle(false)
      const settle = (enters: boolean) => {
        this.#waiting.delete(settle)
        timer.cancel()
        signal.removeEventListener('abort', giveUp)
        resolve(enters)
      }
      const timer = this.#clock.after(patience, giveUp)
      signal.addEventListener('abort', giveUp)
      this.#waiting.add(settle)
    })
  }
}
