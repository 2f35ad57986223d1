import { successOutcome } from '../../store/usage-store.ts'
import type { UsageRow, UsageSums } from '../../store/usage-store.ts'
import { latencyQuantile } from '../../util/latency-buckets.ts'
import { addVector } from '../../util/vectors.ts'

/** What calls can be grouped by, and filtered by. */
export const dimensions = ['method', 'network', 'key', 'outcome'] as const

export type Dimension = (typeof dimensions)[number]

/** Only calls that have these values count. */
export type UsageFilter = { readonly [D in Dimension]?: string | undefined }

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

/** Adds up the rows of a group. */
export class UsageAdder {
  calls = 0
  credits = 0
  forwarded = 0
  failed = 0
  readonly #latencies: number[] = []

  add(group: Pick<UsageRow['group'], 'outcome' | 'forwarded'>, { calls, credits, latencies }: UsageSums): void {
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

export const isIncluded = ({ group }: UsageRow, { method, network, key, outcome }: UsageFilter): boolean =>
  (method === undefined || group.method === method) &&
  (network === undefined || group.network === network) &&
  (key === undefined || group.key === key) &&
  (outcome === undefined || (outcome === failedOutcome ? group.outcome !== successOutcome : group.outcome === outcome))

/** In a filter: every outcome but `ok`. */
export const failedOutcome = 'failed'
