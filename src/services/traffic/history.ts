import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import { trafficBetween } from './counters.ts'
import type { NetworkCounters, NodeCounters, TrafficCounters, TrafficReading } from './counters.ts'
import { callFigures, failedOutcomes, nodeFigures } from './figures.ts'
import type { ProcessTraffic } from './process-traffic.ts'

/** Ranges that are kept in memory: one reading in so many gives a point, and so many points are kept. */
const resolutions = {
  '1h': { readingsPerPoint: 1, maxPoints: 240 },
  '24h': { readingsPerPoint: 20, maxPoints: 288 },
} as const

export type HistoryRange = keyof typeof resolutions

export const historyRanges = Object.keys(resolutions) as readonly HistoryRange[]

/** Of the last minute, and one from before it. */
const maxReadings = 5

/** Rates of less time say little. */
const minRunningSeconds = 1

/** Figures by time, of one network, node or gateway; null where nothing has happened. */
type TimeSeries<Figure extends string> = { readonly [Name in Figure]: readonly (number | null)[] }

type CallSeries = TimeSeries<'callsPerSecond' | 'failedPerSecond' | 'creditsPerSecond' | 'cacheHits' | 'p50Ms' | 'p95Ms'>
type NodeSeries = TimeSeries<'requestsPerSecond' | 'failuresPerSecond' | 'p50Ms' | 'p95Ms'>
type ErrorSeries = TimeSeries<'failuresPerSecond'>
type GatewaySeries = TimeSeries<'cpu' | 'residentBytes'>

/** What the gateway has done over time. */
export interface Activity {
  /** The ends of the intervals, in ms since 1970. */
  readonly times: readonly number[]
  readonly isLastRunning: boolean
  /** Of one network, or of all together. */
  readonly calls: CallSeries
  /** Of one network. */
  readonly nodes: readonly (NodeSeries & {
    readonly name: string
    /** Of failures: by what attempts have failed with. */
    readonly errors: readonly (ErrorSeries & { readonly error: string })[]
  })[]
  readonly gateway: GatewaySeries
}

/** At one node, in one range. */
interface NodeAttempts {
  readonly network: string
  readonly node: string
  readonly requests: number
  /** Failed ones, by error. */
  readonly failures: Readonly<Record<string, number>>
}

interface TrafficOfInterval {
  readonly seconds: number
  readonly counters: TrafficCounters
}

/** Of one network, since somebody has noticed that it has no usable node; with the calls since the reading before, if all of those failed too. */
export interface OutageTraffic {
  /** From when on calls are counted, in ms since 1970. */
  readonly since: number
  readonly counters: NetworkCounters | undefined
}

/** What has happened in the last minute, or since the start. */
interface RecentTraffic extends TrafficOfInterval {
  /** By the name of the network. */
  readonly outages: ReadonlyMap<string, OutageTraffic>
}

interface HistoryOptions {
  readonly clock: Clock
  /** The counters of each process, as of now. */
  read(): Promise<readonly ProcessTraffic[]>
}

const between = (before: TrafficReading, now: TrafficReading): TrafficOfInterval => ({
  seconds: (now.atMs - before.atMs) / 1_000,
  counters: trafficBetween(before, now),
})

/** There may be none. */
const haveAllFailed = (network: NetworkCounters | undefined): boolean =>
  Object.entries(network?.calls ?? {}).every(([outcome, count]) => count === 0 || failedOutcomes.has(outcome))

/** The monotonic clock begins with the process. */
const processStart: TrafficReading = { atMs: 0, processes: new Map() }

/**
 * The traffic of the last hour and day, in the memory of the process that serves operators. A network with three nodes takes 40 kB; 10 of them cost
 * 1 ms of CPU every 15 s.
 */
