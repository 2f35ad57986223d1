import type { ChargeResult } from '../../src/services/ledger/index.ts'
import { emptyLeaseRecord } from '../../src/store/lease-accounting.ts'
import type { LeaseRequest, LeaseRecord } from '../../src/store/lease-accounting.ts'
import { accountWith } from '../services/ledger/ledger-test-cluster.ts'
import type { InMemoryLedgerStore } from '../store/in-memory-store.ts'
import { SimulatedAccount, maxCost } from './simulated-account.ts'
import { checkLease, checkStopped, checkTotals, maxHeld } from './invariants.ts'
import { SimulatedProcess } from './simulated-process.ts'
import type { SeededRandom } from './seeded-random.ts'
import { ObservedDay } from './observed-day.ts'
import { VirtualTime } from './virtual-time.ts'
import type { FaultProfile } from './fault-profile.ts'
import { UnreliableNetwork, maxDelayMs } from './unreliable-network.ts'
import { dayMs } from '../../src/util/dates.ts'

export type SystemUnderTest = typeof import('./system-under-test.ts')

export interface SimulationOptions {
  /** When it begins: milliseconds since 1970, UTC. */
  readonly start: number
  readonly random: SeededRandom
  readonly faultProfile: FaultProfile
  /** Credits a day, by account. */
  readonly limits: readonly number[]
  /** Is told all that happens. */
  readonly trace: ((line: string) => void) | undefined
}

/** Processes, their store, and somebody who watches them all, and counts and checks what they do. */
export class Simulation {
  readonly virtualTime: VirtualTime
  readonly random: SeededRandom
  readonly faultProfile: FaultProfile
  readonly network: UnreliableNetwork
  readonly store: InMemoryLedgerStore
  readonly processes: SimulatedProcess[] = []
  readonly accounts: readonly SimulatedAccount[]
  /** Those between which midnight may fall. */
  readonly days: readonly number[]
  readonly counts = { calls: 0, kills: 0, stops: 0 }
  /** How far the store's clock is ahead of the truth, ms. */
  storeClockSkewMs = 0
  violation: string | undefined
  readonly #systemUnderTest: SystemUnderTest
  readonly #trace: SimulationOptions['trace']
  /** On which something happened in this step; and of those, which the store has written to. */
  readonly #changedDays = new Set<ObservedDay>()
  readonly #updatedDays = new Set<ObservedDay>()

