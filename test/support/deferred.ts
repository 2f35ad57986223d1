/** A promise that is settled from outside; `Promise.withResolvers()` needs Node.js 22. */
export const deferred = <T = void>() => {
  let resolve!: (value: T) => void
  const promise = new Promise<T>(settle => {
    resolve = settle
  })
  return { promise, resolve }
}
