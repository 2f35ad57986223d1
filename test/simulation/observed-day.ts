import { emptyLeaseRecord } from '../../src/store/lease-accounting.ts'
import type { LeaseRecord } from '../../src/store/lease-accounting.ts'
import type { SimulatedAccount } from './simulated-account.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/** The credits of one account's day in one process, as an observer counts them. */
export class ObservedDay {
  readonly process: SimulatedProcess
  readonly account: SimulatedAccount
  readonly day: number
  /** Without refunds. */
  served = 0
  /** The most that was served beyond the grants, since the last request that reported it. */
  overdraft = 0
  /** A restored backup lacks requests of this day. */
  hasForgottenState = false
  /** A backup was restored that is newer than the one restored before: the store has only a part of what happened in between. */
  hasMixedBackups = false
  /** Grants that restored backups lack. */
  forgottenGrants = 0
  /** Returned credits that restored backups lack. */
  forgottenReturns = 0
  /** The most that the process may have forfeited when it ended. */
  maxForfeited = 0
  /** The store's record after the last request. */
  lastRecord: LeaseRecord = emptyLeaseRecord
  /** Refunds since the process last held no more than one lease. */
  recentRefunds: readonly Refund[] = []

  constructor(process: SimulatedProcess, account: SimulatedAccount, day: number) {
    this.process = process
    this.account = account
    this.day = day
  }

  /** What is served beyond the grants that were not returned, with the grants that the store has forgotten. */
  overdraftAgainst({ granted, returned }: LeaseRecord): number {
    return this.served - (granted - returned) - this.forgottenGrants
  }

  recordServed(trueDay: number, credits: number): void {
    this.served += credits
    this.account.recordServed(trueDay, credits)
  }

  /** A request reports the overdraft, and the store charges it. */
  recordReportedOverdraft(record: LeaseRecord, reportedGrants: number): void {
    const credits = Math.max(0, Math.min(reportedGrants, record.granted) - this.lastRecord.granted)
    this.account.recordOverdraft(this.day, credits)
    // Credits that were returned before they were overdrawn anew did not look like an overdraft.
    this.overdraft = Math.max(0, this.overdraft - credits + record.returned - this.lastRecord.returned)
  }

  recordRestore(before: LeaseRecord, restored: LeaseRecord): void {
    const [granted, returned] = [before.granted - restored.granted, before.returned - restored.returned]
    // Negative: this backup is newer than the one restored before.
    this.hasMixedBackups ||= granted < 0 || returned < 0
    const lostGrants = Math.max(0, granted) + Math.max(0, -returned)
    this.hasForgottenState ||= before.seq !== restored.seq
    this.lastRecord = restored
    this.forgottenGrants += lostGrants
    this.forgottenReturns += Math.max(0, returned) + Math.max(0, -granted)
    this.account.recordForgottenGrant(this.day, lostGrants)
  }

  /** For messages. */
  get label(): string {
    return `${this.process.name} with ${this.account.id}`
  }
}

interface Refund {
  readonly at: number
  readonly cost: number
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
