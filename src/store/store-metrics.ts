import type { Clock } from '../services/clock.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Metrics } from '../services/metrics.ts'
import type { Store } from './store.ts'

/** What a gateway requests of its store while it serves. */
const operations = [
  'findKey',
  'findKeyById',
  'changeCount',
  'changeCounts',
  'requestLease',
  'heartbeat',
  'deregister',
  'reportUsage',
] as const

/** The store, with the time and the failures of each request of a gateway in metrics. */
export const withStoreMetrics = (store: Store, metrics: Metrics, clock: Pick<Clock, 'monotonic'>): Store => {
  const measured = Object.fromEntries(
    operations.map(operation => {
      const duration = metrics.histogram(metricDefinitions.storeDuration, { operation })
      const errors = metrics.counter(metricDefinitions.storeErrors, { operation })
      // The operations differ in their parameters, which are passed on as they are.
      const request = store[operation] as (...args: readonly unknown[]) => unknown
      const measure = (...args: readonly unknown[]): unknown => {
        const startedAtMs = clock.monotonic()
        const end = () => duration.observe((clock.monotonic() - startedAtMs) / 1000)
        try {
          const returned = request(...args)
          if (returned instanceof Promise) returned.then(end, () => errors.add())
          else end()
          return returned
        } catch (error) {
          errors.add()
          throw error
        }
      }
      return [operation, measure]
    }),
  )
  return { ...store, ...measured }
}
