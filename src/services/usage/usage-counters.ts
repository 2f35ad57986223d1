import type { UsageCount, UsageGroup } from '../../store/usage-store.ts'
import { fiveMinutesPerHour, successOutcome, usagePeriodsMs } from '../../store/usage-store.ts'
import { latencyBucketOf } from '../../util/latency-buckets.ts'
import type { LatencyBuckets } from '../../util/latency-buckets.ts'
import { getOrCreate } from '../../util/memoize.ts'
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
    if (durationMs !== undefined && outcome === successOutcome) counter.addLatencies(latencyBucketOf(durationMs), call.calls)
    if (this.#isEmpty) {
      this.#isEmpty = false
      this.#onFirst()
    }
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
      for (const counter of counters) this.#counterOf(to, counter).add(counter)
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

/** What is counted of one group. Thousands may wait to be reported, or are kept until the store cannot lose them any more, so it is small. */
class UsageCounter implements UsageCount {
  readonly hour: number
  fiveMinutes: number | undefined
  readonly account: string
  readonly key: string
  readonly network: string
  readonly method: string
  readonly outcome: string
  readonly forwarded: boolean
  calls = 0
  credits = 0
  /** Buckets that have calls, each followed by their number: most counters have a few of all buckets. Copied to grow, as `push` makes room for 16 more. */
  #latencies: number[] = noLatencies

  constructor(period: number, { account, key, network, method, outcome, forwarded }: UsageGroup) {
    this.hour = hourOf(period)
    this.fiveMinutes = period
    this.account = account
    this.key = key
    this.network = network
    this.method = method
    this.outcome = outcome
    this.forwarded = forwarded
  }

  addLatencies(bucket: number, calls: number): void {
    const counted = this.#latencies
    for (let i = 0; i < counted.length; i += 2) {
      if (counted[i] === bucket) return void (counted[i + 1]! += calls)
    }
    this.#latencies = counted.concat([bucket, calls])
  }

  add(other: UsageCounter): void {
    this.calls += other.calls
    this.credits += other.credits
    for (let i = 0; i < other.#latencies.length; i += 2) this.addLatencies(other.#latencies[i]!, other.#latencies[i + 1]!)
  }

  get latencies(): LatencyBuckets {
    let last = -1
    for (let i = 0; i < this.#latencies.length; i += 2) last = Math.max(last, this.#latencies[i]!)
    const buckets = new Array<number>(last + 1).fill(0)
    for (let i = 0; i < this.#latencies.length; i += 2) buckets[this.#latencies[i]!] = this.#latencies[i + 1]!
    return buckets
  }
}

const noLatencies: number[] = []

class PeriodCounters {
  readonly period: number
  size = 0
  /** In the order of their first call since they were drained; the counters of one key by network, few enough to look through. */
  readonly #byKey = new Map<string, UsageCounter[][]>()

  constructor(period: number) {
    this.period = period
  }

  counterOf(group: UsageGroup): UsageCounter {
    const { key, network, method, outcome, forwarded } = group
    const byNetwork = this.#byKey.get(key)
    const counters = byNetwork?.find(([first]) => first?.network === network)
    for (const counter of counters ?? []) {
      if (counter.method === method && counter.outcome === outcome && counter.forwarded === forwarded) return counter
    }
    const counter = new UsageCounter(this.period, group)
    this.size += 1
    if (byNetwork === undefined) this.#byKey.set(key, [[counter]])
    else if (counters === undefined) byNetwork.push([counter])
    else counters.push(counter)
    return counter
  }

  *counters(): Generator<UsageCounter> {
    for (const byNetwork of this.#byKey.values()) for (const counters of byNetwork) yield* counters
  }

  /** All counters of one key after the other. */
  drain(maxCounters: number): readonly UsageCounter[] {
    const drained: UsageCounter[] = []
    for (const [key, byNetwork] of this.#byKey) {
      if (drained.length >= maxCounters) break
      this.#byKey.delete(key)
      for (const counters of byNetwork) drained.push(...counters)
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

const sumBy = <T>(items: Iterable<T>, of: (item: T) => number): number => {
  let total = 0
  for (const item of items) total += of(item)
  return total
}
