import { randomBytes } from 'node:crypto'
import type { Account } from '../../plugin/call.ts'
import type { LedgerStore } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import { AccountLedger } from './account-ledger.ts'
import { LedgerClient } from './ledger-client.ts'
import type { OutageGrace, ChargeResult } from './charge-result.ts'
import type { Log } from '../log.ts'

export type { OutageGrace, ChargeResult } from './charge-result.ts'

/** Daily balances. At every moment, over all processes: served <= leased <= balance, but for what is lent by grace. */
export interface Ledger {
  /** Draws `cost` credits from the account's day; almost always without waiting (no promise). No grace unless given. */
  charge(account: Account, cost: number, grace?: OutageGrace): ChargeResult | Promise<ChargeResult>
}

export interface LedgerService extends Ledger {
  /** Counts this process among those that share the balances. */
  start(): Promise<void>
  /** Gives back all that is in hand; charges are refused from then on. Safe without start(), and twice. */
  stop(): Promise<void>
}

export interface LedgerOptions {
  readonly log: Log
  /** A name that no other start of any process has; 64 random bits unless given. */
  readonly newProcessName?: () => string
}

/** The ledger of this process: it leases parts of each account's day from the store and spends them in memory. */
export const openLedger = (
  store: LedgerStore,
  clock: Clock,
  { log, newProcessName = () => randomBytes(8).toString('hex') }: LedgerOptions,
): LedgerService => {
  const client = new LedgerClient(store, clock, newProcessName(), log)
  const accountLedgers = new Map<string, AccountLedger>()
  let stopped: Promise<void> | undefined

  const openAccount = (account: string): AccountLedger => {
    const accountLedger = new AccountLedger(account, client, () => accountLedgers.delete(account))
    accountLedgers.set(account, accountLedger)
    // Too late: it must not take what nobody would give back.
    if (stopped !== undefined) void accountLedger.stop()
    return accountLedger
  }
  const stop = async (): Promise<void> => {
    const released = await Promise.all(Array.from(accountLedgers.values(), purse => purse.stop()))
    const lost = released.filter(done => !done).length
    if (lost > 0) log.warn({ accounts: lost }, 'the store was away: what this process held is lost for the day')
    await client.stop()
  }
  return {
    charge: (account, cost, grace) =>
      (accountLedgers.get(account.id) ?? openAccount(account.id)).charge(account.plan.dailyCredits, cost, grace),
    start: () => client.start(),
    stop: () => (stopped ??= stop()),
  }
}
