import { seriesKey } from '../../services/metrics.ts'
import type { MetricFamily, Series } from '../../services/metrics.ts'
import { getOrCreate } from '../../util/memoize.ts'

const typePattern = /^# TYPE (\S+) (\S+)$/
const samplePattern = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const labelPattern = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** Reads the text format of Prometheus, as formatMetrics() writes it. */
export const parseMetrics = (text: string): readonly MetricFamily[] => {
  const families: (Omit<MetricFamily, 'series'> & { readonly series: Map<string, Series> })[] = []
  for (const line of text.split('\n')) {
    const [, name, type] = typePattern.exec(line) ?? []
    if (name !== undefined)
      families.push({ name, help: '', type: type === 'histogram' ? type : 'gauge', aggregation: 'sum', series: new Map() })
    const family = families.at(-1)
    const [, sampleName, labelText = '', value] = samplePattern.exec(line) ?? []
    if (family === undefined || sampleName === undefined) continue
    const { le: _, ...labels } = parseLabels(labelText)
    const { values } = getOrCreate(family.series, seriesKey(labels), () => ({ labels, values: [] }))
    addSample(values, sampleName.slice(family.name.length), Number(value))
  }
  return families.map(family => ({ ...family, series: [...family.series.values()] }))
}

/** Buckets are cumulative in the text. The count of a histogram is that of its last bucket. */
const addSample = (values: number[], suffix: string, value: number): void => {
  if (suffix === '_count') return
  values.push(suffix === '_bucket' ? value - values.reduce((sum, count) => sum + count, 0) : value)
}

const parseLabels = (text: string): Record<string, string> =>
  Object.fromEntries(Array.from(text.matchAll(labelPattern), ([, label = '', escaped = '']) => [label, unescapeText(escaped)]))

const unescapeText = (text: string): string => text.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char))
