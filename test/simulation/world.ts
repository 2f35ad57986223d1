import type { Verdict } from '../../src/services/ledger.ts'
import { newEntry } from '../../src/store/lease.ts'
import type { Ask, Entry } from '../../src/store/lease.ts'
import { dayLength } from '../../src/store/store.ts'
import { accountWith } from '../services/ledger-world.ts'
import type { MemoryLedger } from '../store/memory.ts'
import { Account, dearest } from './account.ts'
import { checkLease, checkStopped, checkTotals, mostInHand } from './checks.ts'
import { Machine } from './machine.ts'
import type { Random } from './random.ts'
import { Sheet } from './sheet.ts'
import { Timeline } from './timeline.ts'
import type { Weather } from './weather.ts'
import { Wire, latest } from './wire.ts'

export type Subject = typeof import('./subject.ts')

export interface Settings {
  /** When it begins: milliseconds since 1970, UTC. */
  readonly start: number
  readonly random: Random
  readonly weather: Weather
  /** Credits a day, by account. */
  readonly limits: readonly number[]
  /** Is told all that happens. */
  readonly trace: ((line: string) => void) | undefined
}

/** Processes, their store, and somebody who watches them all, and counts and checks what they do. */
export class World {
  readonly timeline: Timeline
  readonly random: Random
  readonly weather: Weather
  readonly wire: Wire
  readonly store: MemoryLedger
  readonly machines: Machine[] = []
  readonly accounts: readonly Account[]
  /** Those between which midnight may fall. */
  readonly days: readonly number[]
  readonly counts = { calls: 0, kills: 0, stops: 0 }
  /** How far the store's clock is ahead of the truth, ms. */
  storeSkew = 0
  violation: string | undefined
  readonly #subject: Subject
  readonly #trace: Settings['trace']
  /** On which something happened in this step; and of those, which the store has written to. */
  readonly #changed = new Set<Sheet>()
  readonly #booked = new Set<Sheet>()

