import { bucketBoundsSeconds } from '../metrics.ts'
import { estimateQuantile } from '../../util/histogram.ts'
import type { NetworkCounters, NodeCounters } from './counters.ts'
import { refusals } from '../../plugin/error-table.ts'

/** What people read of the traffic of an interval. A figure is undefined where nothing has happened in it. */
export interface CallFigures extends LatencyFigures {
  readonly calls: number
  /** By the fault of nodes or of the gateway. */
  readonly failedCalls: number
  readonly credits: number
  /** The share of the look-ups that the cache has answered, from 0 to 1. */
  readonly cacheHits: number | undefined
}

interface NodeFigures extends LatencyFigures {
  /** Attempts to have a call answered. */
  readonly requests: number
  readonly failures: number
}

interface LatencyFigures {
  readonly p50Ms: number | undefined
  readonly p95Ms: number | undefined
  readonly p99Ms: number | undefined
}

/** Outcomes that are the fault of nodes or of the gateway, and queries that nodes did not finish, although callers pay for those. */
export const failedOutcomes: ReadonlySet<string> = new Set([
  ...Object.entries(refusals).flatMap(([kind, { fault }]) => (fault === 'caller' ? [] : [kind])),
  'timeout',
])
const cacheHitResults: ReadonlySet<string> = new Set(['memory', 'redis', 'joined'])

/** Of one network, or of all networks together. */
export const callFigures = (networks: readonly NetworkCounters[]): CallFigures => {
  const calls = sumOf(networks, each => countOf(each.calls))
  const lookups = sumOf(networks, each => countOf(each.lookups))
  const hits = sumOf(networks, each => countOf(each.lookups, cacheHitResults))
  return {
    calls,
    failedCalls: sumOf(networks, each => countOf(each.calls, failedOutcomes)),
    credits: sumOf(networks, each => each.credits),
    cacheHits: lookups > 0 ? hits / lookups : undefined,
    ...latencyFigures(networks.map(each => each.durations)),
  }
}

export const nodeFigures = ({ durations, failures }: NodeCounters): NodeFigures => ({
  requests: durations.slice(0, bucketCount).reduce((sum, count) => sum + count, 0),
  failures: countOf(failures),
  ...latencyFigures([durations]),
})

const bucketBounds = [...bucketBoundsSeconds, Infinity]
const bucketCount = bucketBounds.length

const latencyFigures = (histograms: readonly (readonly number[])[]): LatencyFigures => {
  let count = 0
  const cumulative = bucketBounds.map((_, bucket) => (count += sumOf(histograms, durations => durations[bucket] ?? 0)))
  const quantileMs = (quantile: number): number | undefined => {
    const seconds = estimateQuantile(bucketBounds, cumulative, quantile)
    return seconds === undefined ? undefined : seconds * 1_000
  }
  return { p50Ms: quantileMs(0.5), p95Ms: quantileMs(0.95), p99Ms: quantileMs(0.99) }
}

const sumOf = <T>(items: readonly T[], measure: (item: T) => number): number => items.reduce((sum, item) => sum + measure(item), 0)

const countOf = (counts: Readonly<Record<string, number>>, names?: ReadonlySet<string>): number =>
  sumOf(Object.entries(counts), ([name, count]) => (names === undefined || names.has(name) ? count : 0))
