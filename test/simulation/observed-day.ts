import { emptyLeaseRecord } from '../../src/store/lease-accounting.ts'
import type { LeaseCounters } from '../../src/store/lease-accounting.ts'
import type { SimulatedAccount } from './simulated-account.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/** One process's day with one account, as somebody outside sees it; credits. */
export class ObservedDay {
  readonly machine: SimulatedProcess
  readonly account: SimulatedAccount
  readonly day: number
  /** Less what was given back. */
  served = 0
  /** The most that it served beyond what the store had granted, since the store heard of it last. */
  overdraft = 0
  /** The store forgot something of it, when a backup was put back. */
  hasForgottenState = false
  /** A backup was put back that is newer than the one before: of what happened in between some is known and some is not. */
  hasMixedBackups = false
  /** What it forgot having granted. */
  forgottenGrants = 0
  /** What it forgot having got back. */
  forgottenReturns = 0
  /** What the process may have taken along when it ended. */
  maxForfeited = 0
  /** What the store had on record after the last ask. */
  lastRecord: LeaseCounters = emptyLeaseRecord
  /** Refunds since the process last held no more than a chunk. */
  recentRefunds: readonly Refund[] = []

  constructor(machine: SimulatedProcess, account: SimulatedAccount, day: number) {
    this.machine = machine
    this.account = account
    this.day = day
  }

  /** What is served beyond what the store has granted and not got back, or had before it forgot. */
  overdraftAgainst({ granted, returned }: LeaseCounters): number {
    return this.served - (granted - returned) - this.forgottenGrants
  }

  /** For messages. */
  get label(): string {
    return `${this.machine.name} with ${this.account.id}`
  }
}

interface Refund {
  readonly at: number
  readonly cost: number
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
