import { storeLimits } from '../store/store.ts'
import type { Store } from '../store/store.ts'
import { metricDefinitions } from './metric-definitions.ts'
import type { Metrics } from './metrics.ts'

/** How near the store is to its limits, as metrics: before they are reached, and calls are refused. */
export class StoreLimits {
  readonly intervalMs = 30_000
  readonly #store: Pick<Store, 'usedShares'>
  readonly #metrics: Metrics

  constructor(store: Pick<Store, 'usedShares'>, metrics: Metrics) {
    this.#store = store
    this.#metrics = metrics
  }

  async record(): Promise<void> {
    // While the store does not answer, other metrics say so, and these stay as they were.
    const shares = await Promise.resolve(this.#store.usedShares()).catch(() => undefined)
    if (shares === undefined) return
    for (const limit of storeLimits) {
      const share = shares[limit]
      if (share === undefined) this.#metrics.removeSeries({ limit }, [metricDefinitions.storeUsedShare])
      else this.#metrics.gauge(metricDefinitions.storeUsedShare, { limit }).set(share)
    }
  }
}
