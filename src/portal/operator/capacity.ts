import { availableParallelism, totalmem } from 'node:os'
import { constrainedMemory } from 'node:process'
import { metricDefinitions as metrics } from '../../services/metric-definitions.ts'
import { Gauges } from '../../services/traffic/gauges.ts'
import type { Activity } from '../../services/traffic/history.ts'
import { callFigures } from '../../services/traffic/figures.ts'
import { storeLimits } from '../../store/store.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import { count, listOf, numberOrNull, object, time, timeOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { startOf, undefinedWithoutStore } from './earlier-activity.ts'
import type { GatewayObservation } from './observe-gateway.ts'
import type { OperatorServices } from './operator-route.ts'

const resourceNames = [
  ...['callsPerSecond', 'cpu', 'memory', 'callerMemory', 'connections', 'openFiles'],
  ...['storeMemory', 'storeClients', 'storeDisk'],
] as const

export const capacitySchema = object({
  since: { ...time, description: 'The peaks are from then on: the last 24 hours, or since the start of this gateway.' },
  resources: {
    ...listOf(
      object({
        resource: { type: 'string', enum: resourceNames },
        used: { ...numberOrNull, description: 'Now: of calls and CPU, in the last minute.' },
        peak: {
          ...numberOrNull,
          description: 'Of 15 s of the last hour, or of 5 min of the day; null where only the last figure is known.',
        },
        peakAt: timeOrNull,
        limit: { ...numberOrNull, description: 'Null where it is not known, or there is none.' },
      }),
    ),
    description:
      'Calls a second: the limit is what all cores would carry if each call took the CPU that it took at the peak, and is higher where there were few. `cpu` in cores: as many as there are processes for calls, and no more than the machine has. `memory` (resident), `callerMemory` in bytes. `openFiles` of the process that has most of them. Of the store shares of 1, as the metric tollgate_store_used_ratio has them.',
  },
  growth: {
    ...object({
      days: { ...count, description: 'From so many whole days, up to yesterday: 28, 21 or 14; 0 where fewer are known.' },
      perWeek: {
        type: ['number', 'null'],
        description: 'By which share the calls of a day become more in a week, such as 0.03, or fewer; null where no trend is clear.',
      },
      reachedAt: {
        ...timeOrNull,
        description:
          'When the peak of calls reaches its limit, if they go on to grow so; null where that is in more than a year, or never.',
      },
    }),
    description: 'Of the calls of all gateways on the store.',
  },
})

export type CapacityJson = JsonOf<typeof capacitySchema>

export type Resource = CapacityJson['resources'][number]

interface MachineLimits {
  readonly cores: number
  readonly memoryBytes: number
}

/** Of the machine, or of the container. Without a limit, Node says 0, or more than there is. */
const readMachine = (): MachineLimits => ({
  cores: availableParallelism(),
  memoryBytes: Math.min(totalmem(), constrainedMemory() || Infinity),
})

/** Whole weeks: the days of a week differ. */
const [maxTrendDays, minTrendDays, daysPerWeek] = [28, 14, 7]

export const readCapacity = async ({ observer, history, queries, clock }: OperatorServices): Promise<CapacityJson> => {
  const now = clock.now()
  const today = Math.floor(now / dayMs)
  const [observed, kept, days] = await Promise.all([
    observer().then(each => each.observe()),
    history(),
    queries.trafficOverTime({ period: 'day', from: today - maxTrendDays, to: today }).catch(undefinedWithoutStore),
  ])
  const activities = await Promise.all([kept.activity('24h'), kept.activity('1h')])
  const dailyCalls = days?.map(({ calls }) => calls) ?? []
  return describeCapacity({ observed, activities, dailyCalls, machine: readMachine(), started: startOf(clock), now })
}

interface CapacitySource {
  readonly observed: Pick<GatewayObservation, 'seconds' | 'counters' | 'cpu' | 'health' | 'families'>
  readonly activities: readonly Pick<Activity, 'times' | 'isLastRunning' | 'calls' | 'gateway'>[]
  /** Of whole days, the last one is yesterday. */
  readonly dailyCalls: readonly number[]
  readonly machine: MachineLimits
  /** In ms since 1970. */
  readonly started: number
  readonly now: number
}

