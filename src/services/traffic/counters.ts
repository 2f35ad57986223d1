import { metricDefinitions as metrics } from '../metric-definitions.ts'
import type { MetricFamily, Series } from '../metrics.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { addVector } from '../../util/vectors.ts'

/** What one process has done since its start; plain data, so that workers can send it to the primary. */
export interface TrafficCounters {
  readonly networks: Readonly<Record<string, NetworkCounters>>
  readonly cpuSeconds: number
  /** Now. */
  readonly residentBytes: number
  readonly refusedSockets: number
  readonly storeErrors: number
}

export interface NetworkCounters {
  /** Calls by outcome. */
  readonly calls: Counts
  /** Of calls: the count of each bucket, not cumulative, then the sum. */
  readonly durations: readonly number[]
  readonly credits: number
  /** Look-ups in the cache by result. */
  readonly lookups: Counts
  readonly nodes: Readonly<Record<string, NodeCounters>>
}

export interface NodeCounters {
  /** Of attempts. */
  readonly durations: readonly number[]
  /** Failed ones, by error. */
  readonly failures: Counts
}

type Counts = Readonly<Record<string, number>>

interface MutableNetwork {
  readonly calls: Record<string, number>
  readonly durations: number[]
  credits: number
  readonly lookups: Record<string, number>
  readonly nodes: Record<string, { readonly durations: number[]; readonly failures: Record<string, number> }>
}

/** From the metrics of one process, or of several that were merged. */
export const countTraffic = (families: readonly MetricFamily[]): TrafficCounters => {
  const byName = new Map(families.map(family => [family.name, family.series]))
  const seriesOf = ({ name }: { readonly name: string }): readonly Series[] => byName.get(name) ?? []
  const sumOf = (metric: { readonly name: string }): number => seriesOf(metric).reduce((sum, { values }) => sum + (values[0] ?? 0), 0)
  const networks = new Map<string, MutableNetwork>()
  const networkOf = ({ labels }: Series): MutableNetwork => getOrCreate(networks, labels['network'] ?? '', newNetwork)
  const nodeOf = (series: Series) => {
    const { nodes } = networkOf(series)
    return (nodes[series.labels['upstream'] ?? ''] ??= newNode())
  }
  for (const series of seriesOf(metrics.calls)) addCount(networkOf(series).calls, series, 'outcome')
  for (const series of seriesOf(metrics.cacheLookups)) addCount(networkOf(series).lookups, series, 'result')
  for (const series of seriesOf(metrics.callDuration)) addVector(networkOf(series).durations, series.values)
  for (const series of seriesOf(metrics.credits)) networkOf(series).credits += series.values[0] ?? 0
  for (const series of seriesOf(metrics.upstreamRequestDuration)) addVector(nodeOf(series).durations, series.values)
  for (const series of seriesOf(metrics.upstreamFailures)) addCount(nodeOf(series).failures, series, 'error')
  return {
    networks: Object.fromEntries(networks),
    cpuSeconds: sumOf(metrics.processCpu),
    residentBytes: sumOf(metrics.processMemory),
    refusedSockets: sumOf(metrics.socketsRefused),
    storeErrors: sumOf(metrics.storeErrors),
  }
}

/** A node may have any name, such as `constructor`. */
const newRecord = <T>(): Record<string, T> => Object.create(null) as Record<string, T>

const newNetwork = (): MutableNetwork => ({
  calls: newRecord(),
  durations: [],
  credits: 0,
  lookups: newRecord(),
  nodes: newRecord(),
})

const newNode = () => ({ durations: [], failures: newRecord<number>() })

const addCount = (counts: Record<string, number>, { labels, values }: Series, label: string): void => {
  const name = labels[label] ?? ''
  counts[name] = (counts[name] ?? 0) + (values[0] ?? 0)
}

/** The counters of each process at one moment. */
export interface TrafficReading {
  /** On a monotonic clock. */
  readonly atMs: number
  /** By an id of the process, which no process after it has. */
  readonly processes: ReadonlyMap<string, TrafficCounters>
}

/** What all processes together have done between two readings. One that is new since has done all that it has; one that has ended is left out. */
export const trafficBetween = (before: TrafficReading, now: TrafficReading): TrafficCounters => {
  const networks = new Map<string, MutableNetwork>()
  const sum = { cpuSeconds: 0, residentBytes: 0, refusedSockets: 0, storeErrors: 0 }
  for (const [id, counters] of now.processes) {
    const earlier = before.processes.get(id)
    sum.cpuSeconds += increase(earlier?.cpuSeconds, counters.cpuSeconds)
    sum.refusedSockets += increase(earlier?.refusedSockets, counters.refusedSockets)
    sum.storeErrors += increase(earlier?.storeErrors, counters.storeErrors)
    sum.residentBytes += counters.residentBytes
    for (const [name, network] of Object.entries(counters.networks))
      addIncrease(getOrCreate(networks, name, newNetwork), earlier?.networks[name], network)
  }
  return { ...sum, networks: Object.fromEntries(networks) }
}

/** A counter that has gone down began at 0 again. */
const increase = (before = 0, now: number): number => (now >= before ? now - before : now)

const addIncrease = (sum: MutableNetwork, before: NetworkCounters | undefined, now: NetworkCounters): void => {
  sum.credits += increase(before?.credits, now.credits)
  addVector(sum.durations, increases(before?.durations, now.durations))
  for (const kind of ['calls', 'lookups'] as const) addIncreases(sum[kind], before?.[kind], now[kind])
  for (const [name, node] of Object.entries(now.nodes)) {
    const earlier = before?.nodes[name]
    const nodeSum = (sum.nodes[name] ??= newNode())
    addVector(nodeSum.durations, increases(earlier?.durations, node.durations))
    addIncreases(nodeSum.failures, earlier?.failures, node.failures)
  }
}

const addIncreases = (sum: Record<string, number>, before: Counts = {}, now: Counts): void => {
  for (const [name, count] of Object.entries(now)) sum[name] = (sum[name] ?? 0) + increase(before[name], count)
}

/** The buckets of a histogram begin anew together. */
const increases = (before: readonly number[] = [], now: readonly number[]): readonly number[] =>
  now.some((value, i) => value < (before[i] ?? 0)) ? now : now.map((value, i) => value - (before[i] ?? 0))
