import type { ChargeResult } from '../../src/services/ledger/index.ts'
import { emptyLeaseRecord } from '../../src/store/lease-accounting.ts'
import type { LeaseRequest, LeaseRecord } from '../../src/store/lease-accounting.ts'
import { accountWith } from '../services/ledger/ledger-test-cluster.ts'
import type { InMemoryLedgerStore } from '../../src/testing/in-memory-store.ts'
import { SimulatedAccount } from './simulated-account.ts'
import { checkLease, checkStopped, checkTotals, maxHeld, maxLease } from './invariants.ts'
import { SimulatedProcess } from './simulated-process.ts'
import type { SeededRandom } from './seeded-random.ts'
import { ObservedDay } from './observed-day.ts'
import { VirtualTime } from './virtual-time.ts'
import type { FaultProfile } from './fault-profile.ts'
import { UnreliableNetwork, maxDelayMs } from './unreliable-network.ts'
import { dayMs } from '../../src/util/dates.ts'

export type SystemUnderTest = typeof import('./system-under-test.ts')

export interface SimulationOptions {
  /** Milliseconds since 1970, UTC. */
  readonly start: number
  readonly random: SeededRandom
  readonly faultProfile: FaultProfile
  /** Credits a day, by account. */
  readonly limits: readonly number[]
  /** Called with a line for each event. */
  readonly trace: ((line: string) => void) | undefined
}

/** Processes, their network and store, and the observer that counts and checks what they do. */
export class Simulation {
  readonly virtualTime: VirtualTime
  readonly random: SeededRandom
  readonly faultProfile: FaultProfile
  readonly network: UnreliableNetwork
  readonly store: InMemoryLedgerStore
  readonly processes: SimulatedProcess[] = []
  readonly accounts: readonly SimulatedAccount[]
  /** Midnight may fall between them. */
  readonly days: readonly number[]
  readonly counts = { calls: 0, kills: 0, stops: 0 }
  /** By how much the store's clock is ahead of the true time. */
  storeClockSkewMs = 0
  violation: string | undefined
  readonly #systemUnderTest: SystemUnderTest
  readonly #trace: SimulationOptions['trace']
  /** Days with an event in this step; and of these, days that the store has written to. */
  readonly #changedDays = new Set<ObservedDay>()
  readonly #updatedDays = new Set<ObservedDay>()