/** What is used of what there is, and when the calls reach it. */
export const describeCapacity = ({ observed, activities, dailyCalls, machine, started, now }: CapacitySource): CapacityJson => {
  const { seconds, counters, cpu, health, families } = observed
  const { workers, residentBytes } = health
  const callsPerSecond = seconds > 0 ? callFigures(Object.values(counters.networks)).calls / seconds : 0
  const intervals = [...activities.flatMap(intervalsOf), { time: now, callsPerSecond, cpu, memory: residentBytes }]
  const measured = (resource: 'callsPerSecond' | 'cpu' | 'memory', limit: number | null): Resource => {
    const peak = highest(intervals, resource)
    return {
      resource,
      used: intervals.at(-1)?.[resource] ?? null,
      peak: peak?.[resource] ?? null,
      peakAt: peak && isoTime(peak.time),
      limit,
    }
  }
  const current = (resource: Resource['resource'], used: number | null, limit: number | null): Resource => ({
    ...{ resource, used, peak: null, peakAt: null, limit },
  })
  const processes = workers.ready === null ? 1 : workers.ready + (workers.missing ?? 0)
  const cores = Math.min(machine.cores, Math.max(1, processes))
  const calls = measured('callsPerSecond', limitOfCalls(highest(intervals, 'callsPerSecond'), cores))
  return {
    since: isoTime(Math.max(started, now - dayMs)),
    resources: [
      calls,
      measured('cpu', cores),
      measured('memory', machine.memoryBytes),
      current('callerMemory', health.inFlightBytes, health.inFlightMaxBytes),
      current('connections', health.connections, health.maxConnections),
      current('openFiles', health.openFiles, health.maxFiles),
      ...storeResources(families).map(({ resource, share }) => current(resource, share, 1)),
    ],
    growth: describeGrowth(dailyCalls, calls, now),
  }
}

interface Interval {
  /** Its end. */
  readonly time: number
  readonly callsPerSecond: number | null
  readonly cpu: number | null
  readonly memory: number | null
}

/** Those that are over: of a second or two, a rate says little. */
const intervalsOf = ({ times, isLastRunning, calls, gateway }: CapacitySource['activities'][number]): readonly Interval[] =>
  times.slice(0, isLastRunning ? -1 : undefined).map((each, i) => ({
    time: each,
    callsPerSecond: calls.callsPerSecond[i] ?? null,
    cpu: gateway.cpu[i] ?? null,
    memory: gateway.residentBytes[i] ?? null,
  }))

const highest = (intervals: readonly Interval[], name: Exclude<keyof Interval, 'time'>): Interval | null =>
  intervals.reduce<Interval | null>((most, each) => ((each[name] ?? -1) > (most?.[name] ?? -1) ? each : most), null)

/** Some of the CPU is spent without calls: so it is no less than this. */
const limitOfCalls = (busiest: Interval | null, cores: number): number | null => {
  const { callsPerSecond, cpu } = busiest ?? { callsPerSecond: null, cpu: null }
  return callsPerSecond && cpu ? (cores * callsPerSecond) / cpu : null
}

const resourceOfLimit = { memory: 'storeMemory', clients: 'storeClients', disk: 'storeDisk' } as const

const storeResources = (families: GatewayObservation['families']) => {
  const series = new Gauges(families).seriesOf(metrics.storeUsedShare)
  return storeLimits.flatMap(limit => {
    const [share] = series.find(({ labels }) => labels['limit'] === limit)?.values ?? []
    return share === undefined ? [] : [{ resource: resourceOfLimit[limit], share }]
  })
}

const maxReachedMs = 365 * dayMs

const describeGrowth = (dailyCalls: readonly number[], { peak, limit }: Resource, now: number): CapacityJson['growth'] => {
  const first = dailyCalls.findIndex(calls => calls > 0)
  const known = first < 0 ? 0 : dailyCalls.length - first
  const days = known < minTrendDays ? 0 : daysPerWeek * Math.floor(known / daysPerWeek)
  const trend = days === 0 ? undefined : trendOf(dailyCalls.slice(-days))
  if (trend === undefined) return { days, perWeek: null, reachedAt: null }
  const { perDay } = trend
  const leftMs = peak && limit ? (Math.max(0, limit / peak - 1) / perDay) * dayMs : Infinity
  return { days, perWeek: daysPerWeek * perDay, reachedAt: perDay > 0 && leftMs <= maxReachedMs ? isoTime(now + leftMs) : null }
}

/** The slope of the line of least squares, as a share of what it has at its end. Undefined where it is within two standard errors of none. */
const trendOf = (values: readonly number[]): { readonly perDay: number } | undefined => {
  const [middle, mean] = [(values.length - 1) / 2, sum(values) / values.length]
  const spread = sum(values.map((_, i) => (i - middle) ** 2))
  const slope = sum(values.map((value, i) => (i - middle) * (value - mean))) / spread
  const residuals = sum(values.map((value, i) => (value - mean - slope * (i - middle)) ** 2))
  const error = Math.sqrt(residuals / (values.length - 2) / spread)
  const end = mean + slope * middle
  return end > 0 && Math.abs(slope) > 2 * error ? { perDay: slope / end } : undefined
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
