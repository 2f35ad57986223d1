/** Calls that come while a run is in flight share that run. The next call after it starts a new one. */
export const singleFlight = <T>(run: () => Promise<T>): (() => Promise<T>) => {
  let inFlight: Promise<T> | undefined
  return () =>
    (inFlight ??= run().finally(() => {
      inFlight = undefined
    }))
}
