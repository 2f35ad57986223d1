import type { Clock } from '../../services/clock.ts'
import { metricDefinitions } from '../../services/metric-definitions.ts'
import { bucketBoundsSeconds } from '../../services/metrics.ts'
import type { MetricFamily } from '../../services/metrics.ts'
import { estimateQuantile } from '../../util/histogram.ts'

/** How far back figures go, where there was a reading. */
const maxIntervalMs = 60_000
/** The least time between two readings that are kept or compared. */
const minIntervalMs = 5_000
/** Of a minute, and one from before it. */
const maxReadings = maxIntervalMs / minIntervalMs + 2

/** The values of series at one moment, by readingKey(). */
interface Reading {
  readonly atMs: number
  readonly values: ReadonlyMap<string, readonly number[]>
}

interface Durations {
  readonly count: number
  /** Null without observations. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
}

/** A network, or one of its upstreams. */
export interface SeriesOwner {
  readonly network: string
  readonly upstream?: string
}

type MetricName = Pick<MetricFamily, 'name'>

/** What has changed between two readings. */
export class TrafficInterval {
  readonly #before: Reading
  readonly #now: Reading

  constructor(before: Reading, now: Reading) {
    this.#before = before
    this.#now = now
  }

  get seconds(): number {
    return (this.#now.atMs - this.#before.atMs) / 1_000
  }

  /** The value of a gauge now. */
  valueOf({ name }: MetricName, owner: SeriesOwner): number | null {
    return this.#now.values.get(readingKey(name, owner))?.[0] ?? null
  }

  /** The increase of a counter. */
  increaseOf({ name }: MetricName, owner: SeriesOwner): number {
    return this.#increases(name, owner)[0] ?? 0
  }

  /** The observations of a histogram. */
  durationsOf({ name }: MetricName, owner: SeriesOwner): Durations {
    let count = 0
    const counts = this.#increases(name, owner)
      .slice(0, bucketBoundsSeconds.length + 1)
      .map(increase => (count += increase))
    const quantileMs = (quantile: number): number | null => {
      const seconds = estimateQuantile([...bucketBoundsSeconds, Infinity], counts, quantile)
      return seconds === undefined ? null : seconds * 1_000
    }
    return { count, p50Ms: quantileMs(0.5), p99Ms: quantileMs(0.99) }
  }

  /** Values that have gone down began at 0 again: a worker was replaced. */
  #increases(name: string, owner: SeriesOwner): readonly number[] {
    const key = readingKey(name, owner)
    const now = this.#now.values.get(key) ?? []
    const before = this.#before.values.get(key) ?? []
    return now.some((value, i) => value < (before[i] ?? 0)) ? now : now.map((value, i) => value - (before[i] ?? 0))
  }
}

const readingKey = (name: string, { network, upstream = '' }: SeriesOwner): string => `${name}\n${network}\n${upstream}`

/** Metrics whose series differ by network and upstream alone. */
const readMetrics: ReadonlySet<string> = new Set(
  [
    metricDefinitions.callDuration,
    metricDefinitions.callsInFlight,
    metricDefinitions.credits,
    metricDefinitions.upstreamRequestDuration,
    metricDefinitions.upstreamFailures,
  ].map(({ name }) => name),
)

/** The monotonic clock begins with the process. */
const processStart: Reading = { values: new Map(), atMs: 0 }

/** What networks and upstreams have done lately, from readings of the metrics that are taken when somebody asks. */
export class RecentTraffic {
  readonly #clock: Pick<Clock, 'monotonic'>
  #readings: readonly Reading[] = []

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** The last minute; the time since the last reading, or since the start of the gateway, where there was no reading in it. */
  read(families: readonly MetricFamily[]): TrafficInterval {
    const now: Reading = { values: readValues(families), atMs: this.#clock.monotonic() }
    const ageOf = ({ atMs }: Reading): number => now.atMs - atMs
    const past = this.#readings.filter(reading => ageOf(reading) >= minIntervalMs)
    const before = past.find(reading => ageOf(reading) <= maxIntervalMs) ?? past.at(-1) ?? processStart
    if (past.length === this.#readings.length) this.#readings = [...past, now].slice(-maxReadings)
    return new TrafficInterval(before, now)
  }
}

const readValues = (families: readonly MetricFamily[]): Reading['values'] => {
  const values = new Map<string, readonly number[]>()
  for (const { name, series } of families) {
    if (!readMetrics.has(name)) continue
    for (const { labels, values: current } of series) {
      const { network = '', upstream = '' } = labels
      // A copy: a registry changes the values in place.
      values.set(readingKey(name, { network, upstream }), [...current])
    }
  }
  return values
}
