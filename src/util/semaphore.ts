/** Work that begins when it is its turn. */
export type Semaphore = <T>(work: () => Promise<T>) => Promise<T>

/** Lets so much work be under way at once; the rest waits in line: first come, first served. */
export const createSemaphore = (maxConcurrent: number): Semaphore => {
  const waiting: (() => void)[] = []
  let available = maxConcurrent
  return async work => {
    if (available > 0) available -= 1
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) available += 1
      else next()
    }
  }
}
