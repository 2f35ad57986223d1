import { getOrCreate, metricDefinitions } from '../../src/plugin/plugin.ts'
import type { Counter, Services } from '../../src/plugin/plugin.ts'

/** What has answered a call. */
type LookupResult = 'memory' | 'redis' | 'joined' | 'miss'

/** Counts look-ups by method and result; a series begins with its first count. */
export class LookupCounters {
  readonly #metrics: Services['metrics']
  readonly #countersByMethod = new Map<string, Partial<Record<LookupResult, Counter>>>()

  constructor(metrics: Services['metrics']) {
    this.#metrics = metrics
  }

  record(method: string, result: LookupResult): void {
    const counters = getOrCreate(this.#countersByMethod, method, newCounters)
    const counter = (counters[result] ??= this.#metrics.counter(metricDefinitions.cacheLookups, { method, result }))
    counter.add()
  }
}

const newCounters = (): Partial<Record<LookupResult, Counter>> => ({})
