/** Few values each: never a key, an account or free text. */
export type Labels = Readonly<Record<string, string>>

/**
 * Prometheus metrics. Names start with `tollgate_`, in base units. Ask for the instrument of one set of labels once,
 * at load, and keep it: what it costs per call is then one addition.
 */
export interface Metrics {
  counter(name: string, help: string, labels?: Labels): { add(by?: number): void }
  /** `over` says what becomes of it where several workers have it: the greatest value unless given. */
  gauge(name: string, help: string, labels?: Labels, aggregation?: Aggregation): { set(value: number): void }
  /** Of durations, in seconds. */
  histogram(name: string, help: string, labels?: Labels): { observe(seconds: number): void }
}

/** What the values of several processes are as one. */
export type Aggregation = 'greatest' | 'least' | 'sum'

/** All values of one metric; plain data, so that processes can hand it on. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly aggregation: Aggregation
  readonly series: readonly Series[]
}

interface Series {
  readonly labels: Labels
  /** One number; for a histogram the count of each bucket, not cumulative, then the sum. */
  readonly values: number[]
}

/** Metrics that can be read. */
export interface MetricsRegistry extends Metrics {
  families(): readonly MetricFamily[]
}

/** Upper bounds in seconds; one more bucket takes the rest. */
const bucketBoundsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Kept by hand: prom-client takes 1 microsecond a call to find its values again, and 80 ms to load. */
export const createMetricsRegistry = (): MetricsRegistry => {
  const families = new Map<string, MetricFamily & { readonly series: Series[] }>()
  const valuesOf = (metric: Omit<MetricFamily, 'series'>, labels: Labels): number[] => {
    const { name, type } = metric
    const family = families.get(name) ?? { ...metric, series: [] }
    families.set(name, family)
    const existing = family.series.find(series => hasSameLabels(series.labels, labels))
    if (existing !== undefined) return existing.values
    const values = Array<number>(type === 'histogram' ? bucketBoundsSeconds.length + 2 : 1).fill(0)
    family.series.push({ labels, values })
    return values
  }
  return {
    families: () => [...families.values()],
    counter(name, help, labels = {}) {
      const values = valuesOf({ name, help, type: 'counter', aggregation: 'sum' }, labels)
      return {
        add(by = 1) {
          values[0]! += by
        },
      }
    },
    gauge(name, help, labels = {}, aggregation = 'greatest') {
      const values = valuesOf({ name, help, type: 'gauge', aggregation }, labels)
      return {
        set(value) {
          values[0] = value
        },
      }
    },
    histogram(name, help, labels = {}) {
      const values = valuesOf({ name, help, type: 'histogram', aggregation: 'sum' }, labels)
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

/** The same metrics, with these labels on each. */
export const withLabels = (metrics: Metrics, fixedLabels: Labels): Metrics => ({
  counter: (name, help, labels) => metrics.counter(name, help, { ...fixedLabels, ...labels }),
  gauge: (name, help, labels, aggregation) => metrics.gauge(name, help, { ...fixedLabels, ...labels }, aggregation),
  histogram: (name, help, labels) => metrics.histogram(name, help, { ...fixedLabels, ...labels }),
})

/** The metrics of several processes as those of one: counts are added up, gauges as each of them says. */
export const mergeMetrics = (processes: readonly (readonly MetricFamily[])[]): readonly MetricFamily[] => {
  const all = new Map<string, MetricFamily & { readonly series: Series[] }>()
  for (const family of processes.flat()) {
    const merged = all.get(family.name) ?? { ...family, series: [] }
    all.set(family.name, merged)
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
  greatest: Math.max,
  least: Math.min,
  sum: (one, other) => one + other,
}

const hasSameLabels = (a: Labels, b: Labels): boolean => {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => a[name] === b[name])
}

/** The media type of the text. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8'

/** What a Prometheus server reads (text format 0.0.4). */
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
