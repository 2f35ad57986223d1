import type { Labels } from '../../services/metrics.ts'
import { estimateQuantile } from '../../util/histogram.ts'

/** What `/metrics` returned at one moment. */
export interface Scrape {
  /** On a monotonic clock. */
  readonly atMs: number
  readonly samples: ReadonlyMap<string, readonly Sample[]>
}

interface Sample {
  readonly labels: Labels
  readonly value: number
}

const samplePattern = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const labelPattern = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** Reads the text format of Prometheus, as the gateway writes it. */
export const parseSamples = (text: string): Scrape['samples'] => {
  const samples = new Map<string, Sample[]>()
  for (const line of text.split('\n')) {
    const [, name, labelText = '', value] = samplePattern.exec(line) ?? []
    if (name === undefined) continue
    const labels = Object.fromEntries(
      Array.from(labelText.matchAll(labelPattern), ([, label = '', escaped = '']) => [label, unescapeText(escaped)]),
    )
    const series = samples.get(name)
    if (series === undefined) samples.set(name, [{ labels, value: Number(value) }])
    else series.push({ labels, value: Number(value) })
  }
  return samples
}

const unescapeText = (text: string): string => text.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char))

const matches = ({ labels }: Sample, wanted: Labels): boolean => Object.entries(wanted).every(([name, value]) => labels[name] === value)

/** The sum of the samples with these labels; undefined where there are none. */
export const valueIn = ({ samples }: Pick<Scrape, 'samples'>, name: string, labels: Labels = {}): number | undefined => {
  const found = (samples.get(name) ?? []).filter(sample => matches(sample, labels))
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
}

/** The values of one label, in order. */
export const labelValues = ({ samples }: Pick<Scrape, 'samples'>, name: string, label: string, labels: Labels = {}): readonly string[] => {
  const found = (samples.get(name) ?? []).filter(sample => matches(sample, labels)).flatMap(sample => sample.labels[label] ?? [])
  return [...new Set(found)].sort()
}

/** What has changed between two scrapes. */
export class Interval {
  readonly before: Scrape
  readonly now: Scrape

  constructor(before: Scrape, now: Scrape) {
    this.before = before
    this.now = now
  }

  /** The increase of a counter. After a restart it begins at 0 again. */
  increaseOf(name: string, labels: Labels = {}): number {
    const now = valueIn(this.now, name, labels) ?? 0
    const before = valueIn(this.before, name, labels) ?? 0
    return now >= before ? now - before : now
  }

  perSecond(name: string, labels: Labels = {}): number {
    const seconds = (this.now.atMs - this.before.atMs) / 1_000
    return seconds > 0 ? this.increaseOf(name, labels) / seconds : 0
  }

  /** A quantile of a histogram in ms, as histogram_quantile() of Prometheus estimates it; undefined without observations. */
  quantileMs(name: string, quantile: number, labels: Labels = {}): number | undefined {
    const bounds = labelValues(this.now, `${name}_bucket`, 'le', labels)
      .map(le => ({ le, bound: le === '+Inf' ? Infinity : Number(le) }))
      .sort((one, other) => one.bound - other.bound)
    const counts = bounds.map(({ le }) => this.increaseOf(`${name}_bucket`, { ...labels, le }))
    const seconds = estimateQuantile(
      bounds.map(({ bound }) => bound),
      counts,
      quantile,
    )
    return seconds === undefined ? undefined : 1_000 * seconds
  }
}
