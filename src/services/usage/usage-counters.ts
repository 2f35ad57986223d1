import type { UsageCount, UsageGroup } from '../../store/usage-store.ts'
import { fiveMinutesPerHour, successOutcome, usagePeriodsMs } from '../../store/usage-store.ts'
import { latencyBucketOf } from '../../util/latency-buckets.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { addVector } from '../../util/vectors.ts'
import type { Clock } from '../clock.ts'
import { hoursPerDay } from '../../util/dates.ts'

/** A call that is added to the counts of its group. */
export interface CountedCall extends UsageGroup {
  /** The day that was charged, in days since 1970, UTC; undefined when none was, and -1 for a free call before the ledger knows the day. */
  readonly day: number | undefined
  /** What has returned when the calls were counted, for calls that are taken back: they are gone where they were. */
  readonly period?: number | undefined
  /** Less than 0 takes calls back. */
  readonly calls: number
  readonly credits: number
  /** How long the call took; undefined for what is no call of its own. */
  readonly durationMs?: number | undefined
}

interface UsageCounter extends Omit<UsageCount, 'calls' | 'credits' | 'latencies' | 'fiveMinutes'> {
  fiveMinutes: number | undefined
  calls: number
  credits: number
  latencies?: number[]
}

/** The counters of one key by network: few enough to look through. */
type ByNetwork = Map<string, UsageCounter[]>

/** Calls that were counted and not reported yet, by periods of five minutes since 1970. */
export class UsageCounters {
  readonly #clock: Clock
  readonly #onFirst: () => void
  readonly #byPeriod = new Map<number, PeriodCounters>()
  #isEmpty = true
  /** By the wall clock, at the last updatePeriod(). */
  #period = 0

  /** `onFirst` is called for a call that is counted while there is none. */
  constructor(clock: Clock, onFirst: () => void) {
    this.#clock = clock
    this.#onFirst = onFirst
    this.updatePeriod()
  }

