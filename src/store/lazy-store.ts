import type { Store } from './store.ts'

/** What can be used of a store that is not open yet: all that may take time. */
export type LazyStore = Omit<Store, 'warnings' | 'horizonMs' | 'subscribe' | 'close'>

/**
 * Each method opens the store first, where that has not been done: what needs no store goes on without it. A store that cannot be opened
 * rejects with StoreError, and is opened again by the next method.
 */
export const lazyStore = (open: () => Promise<Store>): LazyStore => {
  const allUsageCounts: LazyStore['allUsageCounts'] = async function* (hours) {
    yield* (await open()).allUsageCounts(hours)
  }
  // The methods differ in their parameters, which are passed on as they are.
  const methodOf =
    (name: keyof LazyStore) =>
    async (...args: readonly never[]) =>
      ((await open())[name] as (...args: readonly never[]) => unknown)(...args)
  return new Proxy({ allUsageCounts } as LazyStore, {
    get: (own, name: keyof LazyStore | 'then') => {
      // With a method `then` the store would be a promise, and whoever awaits it would wait forever.
      if (name === 'then') return undefined
      return name in own ? own[name] : methodOf(name)
    },
  })
}
