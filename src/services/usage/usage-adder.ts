import { successOutcome } from '../../store/usage-store.ts'
import type { UsageGroup, UsageSums } from '../../store/usage-store.ts'
import { latencyQuantile } from '../../util/latency-buckets.ts'
import { addVector } from '../../util/vectors.ts'
import { failedOutcomes } from '../traffic/figures.ts'

interface UsageSum {
  readonly calls: number
  readonly credits: number
  /** Calls that a partner answered. */
  readonly forwarded: number
}

/** With what is known of calls of one account. */
export interface UsageStatistics extends UsageSum {
  readonly failed: number
  /** Of those, by the fault of nodes or of the gateway; the others by the callers’ own errors. */
  readonly byGateway: number
  /** Of successful calls, in ms; null without any. */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
}

/** Adds up counts of calls. */
export class UsageAdder {
  calls = 0
  credits = 0
  forwarded = 0
  failed = 0
  byGateway = 0
  readonly #latencies: number[] = []

  add(group: Pick<UsageGroup, 'outcome' | 'forwarded'>, { calls, credits, latencies }: UsageSums): void {
    this.calls += calls
    this.credits += credits
    if (group.forwarded) this.forwarded += calls
    if (group.outcome !== successOutcome) this.failed += calls
    if (failedOutcomes.has(group.outcome)) this.byGateway += calls
    if (latencies !== undefined) addVector(this.#latencies, latencies)
  }

  /** What another one has added up. */
  merge(other: UsageAdder): void {
    this.calls += other.calls
    this.credits += other.credits
    this.forwarded += other.forwarded
    this.failed += other.failed
    this.byGateway += other.byGateway
    addVector(this.#latencies, other.#latencies)
  }

  get sum(): UsageSum {
    const { calls, credits, forwarded } = this
    return { calls, credits, forwarded }
  }

  get statistics(): UsageStatistics {
    return { ...this.sum, failed: this.failed, byGateway: this.byGateway, ...this.latency }
  }

  get latency(): Pick<UsageStatistics, 'p50Ms' | 'p95Ms' | 'p99Ms'> {
    const [p50Ms, p95Ms, p99Ms] = [0.5, 0.95, 0.99].map(quantile => roundedQuantile(this.#latencies, quantile))
    return { p50Ms: p50Ms ?? null, p95Ms: p95Ms ?? null, p99Ms: p99Ms ?? null }
  }
}

/** The most credits first. */
export const compareUsage = (a: UsageSum & { readonly name: string }, b: UsageSum & { readonly name: string }): number =>
  b.credits - a.credits || b.calls - a.calls || (a.name < b.name ? -1 : 1)

/** Three digits: the sketch knows no more. */
const roundedQuantile = (latencies: readonly number[], quantile: number): number | null => {
  const ms = latencyQuantile(latencies, quantile)
  return ms === null ? null : Number(ms.toPrecision(3))
}
