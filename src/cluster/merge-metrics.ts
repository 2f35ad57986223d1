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

/**
 * What the workers have counted, those that have exited or do not answer included: Prometheus takes a counter that goes back for one that began anew at 0,
 * and would count again all that is left of it.
 */
export class WorkerCounts<Worker> {
  readonly #latest = new Map<Worker, readonly MetricFamily[]>()
  #exited: readonly MetricFamily[] = []

  record(worker: Worker, families: readonly MetricFamily[]): void {
    this.#latest.set(worker, families.filter(isCount))
  }

  /** As it has reported last. */
  of(worker: Worker): readonly MetricFamily[] {
    return this.#latest.get(worker) ?? []
  }

  removeWorker(worker: Worker): void {
    this.#exited = mergeMetrics([this.#exited, this.of(worker)])
    this.#latest.delete(worker)
  }

  /** Of workers that have exited, as far as others have series of the same network and upstream: a reload may have removed these. */
  exited(others: readonly (readonly MetricFamily[])[]): readonly MetricFamily[] {
    if (this.#exited.length === 0) return []
    const subjects = new Set(others.flatMap(families => families.flatMap(({ series }) => series.map(subjectOf))))
    const isKept = (series: Series): boolean => subjects.has(subjectOf(series))
    return this.#exited.flatMap(family => (family.series.some(isKept) ? { ...family, series: family.series.filter(isKept) } : []))
  }
}

const isCount = ({ type }: MetricFamily): boolean => type !== 'gauge'

const subjectOf = ({ labels }: Series): string => `${labels['network']}\0${labels['upstream']}`
