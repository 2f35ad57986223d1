import { getOrCreate } from '../util/memoize.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram'

/** How the values of a gauge in several workers become one. */
export type Aggregation = 'max' | 'min' | 'sum'

/** One metric, by the conventions of Prometheus: base units, counters that end in `_total`. */
export interface MetricDefinition<Type extends MetricType = MetricType, Label extends string = string> {
  readonly name: string
  readonly type: Type
  readonly help: string
  /** Labels with few values: never a key, an account or free text. */
  readonly labels: readonly Label[]
  /** For gauges; `max` unless given. */
  readonly aggregation?: Aggregation
}

export type Labels = Readonly<Record<string, string>>

type LabelValues<Label extends string> = Readonly<Record<Label, string>>

/**
 * Opens the series of a metric with these labels; the labels `Given` are already set. Open a series once, at load, and
 * keep it: a call then costs one addition.
 */
export interface Metrics<Given extends string = never> {
  counter<Label extends string>(metric: MetricDefinition<'counter', Label>, labels: LabelValues<Exclude<Label, Given>>): Counter
  gauge<Label extends string>(metric: MetricDefinition<'gauge', Label>, labels: LabelValues<Exclude<Label, Given>>): Gauge
  /** For durations, in seconds. */
  histogram<Label extends string>(metric: MetricDefinition<'histogram', Label>, labels: LabelValues<Exclude<Label, Given>>): Histogram
}

export interface Counter {
  add(by?: number): void
}

export interface Gauge {
  set(value: number): void
}

export interface Histogram {
  observe(seconds: number): void
}

/** All series of one metric; plain data, so that workers can send it to the primary. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: MetricType
  readonly aggregation: Aggregation
  readonly series: readonly Series[]
}

export interface Series {
  readonly labels: Labels
  /** One number; for a histogram the count of each bucket, not cumulative, then the sum. */
  readonly values: number[]
}

export type MutableFamily = MetricFamily & { readonly series: Series[] }

/** Metrics that can be read. */
export interface MetricsRegistry extends Metrics {
  families(): readonly MetricFamily[]
}

/** Upper bounds in seconds; one more bucket takes the rest. */
const bucketBoundsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Without prom-client, which takes 1 us a call to find a series again, and 80 ms to load. */
export const createMetricsRegistry = (): MetricsRegistry => {
  const families = new Map<string, MutableFamily>()
  const valuesOf = ({ name, type, help, aggregation }: MetricDefinition, labels: Labels): number[] => {
    const family = getOrCreate(families, name, () => ({
      name,
      type,
      help,
      aggregation: aggregation ?? defaultAggregation[type],
      series: [],
    }))
    const existing = family.series.find(series => hasSameLabels(series.labels, labels))
    if (existing !== undefined) return existing.values
    const values = Array<number>(type === 'histogram' ? bucketBoundsSeconds.length + 2 : 1).fill(0)
    family.series.push({ labels, values })
    return values
  }
  return {
    families: () => [...families.values()],
    counter(metric, labels) {
      const values = valuesOf(metric, labels)
      return {
        add(by = 1) {
          values[0]! += by
        },
      }
    },
    gauge(metric, labels) {
      const values = valuesOf(metric, labels)
      return {
        set(value) {
          values[0] = value
        },
      }
    },
    histogram(metric, labels) {
      const values = valuesOf(metric, labels)
      return {
        observe(seconds) {
          let bucket = 0
          while (bucket < bucketBoundsSeconds.length && seconds > bucketBoundsSeconds[bucket]!) bucket++
          values[bucket]! += 1
          values[bucketBoundsSeconds.length + 1]! += seconds
        },
      }
    },
  }
}

const defaultAggregation: Readonly<Record<MetricType, Aggregation>> = { counter: 'sum', gauge: 'max', histogram: 'sum' }

/** The same metrics, with these labels on each. */
export const withLabels = <Given extends string>(metrics: Metrics, given: LabelValues<Given>): Metrics<Given> => {
  // The compiler cannot see that the given labels and the others are all of them.
  const all = (labels: Labels) => ({ ...given, ...labels }) as never
  return {
    counter: (metric, labels) => metrics.counter(metric, all(labels)),
    gauge: (metric, labels) => metrics.gauge(metric, all(labels)),
    histogram: (metric, labels) => metrics.histogram(metric, all(labels)),
  }
}

export const hasSameLabels = (a: Labels, b: Labels): boolean => {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => a[name] === b[name])
}

/** Of the text that formatMetrics() returns. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8'

/** The Prometheus text format 0.0.4. */
export const formatMetrics = (families: readonly MetricFamily[]): string => families.map(formatFamily).join('')

const formatFamily = ({ name, help, type, series }: MetricFamily): string =>
  `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${series
    .map(each => (type === 'histogram' ? formatHistogram(name, each) : formatSample(name, each.labels, each.values[0] ?? 0)))
    .join('')}`

const formatHistogram = (name: string, { labels, values }: Series): string => {
  let count = 0
  const buckets = [...bucketBoundsSeconds, Infinity].map((bound, i) => {
    count += values[i] ?? 0
    return formatSample(`${name}_bucket`, { ...labels, le: bound === Infinity ? '+Inf' : String(bound) }, count)
  })
  return `${buckets.join('')}${formatSample(`${name}_sum`, labels, values.at(-1) ?? 0)}${formatSample(`${name}_count`, labels, count)}`
}

const formatSample = (name: string, labels: Labels, value: number): string => {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`
}

const escapeLabel = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
