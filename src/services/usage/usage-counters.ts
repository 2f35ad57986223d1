import type { UsageCount, UsageGroup } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import { hourMs, hoursPerDay } from '../../util/dates.ts'

/** What is added to the counts of a group. */
export interface CountedCall extends UsageGroup {
  /** The day that was charged, in days since 1970, UTC; undefined when none was. */
  readonly day: number | undefined
  /** One; or minus one, which takes a call back. */
  readonly calls: 1 | -1
  readonly credits: number
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type UsageCounter = Mutable<UsageCount>

/** Cells by network, key and method; then by outcome, those of partners apart. */
type ByNetwork = Map<string, ByKey>
type ByKey = Map<string, ByMethod>
type ByMethod = Map<string, { readonly own: Map<string, UsageCounter>; readonly forwarded: Map<string, UsageCounter> }>

/** Calls that were counted and not yet reported: a sheet for each hour. */
export class UsageCounters {
  readonly #clock: Clock
  readonly #byHour = new Map<number, HourCounters>()
  /** By the machine's clock, as of the last look. */
  #hour = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.updateHour()
  }

  get size(): number {
    return sumBy(this.#byHour.values(), sheet => sheet.counters.length)
  }

  get calls(): number {
    return sumBy(this.#byHour.values(), sheet => sumBy(sheet.counters, cell => cell.calls))
  }

  /** Looks at the clock; a look per call would cost more than the counting. Returns the hour. */
  updateHour(): number {
    this.#hour = Math.floor(this.#clock.now() / hourMs)
    return this.#hour
  }

  /** Adds to the cell of the call's group: 0.1 microseconds. A charged call counts for the day that was charged. */
  record(call: CountedCall): void {
    this.#addToHour(call.day === undefined ? this.#hour : clampHourToDay(call.day, this.#hour), call)
  }

  /** Adds what was taken before. */
  restore(counts: readonly UsageCount[]): void {
    for (const count of counts) this.#addToHour(count.hour, count)
  }

  /** Everything, oldest first; nothing is left. */
  drain(): readonly UsageCount[] {
    const taken = this.#hours.flatMap(hour => this.#byHour.get(hour)?.counters ?? [])
    this.#byHour.clear()
    // What was counted and taken back at once never was.
    return taken.filter(({ calls, credits }) => calls !== 0 || credits !== 0)
  }

  /** Puts hours together, the oldest first, until there are no more cells than that, or one hour. True: something was. */
  mergeHours(maxCounters: number): boolean {
    let merged = false
    for (let hours = this.#hours; this.size > maxCounters && hours.length > 1; hours = this.#hours) {
      const [from, to] = oldestHourPair(hours)
      const counters = this.#byHour.get(from)
      this.#byHour.delete(from)
      for (const cell of counters?.counters ?? []) this.#addToHour(to, cell)
      merged = true
    }
    return merged
  }

  get #hours(): readonly number[] {
    return [...this.#byHour.keys()].sort((a, b) => a - b)
  }

  #addToHour(hour: number, count: Omit<UsageCount, 'hour'>): void {
    let counters = this.#byHour.get(hour)
    if (counters === undefined) this.#byHour.set(hour, (counters = new HourCounters(hour)))
    counters.add(count)
  }
}

class HourCounters {
  readonly hour: number
  readonly counters: UsageCounter[] = []
  readonly #byNetwork: ByNetwork = new Map()

  constructor(hour: number) {
    this.hour = hour
  }

  add(count: Omit<UsageCount, 'hour'>): void {
    const methods = getOrCreate(getOrCreate(this.#byNetwork, count.network, newKeys), count.key, newMethods)
    const { own, forwarded } = getOrCreate(methods, count.method, newOutcomes)
    const byOutcome = count.forwarded ? forwarded : own
    let counter = byOutcome.get(count.outcome)
    if (counter === undefined) byOutcome.set(count.outcome, (counter = this.#createCounter(count)))
    counter.calls += count.calls
    counter.credits += count.credits
  }

  #createCounter({ account, key, network, method, outcome, forwarded }: Omit<UsageCount, 'hour'>): UsageCounter {
    const counter = { hour: this.hour, account, key, network, method, outcome, forwarded, calls: 0, credits: 0 }
    this.counters.push(counter)
    return counter
  }
}

/** The hour, if it is one of the day; or else the nearest that is. */
const clampHourToDay = (day: number, hour: number): number =>
  Math.min(Math.max(hour, day * hoursPerDay), day * hoursPerDay + hoursPerDay - 1)

/** Two hours that follow each other, of one day if there are such, so that days stay apart. */
const oldestHourPair = (hours: readonly number[]): readonly [number, number] => {
  const dayOf = (hour: number | undefined) => Math.floor((hour ?? NaN) / hoursPerDay)
  const first = hours.findIndex((hour, i) => dayOf(hour) === dayOf(hours[i + 1]))
  const from = Math.max(0, first)
  return [hours[from] ?? 0, hours[from + 1] ?? 0]
}

const newKeys = (): ByKey => new Map()
const newMethods = (): ByMethod => new Map()
const newOutcomes = () => ({ own: new Map<string, UsageCounter>(), forwarded: new Map<string, UsageCounter>() })

const getOrCreate = <V>(map: Map<string, V>, key: string, make: () => V): V => {
  const known = map.get(key)
  if (known !== undefined) return known
  const fresh = make()
  map.set(key, fresh)
  return fresh
}

const sumBy = <T>(items: Iterable<T>, of: (item: T) => number): number => {
  let total = 0
  for (const item of items) total += of(item)
  return total
}