  constructor(subject: SystemUnderTest, { start, random, faultProfile: weather, limits, trace }: SimulationOptions) {
    this.#systemUnderTest = subject
    this.#trace = trace
    this.random = random
    this.faultProfile = weather
    this.virtualTime = new VirtualTime(start, () => this.#checkInvariants())
    this.days = [this.today, this.today + 1]
    this.accounts = limits.map((maxLimit, i) => new SimulatedAccount(`acc_${i + 1}`, maxLimit))
    const unused = () => ({ cancel: () => {} })
    // A store reads its clock in whole milliseconds.
    const now = () => Math.floor(this.virtualTime.now + this.storeClockSkewMs)
    this.store = new subject.InMemoryLedgerStore({ now, monotonic: now, after: unused, every: unused })
    this.network = new UnreliableNetwork(this, (...asked) => this.#onLeaseRequest(...asked))
  }

  get today(): number {
    return Math.floor(this.virtualTime.now / dayMs)
  }

  /** Is the store's day the true one? */
  get isStoreDayCorrect(): boolean {
    return this.faultProfile.storeClockJumpsPerSecond === 0 || !this.faultProfile.hasMidnight
  }

  get liveProcesses(): readonly SimulatedProcess[] {
    return this.processes.filter(({ state }) => state === 'alive')
  }

  /** The highest limit that anybody may go by on that day, which begins early where the store's clock goes wrong. */
  limit(account: SimulatedAccount, day: number): number {
    return account.maxLimitSince(day * dayMs - (this.isStoreDayCorrect ? 0 : maxClockJumpMs))
  }

  /** 1 % of the day, or one call: what a process may hold. */
  maxLease(account: SimulatedAccount, day: number): number {
    return Math.max(Math.floor(this.limit(account, day) / 100), maxCost)
  }

  observedDay(machine: SimulatedProcess, account: SimulatedAccount, day: number): ObservedDay {
    const ofDay = machine.observedDays.get(day) ?? new Map<SimulatedAccount, ObservedDay>()
    const sheet = ofDay.get(account) ?? new ObservedDay(machine, account, day)
    machine.observedDays.set(day, ofDay.set(account, sheet))
    return sheet
  }

  observedDays(machine: SimulatedProcess): readonly ObservedDay[] {
    return this.accounts.flatMap(account => this.days.map(day => this.observedDay(machine, account, day)))
  }

  /** What the store has on record. */
  leaseRecord({ machine, account, day }: ObservedDay): LeaseRecord {
    return this.store.entries(account.id, day).get(machine.name) ?? emptyLeaseRecord
  }

  /** The first thing that must not happen ends the run. */
  fail(what: string): void {
    if (this.violation !== undefined) return
    this.violation = what
    this.trace(() => `WRONG: ${what}`)
    this.virtualTime.stop()
  }

  trace(line: () => string): void {
    this.#trace?.(`${new Date(this.virtualTime.now).toISOString().slice(11, 23)} ${line()}`)
  }

  start(): SimulatedProcess {
    const machine = new SimulatedProcess(`p${this.processes.length + 1}`, this.virtualTime, this.random)
    for (const account of this.accounts) machine.accounts.set(account, accountWith(account.limit, account.id))
    this.processes.push(machine)
    this.trace(() => `${machine.name} starts`)
    machine.start(this.#systemUnderTest.openLedger, this.network.storeFor(machine))
    return machine
  }

  /** kill -9. */
  kill(machine: SimulatedProcess): void {
    this.trace(() => `${machine.name} is killed`)
    machine.state = 'dead'
    this.counts.kills += 1
    this.#recordForfeit(machine)
  }

  /** SIGTERM. */
  stop(machine: SimulatedProcess): void {
    this.trace(() => `${machine.name} stops`)
    machine.state = 'stopping'
    this.counts.stops += 1
    void machine.ledger.stop().then(() => this.virtualTime.after(0, () => this.#onStopped(machine)))
  }

  call(machine: SimulatedProcess, account: SimulatedAccount, cost: number): ChargeResult | Promise<ChargeResult> {
    const verdict = machine.ledger.charge(machine.accounts.get(account) ?? accountWith(0, account.id), cost, this.faultProfile.grace)
    if (!(verdict instanceof Promise)) return this.#recordResult(machine, account, cost, verdict)
    machine.pendingCalls += 1
    return verdict.then(late => {
      machine.pendingCalls -= 1
      return this.#recordResult(machine, account, cost, late)
    })
  }

  /** Each process hears of it within a second, as it does of all that changes in the store. */
  changePlan(account: SimulatedAccount, limit: number): void {
    this.trace(() => `${account.id} has ${limit} credits a day, not ${account.limit}`)
    const old = account.changeLimit(limit, this.virtualTime.now + planPropagationMs)
    for (const machine of this.liveProcesses) {
      machine.schedule(this.random.between(0, 1_000), () => {
        machine.accounts.set(account, accountWith(account.limit, account.id))
      })
    }
    // By then all that was asked with the old limit has been answered: nothing is granted beyond the new one.
    this.virtualTime.after(planPropagationMs, () => {
      old.limit = Math.min(old.limit, Math.max(...this.days.map(day => this.store.dayTotals(account.id, day).leased)))
    })
  }

  /** The store's disk is replaced by a backup. */
  restoreBackup(putBack: () => void): void {
    const sheets = this.processes.flatMap(machine => this.observedDays(machine))
    const before = sheets.map(sheet => ({ sheet, entry: this.leaseRecord(sheet) }))
    putBack()
    for (const { sheet, entry } of before) {
      const now = this.leaseRecord(sheet)
      const [granted, returned] = [entry.granted - now.granted, entry.returned - now.returned]
      // Below zero: this backup is newer than the one that was put back before.
      sheet.hasMixedBackups ||= granted < 0 || returned < 0
      const lost = Math.max(0, granted) + Math.max(0, -returned)
      const stuck = Math.max(0, returned) + Math.max(0, -granted)
      sheet.hasForgottenState ||= entry.seq !== now.seq
      sheet.lastRecord = now
      sheet.forgottenGrants += lost
      sheet.forgottenReturns += stuck
      sheet.account.recordForgottenGrant(sheet.day, lost)
      if (sheet.hasForgottenState) this.trace(() => `a backup is put back: of ${sheet.label} it has ${JSON.stringify(now)}`)
    }
    // An ask that is late is new once more: the store may answer it to somebody who is gone.
    for (const machine of this.processes) if (machine.state !== 'alive') this.#recordForfeit(machine)
  }

  #recordResult(machine: SimulatedProcess, account: SimulatedAccount, cost: number, verdict: ChargeResult): ChargeResult {
    if (verdict.kind !== 'charged' || machine.state === 'dead') return verdict
    const sheet = this.observedDay(machine, account, verdict.day)
    const trueDay = this.isStoreDayCorrect ? this.#expectedDay(sheet) : this.today
    this.counts.calls += 1
    this.#recordServed(sheet, trueDay, cost)
    if (this.isStoreDayCorrect && sheet.day !== trueDay) this.fail(`${sheet.label}: served on another day than the lease's`)
    if (!this.network.isFaultless && this.random.chance(this.faultProfile.refundRate)) {
      machine.schedule(this.random.between(0, maxRefundDelayMs), () => this.#refund(sheet, trueDay, cost, () => verdict.refund()))
    }
    return verdict
  }

  /** Midnight comes early rather than late: what is lent meanwhile is the next day's. */
  #expectedDay({ day }: ObservedDay): number {
    const isEarly = this.faultProfile.grace.maxDurationMs > 0 && day === Math.floor((this.virtualTime.now + maxDelayMs) / dayMs)
    return isEarly ? day : this.today
  }

  #recordServed(sheet: ObservedDay, trueDay: number, cost: number): void {
    sheet.served += cost
    sheet.account.recordServed(trueDay, cost)
    this.#changedDays.add(sheet)
  }

  #refund(sheet: ObservedDay, trueDay: number, cost: number, refund: () => boolean): void {
    const isCounted = refund()
    // Who completes a call twice must not be paid twice.
    if (this.random.chance(0.3)) refund()
    this.trace(() => `${sheet.label}: ${cost} given back, ${isCounted ? 'and counted' : 'too late'}`)
    if (!isCounted) return
    this.#recordServed(sheet, trueDay, -cost)
    sheet.recentRefunds = [...sheet.recentRefunds, { at: this.virtualTime.now, cost }]
  }

  #onLeaseRequest(machine: SimulatedProcess, ask: LeaseRequest, sent: number): void {
    const account = this.accounts.find(({ id }) => id === ask.account)
    if (account === undefined) return this.fail(`${machine.name} asked for ${ask.account}, which is not there`)
    const sheet = this.observedDay(machine, account, ask.day)
    const entry = this.leaseRecord(sheet)
    if (this.faultProfile.grace.maxDurationMs > 0) this.#recordOverdraft(sheet, entry, ask.counters?.granted ?? 0)
    sheet.lastRecord = entry
    this.trace(() => `${ask.process} asks ${JSON.stringify(ask)}: ${JSON.stringify(entry)}`)
    this.#changedDays.add(sheet)
    this.#updatedDays.add(sheet)
    const held = entry.granted - entry.returned - sheet.served
    if (held <= this.maxLease(account, ask.day)) sheet.recentRefunds = sheet.recentRefunds.filter(({ at }) => at > sent)
  }

  /** The store hears of what was lent, and charges it. */
  #recordOverdraft(sheet: ObservedDay, entry: LeaseRecord, told: number): void {
    const credits = Math.max(0, Math.min(told, entry.granted) - sheet.lastRecord.granted)
    sheet.account.recordOverdraft(sheet.day, credits)
    // What was given back before it was lent anew did not look like a loan.
    sheet.overdraft = Math.max(0, sheet.overdraft - credits + entry.returned - sheet.lastRecord.returned)
  }

  #onStopped(machine: SimulatedProcess): void {
    if (machine.state !== 'stopping') return
    machine.state = 'stopped'
    this.trace(() => `${machine.name} has stopped`)
    if (machine.log.lines.some(({ message }) => message.includes('stay reserved until midnight UTC'))) this.#recordForfeit(machine)
    else checkStopped(this, machine)
  }

  #recordForfeit(machine: SimulatedProcess): void {
    for (const sheet of this.observedDays(machine)) sheet.maxForfeited = Math.max(sheet.maxForfeited, maxHeld(this, sheet))
  }

  #checkInvariants(): void {
    for (const sheet of this.#changedDays) checkLease(this, sheet)
    for (const { account, day } of this.#updatedDays) checkTotals(this, account, day)
    this.#changedDays.clear()
    this.#updatedDays.clear()
  }
}

/** How far a clock is set wrong at most; ms. */
export const maxClockJumpMs = 3_600_000
/** Until then an upstream has failed, and its call is given back; ms. */
const maxRefundDelayMs = 3_000
/** After so many ms nobody goes by an old plan: not those who stood still, and no message that is on its way. */
const planPropagationMs = 15_000
