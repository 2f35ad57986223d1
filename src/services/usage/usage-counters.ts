import type { UsageCount, UsageGroup } from '../../store/usage-store.ts'
import { successOutcome } from '../../store/usage-store.ts'
import { latencyBucketOf } from '../../util/latency-buckets.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { addVector } from '../../util/vectors.ts'
import type { Clock } from '../clock.ts'
import { hourMs, hoursPerDay } from '../../util/dates.ts'

/** A call that is added to the counts of its group. */
export interface CountedCall extends UsageGroup {
  /** The day that was charged, in days since 1970, UTC; undefined when none was, and -1 for a free call before the ledger knows the day. */
  readonly day: number | undefined
  /** Less than 0 takes calls back. */
  readonly calls: number
  readonly credits: number
  /** How long the call took; undefined for what is no call of its own. */
  readonly durationMs?: number | undefined
}

interface UsageCounter extends Omit<UsageCount, 'calls' | 'credits' | 'latencies'> {
  calls: number
  credits: number
  latencies?: number[]
}

/** The counters of one key by network: few enough to look through. */
type ByNetwork = Map<string, UsageCounter[]>

/** Calls that were counted and not reported yet, by hour. */
export class UsageCounters {
  readonly #clock: Clock
  readonly #onFirst: () => void
  readonly #byHour = new Map<number, HourCounters>()
  #isEmpty = true
  /** By the wall clock, at the last updateHour(). */
  #hour = 0

  /** `onFirst` is called for a call that is counted while there is none. */
  constructor(clock: Clock, onFirst: () => void) {
    this.#clock = clock
    this.#onFirst = onFirst
    this.updateHour()
  }

  /** Adds to the counter of the call's group, and to its latencies where the call succeeded: 0.1 microseconds. A charged call counts for the day that was charged. */
  readonly count = (call: CountedCall): void => {
    const { day = -1, durationMs, outcome } = call
    const counter = this.#counterOf(day < 0 ? this.#hour : clampHourToDay(day, this.#hour), call)
    counter.calls += call.calls
    counter.credits += call.credits
    if (this.#isEmpty) {
      this.#isEmpty = false
      this.#onFirst()
    }
    if (durationMs === undefined || outcome !== successOutcome) return
    const latencies = (counter.latencies ??= [])
    const bucket = latencyBucketOf(durationMs)
    while (latencies.length <= bucket) latencies.push(0)
    latencies[bucket]! += call.calls
  }

  get size(): number {
    return sumBy(this.#byHour.values(), ({ size }) => size)
  }

  get calls(): number {
    return sumBy(this.#byHour.values(), ({ counters }) => sumBy(counters(), ({ calls }) => calls))
  }

  /** Reads the clock, and returns the hour; to read the clock for each call would cost more than to count the call. */
  updateHour(): number {
    this.#hour = Math.floor(this.#clock.now() / hourMs)
    return this.#hour
  }

  /**
   * Removes about so many counts, or a few more, and returns them: of the oldest hour, and of the keys that have waited for longest. All of them
   * without a number.
   */
  drain(maxCounts = Infinity): readonly UsageCount[] {
    let countsLeft = maxCounts
    const drained = this.#hours.flatMap(hour => {
      const counters = this.#byHour.get(hour)?.drain(countsLeft) ?? []
      if (this.#byHour.get(hour)?.size === 0) this.#byHour.delete(hour)
      countsLeft -= counters.length
      return counters
    })
    this.#isEmpty = this.#byHour.size === 0
    // A call that was counted and taken back needs no report.
    return drained.filter(({ calls, credits }) => calls !== 0 || credits !== 0)
  }

  /** Merges hours, the oldest first, down to so many counters, or to one hour. False: there was nothing to merge. */
  mergeHours(maxCounters: number): boolean {
    let hasMerged = false
    for (let hours = this.#hours; this.size > maxCounters && hours.length > 1; hours = this.#hours) {
      const [from, to] = oldestHourPair(hours)
      const counters = this.#byHour.get(from)?.counters() ?? []
      this.#byHour.delete(from)
      for (const counter of counters) {
        const merged = this.#counterOf(to, counter)
        merged.calls += counter.calls
        merged.credits += counter.credits
        if (counter.latencies !== undefined) addVector((merged.latencies ??= []), counter.latencies)
      }
      hasMerged = true
    }
    return hasMerged
  }

  get #hours(): readonly number[] {
    return [...this.#byHour.keys()].sort((a, b) => a - b)
  }

  #counterOf(hour: number, group: UsageGroup): UsageCounter {
    return getOrCreate(this.#byHour, hour, newHour).counterOf(group)
  }
}

class HourCounters {
  readonly hour: number
  size = 0
  /** In the order of their first call since they were drained. */
  readonly #byKey = new Map<string, ByNetwork>()

  constructor(hour: number) {
    this.hour = hour
  }

  counterOf(group: UsageGroup): UsageCounter {
    const { account, key, network, method, outcome, forwarded } = group
    const counters = getOrCreate(getOrCreate(this.#byKey, key, newNetworks), network, newCounters)
    for (const counter of counters) {
      if (counter.method === method && counter.outcome === outcome && counter.forwarded === forwarded) return counter
    }
    const counter = { hour: this.hour, account, key, network, method, outcome, forwarded, calls: 0, credits: 0 }
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

/** The hour of the day that is nearest. */
const clampHourToDay = (day: number, hour: number): number =>
  Math.min(Math.max(hour, day * hoursPerDay), day * hoursPerDay + hoursPerDay - 1)

/** Two successive hours to merge: of one day, if a day has two, so that days stay apart. */
const oldestHourPair = (hours: readonly number[]): readonly [number, number] => {
  const dayOf = (hour: number | undefined) => Math.floor((hour ?? NaN) / hoursPerDay)
  const first = hours.findIndex((hour, i) => dayOf(hour) === dayOf(hours[i + 1]))
  const from = Math.max(0, first)
  return [hours[from] ?? 0, hours[from + 1] ?? 0]
}

const newHour = (hour: number) => new HourCounters(hour)
const newNetworks = (): ByNetwork => new Map()
const newCounters = (): UsageCounter[] => []

const sumBy = <T>(items: Iterable<T>, of: (item: T) => number): number => {
  let total = 0
  for (const item of items) total += of(item)
  return total
}
