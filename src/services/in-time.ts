import type { Clock, Timer } from './clock.ts'

/** The store took longer than a second. */
export class Late extends Error {
  constructor() {
    super(`no answer for ${steps * step} ms`)
    this.name = 'Late'
  }
}

/**
 * Rejects with Late when the store takes longer than a second; what it answers after that nobody hears. Patience goes
 * down step by step, and a step takes at least one turn of the event loop: a process that has much to do for a second is
 * not a store that is away.
 */
export const inTime = <T>(clock: Clock, work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let timer: Timer
    const wait = (left: number): void => {
      timer = clock.after(step, () => (left > 1 ? wait(left - 1) : reject(new Late())))
    }
    wait(steps)
    work.then(resolve, reject).finally(() => timer.cancel())
  })

/** Milliseconds; together they are a second. */
const step = 100
const steps = 10
