/** Work that begins when it is its turn. */
export type Queue = <T>(work: () => Promise<T>) => Promise<T>

/** Lets so much work be under way at once; the rest waits in line: first come, first served. */
export const openQueue = (places: number): Queue => {
  const waiting: (() => void)[] = []
  let free = places
  return async work => {
    if (free > 0) free -= 1
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
