import type { Clock } from '../clock.ts'

/** How long a call waits for its place before another node had better be asked, in ms. */
const maxQueueWaitMs = 1000

/** Who waits for a place, and may have to leave before there is one. */
export interface Waiter {
  readonly isCanceled: boolean
  /** What is to be done when it is over; one thing at a time. */
  onCancel: (() => void) | undefined
}

/** So many at once; as many again (or `queue`) may wait, first come, first served. */
export class ConcurrencyLimit {
  readonly #clock: Clock
  readonly #maxConcurrent: number
  readonly #maxQueued: number
  /** In order of arrival. */
  readonly #waiters = new Set<(enters: boolean) => void>()
  #active = 0

  constructor(clock: Clock, maxConcurrent: number, maxQueued = maxConcurrent) {
    this.#clock = clock
    this.#maxConcurrent = maxConcurrent
    this.#maxQueued = maxQueued
  }

  /** False when there is no place, not even to wait, or none in time. Whoever got in must leave. */
  acquire(waiter: Waiter): boolean | Promise<boolean> {
    if (waiter.isCanceled) return false
    if (this.#active < this.#maxConcurrent) {
      this.#active += 1
      return true
    }
    return this.#waiters.size < this.#maxQueued && this.#enqueue(waiter)
  }

  release(): void {
    const [next] = this.#waiters
    if (next === undefined) this.#active -= 1
    else next(true)
  }

  #enqueue(waiter: Waiter): Promise<boolean> {
    return new Promise(resolve => {
      const giveUp = () => settle(false)
      const settle = (isAcquired: boolean) => {
        this.#waiters.delete(settle)
        timer.cancel()
        waiter.onCancel = undefined
        resolve(isAcquired)
      }
      const timer = this.#clock.after(maxQueueWaitMs, giveUp)
      waiter.onCancel = giveUp
      this.#waiters.add(settle)
    })
  }
}
