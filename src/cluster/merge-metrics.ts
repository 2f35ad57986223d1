import { hasSameLabels } from '../services/metrics.ts'
import type { Aggregation, MetricFamily, MutableFamily, Series } from '../services/metrics.ts'
import { getOrCreate } from '../util/memoize.ts'

/** Merges the metrics of several processes: counters add up, a gauge is aggregated as its definition says. */
export const mergeMetrics = (processes: readonly (readonly MetricFamily[])[]): readonly MetricFamily[] => {
  const all = new Map<string, MutableFamily>()
  for (const family of processes.flat()) {
    const merged = getOrCreate(all, family.name, () => ({ ...family, series: [] as Series[] }))
    for (const { labels, values } of family.series) {
      const same = merged.series.find(series => hasSameLabels(series.labels, labels))
      if (same === undefined) merged.series.push({ labels, values: [...values] })
      else
        values.forEach((value, i) => {
          same.values[i] = aggregators[merged.aggregation](same.values[i]!, value)
        })
    }
  }
  return [...all.values()]
}

const aggregators: Readonly<Record<Aggregation, (one: number, other: number) => number>> = {
  max: Math.max,
  min: Math.min,
  sum: (one, other) => one + other,
}
