import type { Clock, Timer } from '../services/clock.ts'

/** The store took longer than a second. */
export class TimeoutError extends Error {
  constructor() {
    super(`no answer for ${timeoutSteps * timeoutStepMs} ms`)
    this.name = 'Late'
  }
}

/**
 * Rejects with Late when the store takes longer than a second; what it answers after that nobody hears. Patience goes
 * down step by step, and a step takes at least one turn of the event loop: a process that has much to do for a second is
 * not a store that is away.
 */
export const withTimeout = <T>(clock: Clock, promise: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let timer: Timer
    const wait = (stepsLeft: number): void => {
      timer = clock.after(timeoutStepMs, () => (stepsLeft > 1 ? wait(stepsLeft - 1) : reject(new TimeoutError())))
    }
    wait(timeoutSteps)
    promise.then(resolve, reject).finally(() => timer.cancel())
  })

/** Milliseconds; together they are a second. */
const timeoutStepMs = 100
const timeoutSteps = 10
