/** Calls that come while a run is in flight share that run. The next call after it starts a new one, with its arguments. */
export const singleFlight = <Args extends readonly unknown[], T>(run: (...args: Args) => Promise<T>): ((...args: Args) => Promise<T>) => {
  let inFlight: Promise<T> | undefined
  return (...args) =>
    (inFlight ??= run(...args).finally(() => {
      inFlight = undefined
    }))
}
