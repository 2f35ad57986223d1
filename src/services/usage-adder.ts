import { successOutcome } from '../store/usage-store.ts'
import type { UsageGroup, UsageSums } from '../store/usage-store.ts'
import { latencyQuantile } from '../util/latency-buckets.ts'
import { addVector } from '../util/vectors.ts'

export interface UsageSum {
  readonly calls: number
  readonly credits: number
  /** Calls that a partner answered. */
  readonly forwarded: number
}

/** With what is known of calls of one account. */
export interface UsageStatistics extends UsageSum {
  readonly failed: number
  /** Of successful calls, in ms; null without any. */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
}

/** Adds up counts of calls. */
export class UsageAdder {
  calls = 0
  credits = 0
  forwarded = 0
  failed = 0
  readonly #latencies: number[] = []

  add(group: Pick<UsageGroup, 'outcome' | 'forwarded'>, { calls, credits, latencies }: UsageSums): void {
    this.calls += calls
    this.credits += credits
    if (group.forwarded) this.forwarded += calls
    if (group.outcome !== successOutcome) this.failed += calls
    if (latencies !== undefined) addVector(this.#latencies, latencies)
  }

  get sum(): UsageSum {
    const { calls, credits, forwarded } = this
    return { calls, credits, forwarded }
  }

  get statistics(): UsageStatistics {
    return { ...this.sum, failed: this.failed, ...this.latency }
  }

  get latency(): Pick<UsageStatistics, 'p50Ms' | 'p95Ms'> {
    return { p50Ms: roundedQuantile(this.#latencies, 0.5), p95Ms: roundedQuantile(this.#latencies, 0.95) }
  }
}

/** Three digits: the sketch knows no more. */
const roundedQuantile = (latencies: readonly number[], quantile: number): number | null => {
  const ms = latencyQuantile(latencies, quantile)
  return ms === null ? null : Number(ms.toPrecision(3))
}
