import type { Clock } from '../clock.ts'

/** How long a call waits for its place before another node had better be asked, in ms. */
const patience = 1000

/** Who waits for a place, and may have to leave before there is one. */
export interface Waiter {
  readonly isOver: boolean
  /** What is to be done when it is over; one thing at a time. */
  whenOver: (() => void) | undefined
}

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
  enter(waiter: Waiter): boolean | Promise<boolean> {
    if (waiter.isOver) return false
    if (this.#inside < this.#limit) {
      this.#inside += 1
      return true
    }
    return this.#waiting.size < this.#queue && this.#wait(waiter)
  }

  leave(): void {
    const [next] = this.#waiting
    if (next === undefined) this.#inside -= 1
    else next(true)
  }

  #wait(waiter: Waiter): Promise<boolean> {
    return new Promise(resolve => {
      const giveUp = () => settle(false)
      const settle = (enters: boolean) => {
        this.#waiting.delete(settle)
        timer.cancel()
        waiter.whenOver = undefined
        resolve(enters)
      }
      const timer = this.#clock.after(patience, giveUp)
      waiter.whenOver = giveUp
      this.#waiting.add(settle)
    })
  }
}
