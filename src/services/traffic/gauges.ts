import { hasLabels } from '../metrics.ts'
import type { Labels, MetricFamily, Series } from '../metrics.ts'

type Named = Pick<MetricFamily, 'name'>

/** The values of metrics at one moment, by their names and labels. */
export class Gauges {
  readonly #families: ReadonlyMap<string, readonly Series[]>

  constructor(families: readonly MetricFamily[]) {
    this.#families = new Map(families.map(({ name, series }) => [name, series]))
  }

  seriesOf({ name }: Named, labels: Labels = {}): readonly Series[] {
    return (this.#families.get(name) ?? []).filter(series => hasLabels(series.labels, labels))
  }

  /** The sum of the series with these labels; undefined where there are none. */
  valueOf(metric: Named, labels: Labels = {}): number | undefined {
    const found = this.seriesOf(metric, labels)
    return found.length === 0 ? undefined : found.reduce((sum, { values }) => sum + (values[0] ?? 0), 0)
  }

  /** In order. */
  labelValues(metric: Named, label: string, labels: Labels = {}): readonly string[] {
    return [...new Set(this.seriesOf(metric, labels).flatMap(series => series.labels[label] ?? []))].sort()
  }
}
