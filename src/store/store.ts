import type { Key } from '../plugin/call.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { LeaseRequest, LeaseRecord, LeaseCounters } from './lease-accounting.ts'

/**
 * What outlives a process: accounts, their keys, the ledger of each day, and counts of calls. Several processes use one
 * store at once. A method that fails throws or rejects, and may be called again.
 */
export interface Store extends AccountStore, LedgerStore, UsageStore, CopySource {
  /** Waits until what was begun is written. */
  close(): Promise<void>
}

/** A store that has not answered after this time counts as unreachable. */
export const storeTimeoutMs = 1_000

export interface AccountRow {
  readonly id: string
  /** Unique. */
  readonly name: string
  /** Name of a plan; what it gives stands in gateway.yaml. */
  readonly plan: string
  /** Credits a day of its own, in place of the plan's. */
  readonly credits?: number
  /** Milliseconds since 1970, as `created` and `revoked` below. */
  readonly created: number
}

/** A key as it is stored, found by the hash of its text. */
export interface KeyRow extends Key {
  /** Id of the account. */
  readonly account: string
  readonly created: number
  readonly revoked?: number
  /** The last four characters, so that people can tell their keys apart. */
  readonly hint: string
}

/** What becomes different; null takes away what stands there, and what is not named stays. */
export type RowChange<Row, Name extends keyof Row> = { readonly [N in Name]?: Row[N] | null }

/** An account always has a plan. */
export type AccountChange = RowChange<AccountRow, 'credits'> & Partial<Pick<AccountRow, 'plan'>>
export type KeyChange = RowChange<KeyRow, 'networks' | 'methods' | 'origins'>

/** A key and whose it is. */
export interface KeyWithAccount {
  readonly key: KeyRow
  readonly account: AccountRow
}

export interface AccountStore {
  /** False, and nothing is written, when the name is taken. */
  addAccount(account: AccountRow): Promise<boolean>
  /** The account as it is now; undefined when there is none with this id. */
  changeAccount(id: string, change: AccountChange): Promise<AccountRow | undefined>
  /** By id or by name. */
  account(idOrName: string): MaybePromise<AccountRow | undefined>
  /** In the order of their names. */
  accounts(): MaybePromise<readonly AccountRow[]>
  addKey(hash: string, key: KeyRow): Promise<void>
  /** The key as it is now; undefined when there is none with this id. */
  changeKey(id: string, change: KeyChange): Promise<KeyRow | undefined>
  /** The key as it is now; a key that was revoked before keeps its time. Undefined when there is none with this id. */
  revokeKey(id: string, time: number): Promise<KeyRow | undefined>
  /** In the order in which they were made. */
  keys(account: string): MaybePromise<readonly KeyRow[]>
  findKey(hash: string): MaybePromise<KeyWithAccount | undefined>
  /** Another number than before after each change of accounts or keys, whichever process made it. */
  changeCount(): MaybePromise<number>
  /** Calls `changed` after accounts or keys changed, as far as the store hears of it. Returns how to stop that. */
  subscribe(onChange: () => void): () => void
}

/** The store's clock, which names the day for all processes. Its day never goes back. */
export interface StoreDay {
  /** Days since 1970, UTC. */
  readonly today: number
  /** Milliseconds until the next day. */
  readonly endsInMs: number
}

export interface LeaseResponse extends StoreDay {
  /** What the store has on record for the process that asked, this ask included. */
  readonly counters: LeaseCounters
  /** What can still be granted; below zero when the limit was lowered. */
  readonly remaining: number
}

export interface HeartbeatResponse extends StoreDay {
  /** How many live. */
  readonly liveProcesses: number
}

/** One account's day over all processes: leased = used + held + forfeited. */
export interface DayTotals extends StoreDay {
  readonly day: number
  readonly leased: number
  /** As last reported; a process reports within a second. */
  readonly used: number
  /** In the hands of processes that live. */
  readonly held: number
  /** Taken along by processes that died. */
  readonly forfeited: number
}

/** Balances by account and UTC day, kept for three days after. */
export interface LedgerStore {
  /** How far ahead a lease should reach, in ms: further where an ask costs more. */
  readonly horizonMs: number
  /** One atomic step; see lease(). */
  requestLease(request: LeaseRequest): Promise<LeaseResponse>
  /** Says that the process lives; to be repeated each second. */
  heartbeat(process: string): Promise<HeartbeatResponse>
  /** Says that the process has given back all it held, and ends. */
  deregister(process: string): Promise<void>
  /** Today's, unless another day is named. */
  dayTotals(account: string, day?: number): MaybePromise<DayTotals>
}

/** What calls have in common that are counted together. */
export interface UsageGroup {
  readonly account: string
  /** Id of the API key. */
  readonly key: string
  readonly network: string
  /** `other` when it does not stand in the network's method table. */
  readonly method: string
  /** `ok`, or the kind of the failure. */
  readonly outcome: string
  /** Was the answer a partner's? */
  readonly forwarded: boolean
}

/** What tells groups of one account apart, as one text; Redis keeps it. */
export const usageGroupKey = ({ key, network, method, outcome, forwarded }: UsageGroup): string =>
  JSON.stringify([key, network, method, outcome, forwarded])

/** Calls of one group in one hour. */
export interface UsageCount extends UsageGroup {
  /** Hours since 1970, UTC. */
  readonly hour: number
  readonly calls: number
  /** Kept; what was given back is not in it. */
  readonly credits: number
}

/**
 * What one process has counted since its last report. The number makes it safe to lose, to double and to delay: a report
 * is repeated, unchanged, until it is answered, and only then comes the next one.
 */
export interface UsageReport {
  /** Unique to one start of one process. */
  readonly process: string
  /** Grows with each report of the process; one that is not newer than the last one changes nothing. */
  readonly seq: number
  /** Added to what is there, below zero too: a call may be taken back later. None at all is allowed. */
  readonly counts: readonly UsageCount[]
  /** How many hours are kept; what is older is dropped, sooner or later. */
  readonly retentionHours: number
}

/** Counts of calls by group and hour. A row is the sum over all processes: rows do not grow with restarts. */
export interface UsageStore {
  /**
   * One atomic step. Resolves with the number of the newest report of this process that had been taken before: when it
   * is not the one that was answered last, the store has lost its last writes.
   */
  reportUsage(report: UsageReport): Promise<number>
  /** One account's counts from hour `from` up to, not including, hour `to`; in order of hours. */
  usageCounts(account: string, from: number, to: number): MaybePromise<readonly UsageCount[]>
}

/** What a copy into another store reads, beyond what a gateway does. */
export interface CopySource {
  /** How many processes live. */
  countLiveProcesses(): MaybePromise<number>
  /** An account's keys, each with the hash of its text. */
  hashedKeys(account: string): MaybePromise<readonly HashedKey[]>
  /** One account's day by process. */
  leaseRecords(account: string, day: number): MaybePromise<ReadonlyMap<string, LeaseRecord>>
  /** All counts of calls; those of one account and hour come one after the other. */
  allUsageCounts(): AsyncIterable<UsageCount>
}

export interface HashedKey {
  readonly hash: string
  readonly key: KeyRow
}

/** A process that has not said for so many ms that it lives is taken for dead. */
export const processTimeoutMs = 5_000

/** The store cannot be used, and the operator can change that; the message says how. */
export class StoreError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StoreFault'
  }
}
