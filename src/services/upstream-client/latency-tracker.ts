import { QuantileSketch } from '../../util/quantile-sketch.ts'

/** Quantiles are computed anew after so many calls. */
const callsPerUpdate = 16

export interface LatencyQuantiles {
  readonly p50: number
  readonly p95: number
}

/** The latency of the recent calls of one class to one upstream, in ms. */
export class LatencyTracker {
  readonly #sketch = new QuantileSketch()
  #callCount = 0
  #quantiles: LatencyQuantiles | undefined
  #computedAtCount = 0
  #lastUsualAt = -Infinity

  /** Calls so far. */
  get callCount(): number {
    return this.#callCount
  }

  /** When the last call was answered that took no longer than usual; usual is the 95th percentile, or any latency without one. */
  get lastUsualAt(): number {
    return this.#lastUsualAt
  }

  record(startedAt: number, endedAt: number): void {
    if (endedAt - startedAt <= (this.quantiles?.p95 ?? Infinity)) this.#lastUsualAt = endedAt
    this.#add(endedAt - startedAt)
  }

  /** A call that was canceled after so long. One that had been late counts, or hedging would shorten the times that it follows. */
  recordCanceled(startedAt: number, endedAt: number): void {
    if (endedAt - startedAt >= (this.quantiles?.p95 ?? Infinity)) this.#add(endedAt - startedAt)
  }

  /** Undefined while there are too few calls. */
  get quantiles(): LatencyQuantiles | undefined {
    const roundedCount = this.#callCount - (this.#callCount % callsPerUpdate)
    if (roundedCount === this.#computedAtCount) return this.#quantiles
    this.#computedAtCount = roundedCount
    const [p50 = 0, p95 = 0] = this.#sketch.quantiles([0.5, 0.95])
    return (this.#quantiles = { p50, p95 })
  }

  #add(latencyMs: number): void {
    this.#sketch.record(latencyMs)
    this.#callCount += 1
  }
}
