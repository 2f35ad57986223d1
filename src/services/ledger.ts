import { randomBytes } from 'node:crypto'
import type { Account } from '../call.ts'
import type { LedgerStore } from '../store/store.ts'
import type { Clock } from './clock.ts'
import { Purse } from './ledger/purse.ts'
import { Teller } from './ledger/teller.ts'
import type { Grace, Verdict } from './ledger/verdict.ts'
import type { Log } from './log.ts'

export type { Grace, Verdict } from './ledger/verdict.ts'

/** Daily balances. At every moment, over all processes: served <= leased <= balance, but for what is lent by grace. */
export interface Ledger {
  /** Draws `cost` credits from the account's day; almost always without waiting (no promise). No grace unless given. */
  charge(account: Account, cost: number, grace?: Grace): Verdict | Promise<Verdict>
}

export interface OpenLedger extends Ledger {
  /** Counts this process among those that share the balances. */
  start(): Promise<void>
  /** Gives back all that is in hand; charges are refused from then on. Safe without start(), and twice. */
  stop(): Promise<void>
}

export interface LedgerOptions {
  readonly log: Log
  /** A name that no other start of any process has; 64 random bits unless given. */
  readonly random?: () => string
}

/** The ledger of this process: it leases parts of each account's day from the store and spends them in memory. */
export const openLedger = (
  store: LedgerStore,
  clock: Clock,
  { log, random = () => randomBytes(8).toString('hex') }: LedgerOptions,
): OpenLedger => {
  const teller = new Teller(store, clock, random(), log)
  const purses = new Map<string, Purse>()
  let stopped: Promise<void> | undefined

  const open = (account: string): Purse => {
    const purse = new Purse(account, teller, () => purses.delete(account))
    purses.set(account, purse)
    // Too late: it must not take what nobody would give back.
    if (stopped !== undefined) void purse.stop()
    return purse
  }
  const stop = async (): Promise<void> => {
    const given = await Promise.all(Array.from(purses.values(), purse => purse.stop()))
    const lost = given.filter(done => !done).length
    if (lost > 0) log.warn({ accounts: lost }, 'the store was away: what this process held is lost for the day')
    await teller.stop()
  }
  return {
    charge: (account, cost, grace) => (purses.get(account.id) ?? open(account.id)).charge(account.plan.dailyCredits, cost, grace),
    start: () => teller.start(),
    stop: () => (stopped ??= stop()),
  }
}
