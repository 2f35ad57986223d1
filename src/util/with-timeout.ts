import type { Clock, Timer } from '../services/clock.ts'

/** The promise did not settle in time. */
export class TimeoutError extends Error {
  constructor(timeoutMs: number) {
    super(`no answer for ${timeoutMs} ms`)
    this.name = 'TimeoutError'
  }
}

/** The timeout is counted in so many steps. */
const stepCount = 10

/**
 * Rejects with TimeoutError when the promise takes longer than `timeoutMs`; what it settles with after that is ignored.
 * The timeout is counted in steps, and a step takes at least one turn of the event loop: a process that is busy for longer
 * than the timeout does not take what arrived meanwhile for late.
 */
export const withTimeout = <T>(clock: Clock, timeoutMs: number, promise: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let timer: Timer
    const wait = (stepsLeft: number): void => {
      timer = clock.after(timeoutMs / stepCount, () => (stepsLeft > 1 ? wait(stepsLeft - 1) : reject(new TimeoutError(timeoutMs))))
    }
    wait(stepCount)
    promise.then(resolve, reject).finally(() => timer.cancel())
  })

/** The same, but resolves with the fallback on a timeout. Other errors of the promise still reject. */
export const withTimeoutOr = async <T, Fallback>(
  clock: Clock,
  timeoutMs: number,
  promise: Promise<T>,
  fallback: () => Fallback,
): Promise<T | Fallback> => {
  try {
    return await withTimeout(clock, timeoutMs, promise)
  } catch (error) {
    if (error instanceof TimeoutError) return fallback()
    throw error
  }
}
