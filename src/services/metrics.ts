import { getOrCreate } from '../util/memoize.ts'

type MetricType = 'counter' | 'gauge' | 'histogram'

/** How the values of a gauge in several workers become one. */
export type Aggregation = 'max' | 'min' | 'sum'

/** One metric, by the conventions of Prometheus: base units, counters that end in `_total`. */
export interface MetricDefinition<Label extends string = string> {
  readonly name: string
  readonly help: string
  /** Labels with few values: never a key, an account or free text. */
  readonly labels: readonly Label[]
  /** For gauges; `max` unless given. */
  readonly aggregation?: Aggregation
}

/** A metric that says of which type it is, for tables of metrics. The compiler refuses to open it as another. */
export interface TypedMetric extends MetricDefinition {
  readonly type: MetricType
}

/** As the methods of Metrics take it, which say the type themselves. */
type MetricOf<Type extends MetricType, Label extends string> = MetricDefinition<Label> & { readonly type?: Type }

export type Labels = Readonly<Record<string, string>>

type LabelValues<Label extends string> = Readonly<Record<Label, string>>

/**
 * Opens the series of a metric with these labels; the labels `Given` are already set. Open a series once, at load, and
 * keep it: a call then costs one addition.
 */
export interface Metrics<Given extends string = never> {
  counter<Label extends string>(metric: MetricOf<'counter', Label>, labels: LabelValues<Exclude<Label, Given>>): Counter
  gauge<Label extends string>(metric: MetricOf<'gauge', Label>, labels: LabelValues<Exclude<Label, Given>>): Gauge
  /** For durations, in seconds. */
  histogram<Label extends string>(metric: MetricOf<'histogram', Label>, labels: LabelValues<Exclude<Label, Given>>): Histogram
  /** Calls `measure` before metrics are read, to set gauges that change all the time. Returns how to stop. */
  collect(measure: () => void): () => void
  /** Removes the series that have these labels, of all metrics or of these: what they are about is no longer configured. */
  removeSeries(labels: Labels, metrics?: readonly MetricDefinition[]): void
  /**
   * The series of these metrics that have these labels are kept until all who hold the same have called the returned function; then they are
   * removed. So what one owner of a name has recorded stays while another takes over from it.
   */
  holdSeries(labels: Labels, metrics: readonly MetricDefinition[]): () => void
}

/** A series that only grows. */
export interface Counter {
  add(by?: number): void
}

/** A series that rises and falls. */
export interface Gauge {
  set(value: number): void
  add(by: number): void
}

/** A series of durations, counted by buckets. */
export interface Histogram {
  /** `requestId` names the request as an example of its bucket (OpenMetrics exemplar). */
  observe(seconds: number, requestId?: string): void
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
  /** For each bucket of a histogram the latest request in it. */
  readonly exemplars?: { readonly requestIds: (string | null)[]; readonly seconds: number[] }
}

/** A metric that gets series: by seriesKey(), as a gateway of 200 networks has 50,000 of one metric. */
export interface MutableFamily extends Omit<MetricFamily, 'series'> {
  readonly series: Map<string, Series>
}

/** The same for the same labels, in whatever order. */
export const seriesKey = (labels: Labels): string => {
  let key = ''
  for (const name of Object.keys(labels).sort()) key += `${name}\0${labels[name]}\0`
  return key
}

/** As they are read. */
export const toFamilies = (families: ReadonlyMap<string, MutableFamily>): readonly MetricFamily[] =>
  Array.from(families.values(), family => ({ ...family, series: [...family.series.values()] }))

/** Metrics that can be read. */
export interface MetricsRegistry extends Metrics {
  families(): readonly MetricFamily[]
  /** Without what collect() measures: nobody else's reading of it begins anew. */
  unmeasuredFamilies(): readonly MetricFamily[]
}

/** Upper bounds in seconds; one more bucket takes the rest. */
export const bucketBoundsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Without prom-client, which takes 1 us a call to find a series again, and 80 ms to load. */
export const createMetricsRegistry = (): MetricsRegistry => {
  const families = new Map<string, MutableFamily>()
  const measures = new Set<() => void>()
  /** Keys of the series of a network by metric, also of some that are removed: to remove a network looks at no other's series. */
  const keysByNetwork = new Map<string, Map<string, string[]>>()
  const seriesOf = (type: MetricType, { name, help, aggregation }: MetricDefinition, labels: Labels): Series => {
    const family = getOrCreate(families, name, () => ({
      name,
      type,
      help,
      aggregation: aggregation ?? defaultAggregation[type],
      series: new Map<string, Series>(),
    }))
    const key = seriesKey(labels)
    const newSeries = (): Series => {
      if (labels['network'] !== undefined) getOrCreate(getOrCreate(keysByNetwork, labels['network'], newKeys), name, newList).push(key)
      return type === 'histogram' ? newHistogramSeries(labels) : { labels, values: [0] }
    }
    return getOrCreate(family.series, key, newSeries)
  }
  /** How many hold the same series. */
  const holders = new Map<string, number>()
  const removeSeries: Metrics['removeSeries'] = (labels, metrics) => {
    const removed = metrics && new Set(metrics.map(({ name }) => name))
    const { network } = labels
    const ofNetwork = network === undefined ? undefined : keysByNetwork.get(network)
    const names = network === undefined ? families.keys() : (ofNetwork?.keys() ?? [])
    for (const name of [...names]) {
      const series = families.get(name)?.series
      if (series === undefined || removed?.has(name) === false) continue
      const kept: string[] = []
      for (const key of ofNetwork?.get(name) ?? [...series.keys()]) {
        const each = series.get(key)
        if (each === undefined) continue
        if (hasLabels(each.labels, labels)) series.delete(key)
        else kept.push(key)
      }
      ofNetwork?.set(name, kept)
      if (kept.length === 0) ofNetwork?.delete(name)
      if (series.size === 0) families.delete(name)
    }
    if (network !== undefined && ofNetwork?.size === 0) keysByNetwork.delete(network)
  }
  return {
    families() {
      for (const measure of measures) measure()
      return toFamilies(families)
    },
    unmeasuredFamilies: () => toFamilies(families),
    collect(measure) {
      measures.add(measure)
      return () => void measures.delete(measure)
    },
    removeSeries,
    holdSeries(labels, metrics) {
      const key = `${seriesKey(labels)}${metrics.map(({ name }) => name).join()}`
      holders.set(key, (holders.get(key) ?? 0) + 1)
      return () => {
        const rest = (holders.get(key) ?? 0) - 1
        if (rest > 0) return void holders.set(key, rest)
        holders.delete(key)
        removeSeries(labels, metrics)
      }
    },
    counter: (metric, labels) => counterOf(seriesOf('counter', metric, labels)),
    gauge: (metric, labels) => gaugeOf(seriesOf('gauge', metric, labels)),
    histogram: (metric, labels) => histogramOf(seriesOf('histogram', metric, labels)),
  }
}

