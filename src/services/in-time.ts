import type { Clock } from './clock.ts'

/** Rejects when the store takes longer than a second; what it answers after that nobody hears. */
export const inTime = <T>(clock: Clock, work: Promise<T>): Promise<T> => new Promise((resolve, reject) => {
  const timer = clock.after(patience, () => reject(new Error(`no answer within ${patience} ms`)))
  work.then(resolve, reject).finally(() => timer.cancel())
})

const patience = 1_000