  constructor(subject: Subject, { start, random, weather, limits, trace }: Settings) {
    this.#subject = subject
    this.#trace = trace
    this.random = random
    this.weather = weather
    this.timeline = new Timeline(start, () => this.#check())
    this.days = [this.today, this.today + 1]
    this.accounts = limits.map((limit, i) => new Account(`acc_${i + 1}`, limit))
    const unused = () => ({ cancel: () => {} })
    // A store reads its clock in whole milliseconds.
    const now = () => Math.floor(this.timeline.now + this.storeSkew)
    this.store = new subject.MemoryLedger({ now, monotonic: now, after: unused, every: unused })
    this.wire = new Wire(this, (...asked) => this.#asked(...asked))
  }

  get today(): number {
    return Math.floor(this.timeline.now / dayLength)
  }

  /** Is the store's day the true one? */
  get isDayTrue(): boolean {
    return this.weather.storeClock === 0 || !this.weather.hasMidnight
  }

  get alive(): readonly Machine[] {
    return this.machines.filter(({ state }) => state === 'alive')
  }

  /** The highest limit that anybody may go by on that day, which begins early where the store's clock goes wrong. */
  limit(account: Account, day: number): number {
    return account.highest(day * dayLength - (this.isDayTrue ? 0 : furthestJump))
  }

  /** 1 % of the day, or one call: what a process may hold. */
  chunk(account: Account, day: number): number {
    return Math.max(Math.floor(this.limit(account, day) / 100), dearest)
  }

  sheet(machine: Machine, account: Account, day: number): Sheet {
    const ofDay = machine.sheets.get(day) ?? new Map<Account, Sheet>()
    const sheet = ofDay.get(account) ?? new Sheet(machine, account, day)
    machine.sheets.set(day, ofDay.set(account, sheet))
    return sheet
  }

  sheets(machine: Machine): readonly Sheet[] {
    return this.accounts.flatMap(account => this.days.map(day => this.sheet(machine, account, day)))
  }

  /** What the store has on record. */
  entry({ machine, account, day }: Sheet): Entry {
    return this.store.entries(account.id, day).get(machine.name) ?? newEntry
  }

  /** The first thing that must not happen ends the run. */
  fail(what: string): void {
    if (this.violation !== undefined) return
    this.violation = what
    this.say(() => `WRONG: ${what}`)
    this.timeline.stop()
  }

  say(line: () => string): void {
    this.#trace?.(`${new Date(this.timeline.now).toISOString().slice(11, 23)} ${line()}`)
  }

  start(): Machine {
    const machine = new Machine(`p${this.machines.length + 1}`, this.timeline, this.random)
    for (const account of this.accounts) machine.accounts.set(account, accountWith(account.limit, account.id))
    this.machines.push(machine)
    this.say(() => `${machine.name} starts`)
    machine.start(this.#subject.openLedger, this.wire.from(machine))
    return machine
  }

  /** kill -9. */
  kill(machine: Machine): void {
    this.say(() => `${machine.name} is killed`)
    machine.state = 'dead'
    this.counts.kills += 1
    this.#forfeit(machine)
  }

  /** SIGTERM. */
  stop(machine: Machine): void {
    this.say(() => `${machine.name} stops`)
    machine.state = 'stopping'
    this.counts.stops += 1
    void machine.ledger.stop().then(() => this.timeline.after(0, () => this.#stopped(machine)))
  }

  call(machine: Machine, account: Account, cost: number): Verdict | Promise<Verdict> {
    const verdict = machine.ledger.charge(machine.accounts.get(account) ?? accountWith(0, account.id), cost, this.weather.grace)
    if (!(verdict instanceof Promise)) return this.#take(machine, account, cost, verdict)
    machine.waiting += 1
    return verdict.then(late => {
      machine.waiting -= 1
      return this.#take(machine, account, cost, late)
    })
  }

  /** Each process hears of it within a second, as it does of all that changes in the store. */
  changePlan(account: Account, limit: number): void {
    this.say(() => `${account.id} has ${limit} credits a day, not ${account.limit}`)
    const old = account.change(limit, this.timeline.now + forgotten)
    for (const machine of this.alive) {
      machine.wake(this.random.between(0, 1_000), () => {
        machine.accounts.set(account, accountWith(account.limit, account.id))
      })
    }
    // By then all that was asked with the old limit has been answered: nothing is granted beyond the new one.
    this.timeline.after(forgotten, () => {
      old.limit = Math.min(old.limit, Math.max(...this.days.map(day => this.store.totals(account.id, day).leased)))
    })
  }

  /** The store's disk is replaced by a backup. */
  restore(putBack: () => void): void {
    const sheets = this.machines.flatMap(machine => this.sheets(machine))
    const before = sheets.map(sheet => ({ sheet, entry: this.entry(sheet) }))
    putBack()
    for (const { sheet, entry } of before) {
      const now = this.entry(sheet)
      const [granted, returned] = [entry.granted - now.granted, entry.returned - now.returned]
      // Below zero: this backup is newer than the one that was put back before.
      sheet.isMixed ||= granted < 0 || returned < 0
      const lost = Math.max(0, granted) + Math.max(0, -returned)
      const stuck = Math.max(0, returned) + Math.max(0, -granted)
      sheet.isForgotten ||= entry.seq !== now.seq
      sheet.known = now
      sheet.lost += lost
      sheet.stuck += stuck
      sheet.account.lose(sheet.day, lost)
      if (sheet.isForgotten) this.say(() => `a backup is put back: of ${sheet.title} it has ${JSON.stringify(now)}`)
    }
    // An ask that is late is new once more: the store may answer it to somebody who is gone.
    for (const machine of this.machines) if (machine.state !== 'alive') this.#forfeit(machine)
  }

  #take(machine: Machine, account: Account, cost: number, verdict: Verdict): Verdict {
    if (verdict.kind !== 'charged' || machine.state === 'dead') return verdict
    const sheet = this.sheet(machine, account, verdict.day)
    const trueDay = this.isDayTrue ? this.#dayOf(sheet) : this.today
    this.counts.calls += 1
    this.#serve(sheet, trueDay, cost)
    if (this.isDayTrue && sheet.day !== trueDay) this.fail(`${sheet.title}: served on another day than the lease's`)
    if (!this.wire.isCalm && this.random.chance(this.weather.refund)) {
      machine.wake(this.random.between(0, slowest), () => this.#refund(sheet, trueDay, cost, () => verdict.refund()))
    }
    return verdict
  }

  /** Midnight comes early rather than late: what is lent meanwhile is the next day's. */
  #dayOf({ day }: Sheet): number {
    const isEarly = this.weather.grace.lasts > 0 && day === Math.floor((this.timeline.now + latest) / dayLength)
    return isEarly ? day : this.today
  }

  #serve(sheet: Sheet, trueDay: number, cost: number): void {
    sheet.served += cost
    sheet.account.add(trueDay, cost)
    this.#changed.add(sheet)
  }

  #refund(sheet: Sheet, trueDay: number, cost: number, refund: () => boolean): void {
    const isCounted = refund()
    // Who completes a call twice must not be paid twice.
    if (this.random.chance(0.3)) refund()
    this.say(() => `${sheet.title}: ${cost} given back, ${isCounted ? 'and counted' : 'too late'}`)
    if (!isCounted) return
    this.#serve(sheet, trueDay, -cost)
    sheet.fresh = [...sheet.fresh, { at: this.timeline.now, cost }]
  }

  #asked(machine: Machine, ask: Ask, sent: number): void {
    const account = this.accounts.find(({ id }) => id === ask.account)
    if (account === undefined) return this.fail(`${machine.name} asked for ${ask.account}, which is not there`)
    const sheet = this.sheet(machine, account, ask.day)
    const entry = this.entry(sheet)
    if (this.weather.grace.lasts > 0) this.#settle(sheet, entry, ask.tally?.granted ?? 0)
    sheet.known = entry
    this.say(() => `${ask.process} asks ${JSON.stringify(ask)}: ${JSON.stringify(entry)}`)
    this.#changed.add(sheet)
    this.#booked.add(sheet)
    const held = entry.granted - entry.returned - sheet.served
    if (held <= this.chunk(account, ask.day)) sheet.fresh = sheet.fresh.filter(({ at }) => at > sent)
  }

  /** The store hears of what was lent, and charges it. */
  #settle(sheet: Sheet, entry: Entry, told: number): void {
    const credits = Math.max(0, Math.min(told, entry.granted) - sheet.known.granted)
    sheet.account.owe(sheet.day, credits)
    // What was given back before it was lent anew did not look like a loan.
    sheet.lent = Math.max(0, sheet.lent - credits + entry.returned - sheet.known.returned)
  }

  #stopped(machine: Machine): void {
    if (machine.state !== 'stopping') return
    machine.state = 'stopped'
    this.say(() => `${machine.name} has stopped`)
    if (machine.log.lines.some(({ message }) => message.includes('is lost for the day'))) this.#forfeit(machine)
    else checkStopped(this, machine)
  }

  #forfeit(machine: Machine): void {
    for (const sheet of this.sheets(machine)) sheet.forfeit = Math.max(sheet.forfeit, mostInHand(this, sheet))
  }

  #check(): void {
    for (const sheet of this.#changed) checkLease(this, sheet)
    for (const { account, day } of this.#booked) checkTotals(this, account, day)
    this.#changed.clear()
    this.#booked.clear()
  }
}

/** How far a clock is set wrong at most; ms. */
export const furthestJump = 3_600_000
/** Until then an upstream has failed, and its call is given back; ms. */
const slowest = 3_000
/** After so many ms nobody goes by an old plan: not those who stood still, and no message that is on its way. */
const forgotten = 15_000