const newKeys = () => new Map<string, string[]>()
const newList = (): string[] => []

const counterOf = ({ values }: Series): Counter => ({
  add(by = 1) {
    values[0]! += by
  },
})

const gaugeOf = ({ values }: Series): Gauge => ({
  set(value) {
    values[0] = value
  },
  add(by) {
    values[0]! += by
  },
})

const histogramOf = ({ values, exemplars }: Series): Histogram => ({
  observe(seconds, requestId) {
    let bucket = 0
    while (bucket < bucketBoundsSeconds.length && seconds > bucketBoundsSeconds[bucket]!) bucket++
    values[bucket]! += 1
    values[bucketBoundsSeconds.length + 1]! += seconds
    if (requestId === undefined || exemplars === undefined) return
    exemplars.requestIds[bucket] = requestId
    exemplars.seconds[bucket] = seconds
  },
})

const newHistogramSeries = (labels: Labels): Series => {
  const bucketCount = bucketBoundsSeconds.length + 1
  const exemplars = { requestIds: Array<string | null>(bucketCount).fill(null), seconds: Array<number>(bucketCount).fill(0) }
  return { labels, values: Array<number>(bucketCount + 1).fill(0), exemplars }
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
    collect: measure => metrics.collect(measure),
    removeSeries: (labels, ofMetrics) => metrics.removeSeries(all(labels), ofMetrics),
    holdSeries: (labels, ofMetrics) => metrics.holdSeries(all(labels), ofMetrics),
  }
}

export const hasLabels = (all: Labels, some: Labels): boolean => Object.keys(some).every(name => all[name] === some[name])

/** A format of metrics, by its media type. */
export const metricsFormats = {
  'text/plain; version=0.0.4': 'prometheus',
  'application/openmetrics-text; version=1.0.0': 'openmetrics',
} as const

type MetricsFormat = (typeof metricsFormats)[keyof typeof metricsFormats]

/** The text format 0.0.4 of Prometheus, or OpenMetrics 1.0, which has exemplars: the ids of requests. */
export const formatMetrics = (families: readonly MetricFamily[], format: MetricsFormat = 'prometheus'): string => {
  const text = families.map(family => formatFamily(family, format)).join('')
  return format === 'openmetrics' ? `${text}# EOF\n` : text
}

const formatFamily = ({ name, help, type, series }: MetricFamily, format: MetricsFormat): string => {
  const isOpen = format === 'openmetrics'
  // OpenMetrics names a counter without the suffix of its samples.
  const family = isOpen && type === 'counter' ? name.replace(/_total$/, '') : name
  const text = isOpen ? escapeText(help) : help
  const samples = series.map(each => (type === 'histogram' ? formatHistogram(name, each, isOpen) : formatValue(name, each)))
  return `# HELP ${family} ${text}\n# TYPE ${family} ${type}\n${samples.join('')}`
}

const formatValue = (name: string, { labels, values }: Series): string => formatSample(name, labels, values[0] ?? 0)

const formatHistogram = (name: string, { labels, values, exemplars }: Series, isOpen: boolean): string => {
  let count = 0
  let text = ''
  for (const [i, bound] of [...bucketBoundsSeconds, Infinity].entries()) {
    count += values[i] ?? 0
    const exemplar = isOpen && exemplars ? formatExemplar(exemplars.requestIds[i], exemplars.seconds[i]) : ''
    text += formatSample(`${name}_bucket`, { ...labels, le: formatBound(bound, isOpen) }, count, exemplar)
  }
  return `${text}${formatSample(`${name}_sum`, labels, values.at(-1) ?? 0)}${formatSample(`${name}_count`, labels, count)}`
}

/** OpenMetrics writes a whole number as 1.0. */
const formatBound = (bound: number, isOpen: boolean): string =>
  bound === Infinity ? '+Inf' : isOpen && Number.isInteger(bound) ? `${bound}.0` : String(bound)

const exemplarLabel = 'request_id'
/** Characters of the labels of an exemplar, by OpenMetrics. A longer id is left out. */
const maxExemplarChars = 128

const formatExemplar = (requestId: string | null | undefined, seconds: number | undefined): string =>
  typeof requestId === 'string' && exemplarLabel.length + requestId.length <= maxExemplarChars
    ? ` # {${exemplarLabel}="${requestId}"} ${seconds}`
    : ''

const formatSample = (name: string, labels: Labels, value: number, exemplar = ''): string => {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeText(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}${exemplar}\n`
}

const escapeText = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
