import { seriesKey, toFamilies } from '../services/metrics.ts'
import type { Aggregation, MetricFamily, MutableFamily, Series } from '../services/metrics.ts'
import { getOrCreate } from '../util/memoize.ts'

type Exemplars = NonNullable<Series['exemplars']>

/** Merges the metrics of several processes: counters add up, a gauge is aggregated as its definition says. */
export const mergeMetrics = (processes: readonly (readonly MetricFamily[])[]): readonly MetricFamily[] => {
  const all = new Map<string, MutableFamily>()
  for (const family of processes.flat()) {
    const merged = getOrCreate(all, family.name, () => ({ ...family, series: new Map<string, Series>() }))
    for (const { labels, values, exemplars } of family.series) {
      const key = seriesKey(labels)
      const same = merged.series.get(key)
      if (same === undefined)
        merged.series.set(key, { labels, values: [...values], ...(exemplars && { exemplars: copyExemplars(exemplars) }) })
      else {
        values.forEach((value, i) => {
          same.values[i] = aggregators[merged.aggregation](same.values[i]!, value)
        })
        mergeExemplars(same, exemplars)
      }
    }
  }
  return toFamilies(all)
}

const copyExemplars = ({ requestIds, seconds }: Exemplars): Exemplars => ({ requestIds: [...requestIds], seconds: [...seconds] })

/** Buckets that have none get those of the other process. */
const mergeExemplars = ({ exemplars: merged }: Series, other: Exemplars | undefined): void => {
  other?.requestIds.forEach((requestId, i) => {
    if (merged === undefined || requestId === null || merged.requestIds[i] !== null) return
    merged.requestIds[i] = requestId
    merged.seconds[i] = other.seconds[i] ?? 0
  })
}

const aggregators: Readonly<Record<Aggregation, (one: number, other: number) => number>> = {
  max: Math.max,
  min: Math.min,
  sum: (one, other) => one + other,
}