export class TrafficHistory {
  readonly intervalMs = 15_000
  readonly #options: HistoryOptions
  readonly #timelines = {
    '1h': new Timeline(resolutions['1h'].maxPoints),
    '24h': new Timeline(resolutions['24h'].maxPoints),
  } as const satisfies Readonly<Record<HistoryRange, Timeline>>
  /** What each process has answered last. */
  readonly #known = new Map<string, { readonly counters: TrafficCounters; readonly isKept: boolean }>()
  /** The first reading in each outage. */
  readonly #outages = new Map<string, { readonly since: number; readonly reading: TrafficReading }>()
  /** The networks whose outages are followed: others may be while the counters for an earlier change are read. */
  #followed: ReadonlySet<string> = new Set()
  #readings: readonly TrafficReading[] = [processStart]
  #readingCount = 0

  constructor(options: HistoryOptions) {
    this.#options = options
  }

  /** Adds a point to each range that is due. */
  async record(): Promise<void> {
    this.#forgetEnded()
    const now = await this.#read()
    this.#readings = [...this.#readings, now].slice(-maxReadings)
    this.#readingCount += 1
    for (const range of historyRanges) {
      if (this.#readingCount % resolutions[range].readingsPerPoint === 0) this.#timelines[range].add(now, this.#options.clock.now())
    }
  }

  /** Calls of these networks are counted from now on, if they are not yet, and those of others no more. */
  async followOutages(networks: readonly string[]): Promise<void> {
    this.#followed = new Set(networks)
    for (const name of this.#outages.keys()) if (!this.#followed.has(name)) this.#outages.delete(name)
    if (networks.every(name => this.#outages.has(name))) return
    const [before = processStart] = this.#readings.slice(-1)
    const now = await this.#read()
    const since = this.#options.clock.now()
    const { networks: inBetween } = trafficBetween(before, now)
    for (const name of networks) {
      if (!this.#followed.has(name) || this.#outages.has(name)) continue
      this.#outages.set(name, { since, reading: haveAllFailed(inBetween[name]) ? before : now })
    }
  }

  async recent(): Promise<RecentTraffic> {
    const now = await this.#read()
    const [before = processStart] = this.#readings
    const countFrom = (name: string, { since, reading }: { readonly since: number; readonly reading: TrafficReading }) =>
      [name, { since, counters: trafficBetween(reading, now).networks[name] }] as const
    return { ...between(before, now), outages: new Map(Array.from(this.#outages, ([name, outage]) => countFrom(name, outage))) }
  }

  async activity(range: HistoryRange, network?: string): Promise<Activity> {
    return this.#timelines[range].read(await this.#read(), this.#options.clock.now(), network)
  }

  /** From `since` on, in ms since 1970: the beginning of the range, or the start. */
  async attempts(range: HistoryRange): Promise<{ readonly since: number; readonly nodes: readonly NodeAttempts[] }> {
    return this.#timelines[range].attempts(await this.#read(), this.#options.clock.now())
  }

  async #read(): Promise<TrafficReading> {
    for (const { id, counters } of await this.#options.read()) this.#known.set(id, { counters, isKept: true })
    return { atMs: this.#options.clock.monotonic(), processes: new Map(Array.from(this.#known, ([id, { counters }]) => [id, counters])) }
  }

  /** A worker that did not answer in time has done nothing in the meantime, rather than all since its start the next time; twice, and it has ended. */
  #forgetEnded(): void {
    for (const [id, { counters, isKept }] of this.#known) {
      if (isKept) this.#known.set(id, { counters, isKept: false })
      else this.#known.delete(id)
    }
  }
}

const callNames = [
  'callsPerSecond',
  'failedPerSecond',
  'creditsPerSecond',
  'cacheHits',
  'p50Ms',
  'p95Ms',
] as const satisfies readonly (keyof CallSeries)[]
const nodeNames = ['requestsPerSecond', 'failuresPerSecond', 'p50Ms', 'p95Ms'] as const satisfies readonly (keyof NodeSeries)[]
const errorNames = ['failuresPerSecond'] as const satisfies readonly (keyof ErrorSeries)[]
const gatewayNames = ['cpu', 'residentBytes'] as const satisfies readonly (keyof GatewaySeries)[]

type Point<Name extends string> = { readonly [N in Name]: number | undefined }

interface NodeTimeline {
  readonly series: PointSeries<keyof NodeSeries>
  readonly errors: Map<string, PointSeries<keyof ErrorSeries>>
}

/** One resolution. Of what is no longer configured, nothing is kept. */
class Timeline {
  readonly #maxPoints: number
  readonly #times: number[] = []
  /** How long the interval of each point is. */
  readonly #seconds: number[] = []
  readonly #total: PointSeries<keyof CallSeries>
  readonly #gateway: PointSeries<keyof GatewaySeries>
  #networks = new Map<string, { readonly calls: PointSeries<keyof CallSeries>; nodes: Map<string, NodeTimeline> }>()
  #before: TrafficReading = processStart

  constructor(maxPoints: number) {
    this.#maxPoints = maxPoints
    this.#total = new PointSeries(callNames, maxPoints)
    this.#gateway = new PointSeries(gatewayNames, maxPoints)
  }

  add(now: TrafficReading, timeMs: number): void {
    const seconds = (now.atMs - this.#before.atMs) / 1_000
    if (seconds <= 0) return
    const { total, gateway, networks } = this.#pointsUpTo(now, seconds)
    this.#before = now
    for (const [list, value] of [
      [this.#times, timeMs],
      [this.#seconds, seconds],
    ] as const) {
      list.push(value)
      if (list.length > this.#maxPoints) list.shift()
    }
    this.#total.add(total)
    this.#gateway.add(gateway)
    const known = this.#networks
    this.#networks = new Map(
      Array.from(networks, ([name, { calls: point, nodes: points }]) => {
        const { calls = new PointSeries(callNames, this.#maxPoints), nodes = new Map<string, NodeTimeline>() } = known.get(name) ?? {}
        calls.add(point)
        const nodeEntries = Array.from(points, ([node, { figures, failures }]) => {
          const { series = new PointSeries(nodeNames, this.#maxPoints), errors = new Map<string, PointSeries<keyof ErrorSeries>>() } =
            nodes.get(node) ?? {}
          series.add(figures)
          for (const error of keysOf(errors, failures)) {
            const each = getOrCreate(errors, error, () => new PointSeries(errorNames, this.#maxPoints))
            each.add({ failuresPerSecond: failures.get(error) ?? 0 })
            if (each.isZero) errors.delete(error)
          }
          return [node, { series, errors }] as const
        })
        return [name, { calls, nodes: new Map(nodeEntries) }]
      }),
    )
  }

  /** Since the last point, as one more. */
  #pointsUpTo(now: TrafficReading, seconds: number) {
    const { networks, cpuSeconds, residentBytes } = trafficBetween(this.#before, now)
    const callPoint = (of: Parameters<typeof callFigures>[0]): Point<keyof CallSeries> => {
      const { calls, failedCalls, credits, cacheHits, p50Ms, p95Ms } = callFigures(of)
      return {
        callsPerSecond: calls / seconds,
        failedPerSecond: failedCalls / seconds,
        creditsPerSecond: credits / seconds,
        cacheHits,
        p50Ms,
        p95Ms,
      }
    }
    const nodePoint = (counters: NodeCounters) => {
      const { requests, failures, p50Ms, p95Ms } = nodeFigures(counters)
      return {
        figures: { requestsPerSecond: requests / seconds, failuresPerSecond: failures / seconds, p50Ms, p95Ms },
        /** Per second, by error. */
        failures: new Map(Object.entries(counters.failures).map(([error, count]) => [error, count / seconds])),
      }
    }
    return {
      total: callPoint(Object.values(networks)),
      gateway: { cpu: cpuSeconds / seconds, residentBytes },
      networks: new Map(
        Object.entries(networks).map(([name, counters]) => {
          const nodes = new Map(Object.entries(counters.nodes).map(([node, each]) => [node, nodePoint(each)] as const))
          return [name, { calls: callPoint([counters]), nodes }] as const
        }),
      ),
    }
  }

  read(now: TrafficReading, timeMs: number, network = ''): Activity {
    const seconds = (now.atMs - this.#before.atMs) / 1_000
    const count = this.#times.length
    const running = seconds < minRunningSeconds && count > 0 ? undefined : this.#pointsUpTo(now, seconds)
    const known = this.#networks.get(network)
    const found = running?.networks.get(network)
    const read = <Name extends string>(names: readonly Name[], series: PointSeries<Name> | undefined, last: Point<Name> | undefined) =>
      (series ?? new PointSeries(names, this.#maxPoints)).read(count, running && (last ?? {}))
    return {
      times: running === undefined ? [...this.#times] : [...this.#times, timeMs],
      isLastRunning: running !== undefined,
      calls: network === '' ? read(callNames, this.#total, running?.total) : read(callNames, known?.calls, found?.calls),
      nodes: keysOf(known?.nodes, found?.nodes).map(name => {
        const { series, errors } = known?.nodes.get(name) ?? {}
        const point = found?.nodes.get(name)
        return {
          name,
          ...read(nodeNames, series, point?.figures),
          errors: keysOf(errors, point?.failures).map(error => ({
            error,
            ...read(errorNames, errors?.get(error), { failuresPerSecond: point?.failures.get(error) ?? 0 }),
          })),
        }
      }),
      gateway: read(gatewayNames, this.#gateway, running?.gateway),
    }
  }

  /** Those of its points, and since the last one. */
  attempts(now: TrafficReading, timeMs: number): { readonly since: number; readonly nodes: readonly NodeAttempts[] } {
    const ofNode = (network: string, node: string, counters: NodeCounters): NodeAttempts => {
      const known = this.#networks.get(network)?.nodes.get(node)
      const errors = [...new Set([...(known?.errors.keys() ?? []), ...Object.keys(counters.failures)])]
      const failuresOf = (error: string): number =>
        (known?.errors.get(error)?.total('failuresPerSecond', this.#seconds) ?? 0) + (counters.failures[error] ?? 0)
      return {
        network,
        node,
        requests: (known?.series.total('requestsPerSecond', this.#seconds) ?? 0) + nodeFigures(counters).requests,
        failures: Object.fromEntries(errors.map(error => [error, failuresOf(error)])),
      }
    }
    const { networks } = trafficBetween(this.#before, now)
    const [first = timeMs - (now.atMs - this.#before.atMs)] = this.#times
    return {
      since: first - 1_000 * (this.#seconds[0] ?? 0),
      nodes: Object.entries(networks).flatMap(([network, { nodes }]) =>
        Object.entries(nodes).map(([node, counters]) => ofNode(network, node, counters)),
      ),
    }
  }
}

const keysOf = (...maps: readonly (ReadonlyMap<string, unknown> | undefined)[]): readonly string[] => [
  ...new Set(maps.flatMap(each => [...(each?.keys() ?? [])])),
]

/** The newest points come last. Half the memory of doubles, which figures for people do not need. */
class PointSeries<Name extends string> {
  readonly #names: readonly Name[]
  readonly #maxPoints: number
  readonly #values: ReadonlyMap<Name, Float32Array>

  constructor(names: readonly Name[], maxPoints: number) {
    this.#names = names
    this.#maxPoints = maxPoints
    this.#values = new Map(names.map(name => [name, new Float32Array(maxPoints).fill(NaN)]))
  }

  add(point: Point<Name>): void {
    for (const [name, values] of this.#values) {
      values.copyWithin(0, 1)
      values[values.length - 1] = point[name] ?? NaN
    }
  }

  /** What happened in all intervals, of which these are the lengths in seconds. */
  total(name: Name, seconds: readonly number[]): number {
    const values = this.#values.get(name) ?? new Float32Array()
    const first = values.length - seconds.length
    return Math.round(seconds.reduce((sum, each, i) => sum + each * (values[first + i] || 0), 0)) // NaN is 0
  }

  get isZero(): boolean {
    return [...this.#values.values()].every(values => values.every(value => !(value > 0)))
  }

  /** The last ones, and one more that is not kept, if any. */
  read(count: number, last?: Partial<Point<Name>>): TimeSeries<Name> {
    const valuesOf = (name: Name): readonly number[] => [
      ...(this.#values.get(name)?.slice(this.#maxPoints - count) ?? []),
      ...(last === undefined ? [] : [last[name] ?? NaN]),
    ]
    const entries = this.#names.map(name => [name, valuesOf(name).map(roundFigure)] as const)
    return Object.fromEntries(entries) as unknown as TimeSeries<Name> // each name has its values
  }
}

/** Digits that nobody reads would be half of the response. */
export const roundFigure = (value: number | null): number | null =>
  value === null || Number.isNaN(value) ? null : Number(value.toPrecision(4))
