import { bucketBoundsSeconds } from './metrics.ts'
import type { Labels, MetricFamily, Series } from './metrics.ts'

/** A format of metrics, by its media type. */
export const metricsFormats = {
  'text/plain; version=0.0.4': 'prometheus',
  'application/openmetrics-text; version=1.0.0': 'openmetrics',
} as const

export type MetricsFormat = (typeof metricsFormats)[keyof typeof metricsFormats]

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