  /** Adds to the counter of the call's group, and to its latencies where the call succeeded: 0.1 microseconds. A charged call counts for the day that was charged. Returns its period. */
  readonly count = (call: CountedCall): number => {
    const { day = -1, durationMs, outcome, period = day < 0 ? this.#period : clampToDay(day, this.#period) } = call
    const counter = this.#counterOf(period, call)
    counter.calls += call.calls
    counter.credits += call.credits
    if (this.#isEmpty) {
      this.#isEmpty = false
      this.#onFirst()
    }
    if (durationMs === undefined || outcome !== successOutcome) return period
    const latencies = (counter.latencies ??= [])
    const bucket = latencyBucketOf(durationMs)
    while (latencies.length <= bucket) latencies.push(0)
    latencies[bucket]! += call.calls
    return period
  }

  get size(): number {
    return sumBy(this.#byPeriod.values(), ({ size }) => size)
  }

  get calls(): number {
    return sumBy(this.#byPeriod.values(), ({ counters }) => sumBy(counters(), ({ calls }) => calls))
  }

  /** Reads the clock, and returns the hour; to read the clock for each call would cost more than to count the call. */
  updatePeriod(): number {
    this.#period = Math.floor(this.#clock.now() / usagePeriodsMs.fiveMinutes)
    return hourOf(this.#period)
  }

  /**
   * Removes about so many counts, or a few more, and returns them: of the oldest period, and of the keys that have waited for longest. All of them
   * without a number.
   */
  drain(maxCounts = Infinity): readonly UsageCount[] {
    let countsLeft = maxCounts
    const drained = this.#periods.flatMap(period => {
      const counters = this.#byPeriod.get(period)?.drain(countsLeft) ?? []
      if (this.#byPeriod.get(period)?.size === 0) this.#byPeriod.delete(period)
      countsLeft -= counters.length
      return counters
    })
    this.#isEmpty = this.#byPeriod.size === 0
    // A call that was counted and taken back needs no report.
    return drained.filter(({ calls, credits }) => calls !== 0 || credits !== 0)
  }

  /** Merges periods, the oldest first, down to so many counters, or to one period. False: no hours had to be merged. */
  mergePeriods(maxCounters: number): boolean {
    let hasMerged = false
    for (let all = this.#periods; this.size > maxCounters && all.length > 1; all = this.#periods) {
      const [from, to] = oldestPair(all)
      hasMerged ||= hourOf(from) !== hourOf(to)
      const counters = this.#byPeriod.get(from)?.counters() ?? []
      this.#byPeriod.delete(from)
      for (const counter of counters) {
        const merged = this.#counterOf(to, counter)
        merged.calls += counter.calls
        merged.credits += counter.credits
        if (counter.latencies !== undefined) addVector((merged.latencies ??= []), counter.latencies)
      }
      for (const counter of this.#byPeriod.get(to)?.counters() ?? []) counter.fiveMinutes = undefined
    }
    return hasMerged
  }

  get #periods(): readonly number[] {
    return [...this.#byPeriod.keys()].sort((a, b) => a - b)
  }

  #counterOf(period: number, group: UsageGroup): UsageCounter {
    return getOrCreate(this.#byPeriod, period, newPeriod).counterOf(group)
  }
}

class PeriodCounters {
  readonly period: number
  size = 0
  /** In the order of their first call since they were drained. */
  readonly #byKey = new Map<string, ByNetwork>()

  constructor(period: number) {
    this.period = period
  }

  counterOf(group: UsageGroup): UsageCounter {
    const { account, key, network, method, outcome, forwarded } = group
    const counters = getOrCreate(getOrCreate(this.#byKey, key, newNetworks), network, newCounters)
    for (const counter of counters) {
      if (counter.method === method && counter.outcome === outcome && counter.forwarded === forwarded) return counter
    }
    const { period } = this
    const counter = { hour: hourOf(period), fiveMinutes: period, account, key, network, method, outcome, forwarded, calls: 0, credits: 0 }
    counters.push(counter)
    this.size += 1
    return counter
  }

  *counters(): Generator<UsageCounter> {
    for (const byNetwork of this.#byKey.values()) for (const counters of byNetwork.values()) yield* counters
  }

  /** All counters of one key after the other. */
  drain(maxCounters: number): readonly UsageCounter[] {
    const drained: UsageCounter[] = []
    for (const [key, byNetwork] of this.#byKey) {
      if (drained.length >= maxCounters) break
      this.#byKey.delete(key)
      for (const counters of byNetwork.values()) drained.push(...counters)
    }
    this.size -= drained.length
    return drained
  }
}

const periodsPerDay = fiveMinutesPerHour * hoursPerDay

const hourOf = (period: number): number => Math.floor(period / fiveMinutesPerHour)

/** The period of the day that is nearest. */
const clampToDay = (day: number, period: number): number => Math.min(Math.max(period, day * periodsPerDay), (day + 1) * periodsPerDay - 1)

/** Two successive periods to merge: of one hour, or else of one day, if there are such, so that hours stay apart, and days for longer. */
const oldestPair = (periods: readonly number[]): readonly [number, number] => {
  const firstOf = (length: number) =>
    periods.findIndex((period, i) => Math.floor(period / length) === Math.floor((periods[i + 1] ?? NaN) / length))
  const from = [fiveMinutesPerHour, periodsPerDay].map(firstOf).find(index => index >= 0) ?? 0
  return [periods[from] ?? 0, periods[from + 1] ?? 0]
}

const newPeriod = (period: number) => new PeriodCounters(period)
const newNetworks = (): ByNetwork => new Map()
const newCounters = (): UsageCounter[] => []

const sumBy = <T>(items: Iterable<T>, of: (item: T) => number): number => {
  let total = 0
  for (const item of items) total += of(item)
  return total
}
