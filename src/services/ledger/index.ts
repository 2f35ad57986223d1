import { randomBytes } from 'node:crypto'
import type { Account } from '../../plugin/call.ts'
import type { LedgerStore } from '../../store/store.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import { AccountLedgers } from './account-ledger.ts'
import type { ChargeResult } from './account-ledger.ts'
import { LedgerClient } from './ledger-client.ts'
import type { LedgerClientOptions } from './ledger-client.ts'
import type { OutageGrace } from './store-outage.ts'

export type { ChargeResult } from './account-ledger.ts'
export type { OutageGrace } from './store-outage.ts'

/** Daily balances. At every moment, over all processes: served <= leased <= limit, except for overdrafts. */
export interface Ledger {
  /** Charges `cost` credits to the account's day; almost always without a promise. No grace unless given. */
  charge(account: Account, cost: number, grace?: OutageGrace): MaybePromise<ChargeResult>
}

export interface LedgerService extends Ledger {
  /** Registers this process with the store. */
  start(): Promise<void>
  /** Returns what is leased of an account and not used: another process of the gateway needs it for a call. */
  returnUnused(account: string): Promise<void>
  /** Returns all leased credits that are left; charges are refused from then on. Safe without start(), and twice. */
  stop(): Promise<void>
}

interface LedgerOptions extends LedgerClientOptions {
  /** A name that is unique to this start of this process; 64 random bits unless given. */
  readonly process?: string
}

/** The ledger of this process: leases parts of each account's day from the store, and charges them in memory. */
export const openLedger = (
  store: LedgerStore,
  clock: Clock,
  { process = randomBytes(8).toString('hex'), ...options }: LedgerOptions,
): LedgerService => {
  const { log } = options
  const client = new LedgerClient(store, clock, process, options)
  const accountLedgers = new AccountLedgers(client)
  let stopped: Promise<void> | undefined

  const stop = async (): Promise<void> => {
    const unreturned = await accountLedgers.stop()
    if (unreturned > 0) log.warn({ accounts: unreturned }, unreturnedCredits)
    await client.stop()
  }
  return {
    charge: accountLedgers.charge,
    returnUnused: accountLedgers.returnUnused,
    start: () => client.start(),
    stop: () => (stopped ??= stop()),
  }
}

const unreturnedCredits = 'store unreachable at shutdown: unused leased credits could not be returned and stay reserved until midnight UTC'
