import { hourLength, hoursADay } from '../../store/store.ts'
import type { UsageCount, UsageGroup } from '../../store/store.ts'
import type { Clock } from '../clock.ts'

/** What is added to the counts of a group. */
export interface CountedCall extends UsageGroup {
  /** The day that was charged, in days since 1970, UTC; undefined when none was. */
  readonly day: number | undefined
  /** One; or minus one, which takes a call back. */
  readonly calls: 1 | -1
  readonly credits: number
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Cell = Mutable<UsageCount>

/** Cells by network, key and method; then by outcome, those of partners apart. */
type ByNetwork = Map<string, ByKey>
type ByKey = Map<string, ByMethod>
type ByMethod = Map<string, { readonly own: Map<string, Cell>; readonly forwarded: Map<string, Cell> }>

/** Calls that were counted and not yet reported: a sheet for each hour. */
export class Sheets {
  readonly #clock: Clock
  readonly #sheets = new Map<number, Sheet>()
  /** By the machine's clock, as of the last look. */
  #hour = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.look()
  }

  get size(): number {
    return sum(this.#sheets.values(), sheet => sheet.cells.length)
  }

  get calls(): number {
    return sum(this.#sheets.values(), sheet => sum(sheet.cells, cell => cell.calls))
  }

  /** Looks at the clock; a look per call would cost more than the counting. Returns the hour. */
  look(): number {
    this.#hour = Math.floor(this.#clock.now() / hourLength)
    return this.#hour
  }

  /** Adds to the cell of the call's group: 0.1 microseconds. A charged call counts for the day that was charged. */
  add(call: CountedCall): void {
    this.#put(call.day === undefined ? this.#hour : hourOn(call.day, this.#hour), call)
  }

  /** Adds what was taken before. */
  putBack(counts: readonly UsageCount[]): void {
    for (const count of counts) this.#put(count.hour, count)
  }

  /** Everything, oldest first; nothing is left. */
  take(): readonly UsageCount[] {
    const taken = this.#hours.flatMap(hour => this.#sheets.get(hour)?.cells ?? [])
    this.#sheets.clear()
    // What was counted and taken back at once never was.
    return taken.filter(({ calls, credits }) => calls !== 0 || credits !== 0)
  }

  /** Puts hours together, the oldest first, until there are no more cells than that, or one hour. True: something was. */
  merge(most: number): boolean {
    let merged = false
    for (let hours = this.#hours; this.size > most && hours.length > 1; hours = this.#hours) {
      const [from, to] = oldestPair(hours)
      const sheet = this.#sheets.get(from)
      this.#sheets.delete(from)
      for (const cell of sheet?.cells ?? []) this.#put(to, cell)
      merged = true
    }
    return merged
  }

  get #hours(): readonly number[] {
    return [...this.#sheets.keys()].sort((a, b) => a - b)
  }

  #put(hour: number, count: Omit<UsageCount, 'hour'>): void {
    let sheet = this.#sheets.get(hour)
    if (sheet === undefined) this.#sheets.set(hour, (sheet = new Sheet(hour)))
    sheet.add(count)
  }
}

class Sheet {
  readonly hour: number
  readonly cells: Cell[] = []
  readonly #tree: ByNetwork = new Map()

  constructor(hour: number) {
    this.hour = hour
  }

  add(count: Omit<UsageCount, 'hour'>): void {
    const methods = at(at(this.#tree, count.network, newKeys), count.key, newMethods)
    const { own, forwarded } = at(methods, count.method, newCells)
    const cells = count.forwarded ? forwarded : own
    let cell = cells.get(count.outcome)
    if (cell === undefined) cells.set(count.outcome, (cell = this.#open(count)))
    cell.calls += count.calls
    cell.credits += count.credits
  }

  #open({ account, key, network, method, outcome, forwarded }: Omit<UsageCount, 'hour'>): Cell {
    const cell = { hour: this.hour, account, key, network, method, outcome, forwarded, calls: 0, credits: 0 }
    this.cells.push(cell)
    return cell
  }
}

/** The hour, if it is one of the day; or else the nearest that is. */
const hourOn = (day: number, hour: number): number => Math.min(Math.max(hour, day * hoursADay), day * hoursADay + hoursADay - 1)

/** Two hours that follow each other, of one day if there are such, so that days stay apart. */
const oldestPair = (hours: readonly number[]): readonly [number, number] => {
  const dayOf = (hour: number | undefined) => Math.floor((hour ?? NaN) / hoursADay)
  const first = hours.findIndex((hour, i) => dayOf(hour) === dayOf(hours[i + 1]))
  const from = Math.max(0, first)
  return [hours[from] ?? 0, hours[from + 1] ?? 0]
}

const newKeys = (): ByKey => new Map()
const newMethods = (): ByMethod => new Map()
const newCells = () => ({ own: new Map<string, Cell>(), forwarded: new Map<string, Cell>() })

const at = <V>(map: Map<string, V>, key: string, make: () => V): V => {
  const known = map.get(key)
  if (known !== undefined) return known
  const fresh = make()
  map.set(key, fresh)
  return fresh
}

const sum = <T>(items: Iterable<T>, of: (item: T) => number): number => {
  let total = 0
  for (const item of items) total += of(item)
  return total
}
