import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge, Metrics } from '../metrics.ts'
import type { ChainState } from './chain-state.ts'

/** The heights of a network, for metrics. */
export class HeightGauges {
  readonly #head: Gauge
  readonly #finalized: Gauge
  readonly #reported: Gauge

  constructor(metrics: Metrics<'network'>) {
    this.#head = metrics.gauge(metricDefinitions.head, {})
    this.#finalized = metrics.gauge(metricDefinitions.finalized, {})
    this.#reported = metrics.gauge(metricDefinitions.reportedHeight, {})
  }

  set({ head, finalized, reportedHeight }: Pick<ChainState, 'head' | 'finalized' | 'reportedHeight'>): void {
    if (head !== undefined) this.#head.set(head.number)
    if (finalized !== undefined) this.#finalized.set(finalized.number)
    this.#reported.set(reportedHeight)
  }
}