  constructor(systemUnderTest: SystemUnderTest, { start, random, faultProfile, limits, trace }: SimulationOptions) {
    this.#systemUnderTest = systemUnderTest
    this.#trace = trace
    this.random = random
    this.faultProfile = faultProfile
    this.virtualTime = new VirtualTime(start, () => this.#checkInvariants())
    this.days = [this.today, this.today + 1]
    this.accounts = limits.map((maxLimit, i) => new SimulatedAccount(`acc_${i + 1}`, maxLimit))
    const unused = () => ({ cancel: () => {} })
    // A store reads its clock in whole milliseconds.
    const now = () => Math.floor(this.virtualTime.now + this.storeClockSkewMs)
    this.store = new systemUnderTest.InMemoryLedgerStore({ now, monotonic: now, after: unused, every: unused })
    this.network = new UnreliableNetwork(this, (...request) => this.#onLeaseRequest(...request))
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

  observedDay(process: SimulatedProcess, account: SimulatedAccount, day: number): ObservedDay {
    const ofDay = process.observedDays.get(day) ?? new Map<SimulatedAccount, ObservedDay>()
    const observed = ofDay.get(account) ?? new ObservedDay(process, account, day)
    process.observedDays.set(day, ofDay.set(account, observed))
    return observed
  }

  observedDays(process: SimulatedProcess): readonly ObservedDay[] {
    return this.accounts.flatMap(account => this.days.map(day => this.observedDay(process, account, day)))
  }

  leaseRecord({ process, account, day }: ObservedDay): LeaseRecord {
    return this.store.leaseRecords(account.id, day).get(process.name) ?? emptyLeaseRecord
  }

  /** The first violation ends the run. */
  fail(violation: string): void {
    if (this.violation !== undefined) return
    this.violation = violation
    this.trace(() => `VIOLATION: ${violation}`)
    this.virtualTime.stop()
  }

  trace(line: () => string): void {
    this.#trace?.(`${new Date(this.virtualTime.now).toISOString().slice(11, 23)} ${line()}`)
  }

  start(): SimulatedProcess {
    const process = new SimulatedProcess(`p${this.processes.length + 1}`, this.virtualTime, this.random)
    for (const account of this.accounts) process.accounts.set(account, accountWith(account.limit, account.id))
    this.processes.push(process)
    this.trace(() => `${process.name} starts`)
    process.start(this.#systemUnderTest.openLedger, this.network.storeFor(process))
    return process
  }

  /** kill -9. */
  kill(process: SimulatedProcess): void {
    this.trace(() => `${process.name} is killed`)
    process.state = 'dead'
    this.counts.kills += 1
    this.#recordForfeit(process)
  }

  /** SIGTERM. */
  stop(process: SimulatedProcess): void {
    this.trace(() => `${process.name} stops`)
    process.state = 'stopping'
    this.counts.stops += 1
    void process.ledger.stop().then(() => this.virtualTime.after(0, () => this.#onStopped(process)))
  }

  call(process: SimulatedProcess, account: SimulatedAccount, cost: number): ChargeResult | Promise<ChargeResult> {
    const result = process.ledger.charge(process.accounts.get(account) ?? accountWith(0, account.id), cost, this.faultProfile.grace)
    if (!(result instanceof Promise)) return this.#recordResult(process, account, cost, result)
    process.pendingCalls += 1
    return result.then(late => {
      process.pendingCalls -= 1
      return this.#recordResult(process, account, cost, late)
    })
  }

  /** Each process learns of the change within a second, as of every change in the store. */
  changePlan(account: SimulatedAccount, limit: number): void {
    this.trace(() => `${account.id} has ${limit} credits a day, not ${account.limit}`)
    const old = account.changeLimit(limit, this.virtualTime.now + planPropagationMs)
    for (const process of this.liveProcesses) {
      process.schedule(this.random.between(0, 1_000), () => {
        process.accounts.set(account, accountWith(account.limit, account.id))
      })
    }
    // By then every request with the old limit has been answered: no grant exceeds the new limit.
    this.virtualTime.after(planPropagationMs, () => {
      old.limit = Math.min(old.limit, Math.max(...this.days.map(day => this.store.dayTotals(account.id, day).leased)))
    })
  }

  /** The store loses what happened since the backup. */
  restoreBackup(restore: () => void): void {
    const observedDays = this.processes.flatMap(process => this.observedDays(process))
    const before = observedDays.map(observed => ({ observed, record: this.leaseRecord(observed) }))
    restore()
    for (const { observed, record } of before) {
      observed.recordRestore(record, this.leaseRecord(observed))
      if (observed.hasForgottenState) {
        this.trace(() => `a backup is restored: for ${observed.label} it has ${JSON.stringify(observed.lastRecord)}`)
      }
    }
    // The store may apply a delayed request a second time: the grant may go to a process that has ended.
    for (const process of this.processes) if (process.state !== 'alive') this.#recordForfeit(process)
  }

  #recordResult(process: SimulatedProcess, account: SimulatedAccount, cost: number, result: ChargeResult): ChargeResult {
    if (result.kind !== 'charged' || process.state === 'dead') return result
    const observed = this.observedDay(process, account, result.day)
    const trueDay = this.isStoreDayCorrect ? this.#expectedDay(observed) : this.today
    this.counts.calls += 1
    this.#recordServed(observed, trueDay, cost)
    if (this.isStoreDayCorrect && observed.day !== trueDay) this.fail(`${observed.label}: served on a day that is not the day of the lease`)
    if (!this.network.isFaultless && this.random.chance(this.faultProfile.refundRate)) {
      process.schedule(this.random.between(0, maxRefundDelayMs), () => this.#refund(observed, trueDay, cost, () => result.refund()))
    }
    return result
  }

  /** Midnight comes early rather than late: an overdraft before the true midnight may be the next day's. */
  #expectedDay({ day }: ObservedDay): number {
    const isEarly = this.faultProfile.grace.maxDurationMs > 0 && day === Math.floor((this.virtualTime.now + maxDelayMs) / dayMs)
    return isEarly ? day : this.today
  }

  #recordServed(observed: ObservedDay, trueDay: number, cost: number): void {
    observed.recordServed(trueDay, cost)
    this.#changedDays.add(observed)
  }

  #refund(observed: ObservedDay, trueDay: number, cost: number, refund: () => boolean): void {
    const isCounted = refund()
    // A second refund of a call must have no effect.
    if (this.random.chance(0.3)) refund()
    this.trace(() => `${observed.label}: ${cost} refunded, ${isCounted ? 'and counted' : 'too late'}`)
    if (!isCounted) return
    this.#recordServed(observed, trueDay, -cost)
    observed.recentRefunds = [...observed.recentRefunds, { at: this.virtualTime.now, cost }]
  }

  #onLeaseRequest(process: SimulatedProcess, request: LeaseRequest, sentAt: number): void {
    const account = this.accounts.find(({ id }) => id === request.account)
    if (account === undefined) return this.fail(`${process.name} requested credits of ${request.account}, which does not exist`)
    const observed = this.observedDay(process, account, request.day)
    const record = this.leaseRecord(observed)
    if (this.faultProfile.grace.maxDurationMs > 0) observed.recordReportedOverdraft(record, request.counters?.granted ?? 0)
    observed.lastRecord = record
    this.trace(() => `${request.process} requests ${JSON.stringify(request)}: ${JSON.stringify(record)}`)
    this.#changedDays.add(observed)
    this.#updatedDays.add(observed)
    const held = record.granted - record.returned - observed.served
    if (held <= maxLease(this, account, request.day)) observed.recentRefunds = observed.recentRefunds.filter(({ at }) => at > sentAt)
  }

  #onStopped(process: SimulatedProcess): void {
    if (process.state !== 'stopping') return
    process.state = 'stopped'
    this.trace(() => `${process.name} has stopped`)
    if (process.log.lines.some(({ message }) => message.includes('stay reserved until midnight UTC'))) this.#recordForfeit(process)
    else checkStopped(this, process)
  }

  #recordForfeit(process: SimulatedProcess): void {
    for (const observed of this.observedDays(process)) observed.maxForfeited = Math.max(observed.maxForfeited, maxHeld(this, observed))
  }

  #checkInvariants(): void {
    for (const observed of this.#changedDays) checkLease(this, observed)
    for (const { account, day } of this.#updatedDays) checkTotals(this, account, day)
    this.#changedDays.clear()
    this.#updatedDays.clear()
  }
}

/** The time within which an upstream fails and its call is refunded. */
const maxRefundDelayMs = 3_000
/** After this time neither a stalled process nor a delayed message has an old plan. */
const planPropagationMs = 15_000
