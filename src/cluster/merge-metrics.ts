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
    this.#latest.set(worker, countsOf(families))
  }

  removeWorker(worker: Worker): void {
    this.#exited = mergeMetrics([this.#exited, this.#latest.get(worker) ?? []])
    this.#latest.delete(worker)
  }

  /**
   * The metrics that workers reply, which have been recorded; of one that does not answer, what it had counted; and the counts of those that have
   * exited, of which some may have replied just before.
   */
  complete(replies: ReadonlyMap<Worker, readonly MetricFamily[] | undefined>): readonly (readonly MetricFamily[])[] {
    const running = Array.from(replies).filter(([worker]) => this.#latest.has(worker))
    this.#forgetRemoved(running.flatMap(([, families]) => families ?? []))
    return [...running.map(([worker, families]) => families ?? this.#latest.get(worker) ?? []), this.#exited]
  }

  /** A reload has removed what no worker has series of any more: added again, it begins anew. */
  #forgetRemoved(current: readonly MetricFamily[]): void {
    if (current.length === 0) return
    const subjects = new Set(current.flatMap(family => family.series.map(series => subjectOf(family, series))))
    this.#exited = selectSeries(this.#exited, (series, family) => subjects.has(subjectOf(family, series)))
  }
}

/** What adds up; without what a missing series says as well, and without examples. */
const countsOf = (families: readonly MetricFamily[]): readonly MetricFamily[] =>
  selectSeries(
    families.filter(({ type }) => type !== 'gauge'),
    ({ values }) => values.some(value => value !== 0),
  ).map(family => ({ ...family, series: family.series.map(({ labels, values }) => ({ labels, values })) }))

const selectSeries = (
  families: readonly MetricFamily[],
  isKept: (series: Series, family: MetricFamily) => boolean,
): readonly MetricFamily[] =>
  families.flatMap(family => {
    const series = family.series.filter(each => isKept(each, family))
    return series.length === 0 ? [] : { ...family, series }
  })

/** A network, an upstream, or what the metric itself is about. */
const subjectOf = ({ name }: MetricFamily, { labels: { network, upstream } }: Series): string =>
  network === undefined && upstream === undefined ? name : `${network}\0${upstream}`
