import { newEntry } from '../../src/store/lease.ts'
import type { Tally } from '../../src/store/lease.ts'
import type { Account } from './account.ts'
import type { Machine } from './machine.ts'

/** One process's day with one account, as somebody outside sees it; credits. */
export class Sheet {
  readonly machine: Machine
  readonly account: Account
  readonly day: number
  /** Less what was given back. */
  served = 0
  /** The most that it served beyond what the store had granted, since the store heard of it last. */
  lent = 0
  /** The store forgot something of it, when a backup was put back. */
  isForgotten = false
  /** A backup was put back that is newer than the one before: of what happened in between some is known and some is not. */
  isMixed = false
  /** What it forgot having granted. */
  lost = 0
  /** What it forgot having got back. */
  stuck = 0
  /** What the process may have taken along when it ended. */
  forfeit = 0
  /** What the store had on record after the last ask. */
  known: Tally = newEntry
  /** Refunds since the process last held no more than a chunk. */
  fresh: readonly Refund[] = []

  constructor(machine: Machine, account: Account, day: number) {
    this.machine = machine
    this.account = account
    this.day = day
  }

  /** What is served beyond what the store has granted and not got back, or had before it forgot. */
  beyond({ granted, returned }: Tally): number {
    return this.served - (granted - returned) - this.lost
  }

  /** For messages. */
  get title(): string {
    return `${this.machine.name} with ${this.account.id}`
  }
}

interface Refund {
  readonly at: number
  readonly cost: number
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
