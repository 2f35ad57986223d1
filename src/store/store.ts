import { crc32 } from 'node:zlib'
import type { Key, RequestLogSetting } from '../plugin/call.ts'
import type { MaybePromise } from '../util/async.ts'
import type { LeaseCounters, LeaseRequest } from './lease-accounting.ts'
import type { RecordStore } from './record-store.ts'
import type { RequestLogStore } from './request-log-store.ts'
import type { AccountUseStore, UsageCount, UsagePeriods, UsageStore } from './usage-store.ts'

/**
 * What outlives a process: accounts, their keys, the ledger of each day, usage, and records of the portal. Several processes
 * use one store at once. A method that fails throws or rejects, and may be called again.
 */
export interface Store
  extends AccountStore,
    LedgerStore,
    BalanceStore,
    UsageStore,
    UsagePeriods,
    AccountUseStore,
    RecordStore,
    RequestLogStore,
    StoreDetails,
    ClockRepair {
  /** What the operator should change, although the store works. */
  readonly warnings: readonly string[]
  /** Waits for writes in flight. */
  close(): Promise<void>
}

/** What `check` reads of a store. */
export interface StoreContents extends Pick<Store, 'warnings'> {
  readonly accounts: readonly AccountRow[]
  /** Whether a key has a rate of its own. */
  readonly hasKeyRates: boolean
  /** Whether another store has taken its place. */
  readonly isMoved: boolean
}

/** Up to this round trip a store is near: that calls wait for it costs little. */
export const nearStoreMs = 5

/** A store that has not answered after this time counts as unreachable. */
export const storeTimeoutMs = 1_000

export interface AccountRow {
  readonly id: string
  /** Unique. */
  readonly name: string
  /** Names that it had before: it is still found by them, and no other account gets one. */
  readonly formerNames?: readonly string[]
  /** Name of a plan in gateway.yaml. */
  readonly plan: string
  /** Credits a day of the account's own, in place of the plan's. */
  readonly credits?: number
  /** What the operator calls the account besides its name. */
  readonly label?: string
  /** Since when its keys are refused until the operator resumes it. Milliseconds since 1970, as are all times of accounts and keys. */
  readonly suspended?: number
  /** Why the operator has suspended it, as people of the account read it. */
  readonly suspensionReason?: string
  /** When the account is removed, unless the operator resumes it before. Such an account is suspended. */
  readonly deleteAt?: number
  /** As `suspended`, where the account was made by a sign-up that the operator has not approved. */
  readonly awaitsApproval?: number
  /** What is not logged of its requests; all is where absent. */
  readonly requestLog?: RequestLogSetting
  readonly created: number
  /** What the last `accounts apply` that had the account in its files has set; absent for an account that no apply has declared. */
  readonly declared?: Declaration
}

/** What an apply may take back: what others have set stays. */
export interface Declaration {
  /** Names of people; absent where the files leave the people alone. */
  readonly people?: readonly string[]
  /** As the account has it, where the files have suspended the account. */
  readonly suspended?: number
  /** As the account has it, where the files no longer have the account. */
  readonly deleteAt?: number
}

/** A key as it is stored, by the hash of its text. */
export interface KeyRow extends Key {
  /** Id of the account. */
  readonly account: string
  readonly created: number
  readonly revoked?: number
  /** Since when the key is refused until somebody resumes it. */
  readonly suspended?: number
  /** The last four characters, so that people can tell keys apart. */
  readonly hint: string
}

/** A change of members: null removes a member, and a member that is not named stays. */
type RowChange<Row, Name extends keyof Row> = { readonly [N in Name]?: Row[N] | null }

/** An account always has a plan. */
export type AccountChange = RowChange<
  AccountRow,
  'credits' | 'label' | 'suspended' | 'suspensionReason' | 'deleteAt' | 'awaitsApproval' | 'declared' | 'requestLog'
> &
  Partial<Pick<AccountRow, 'plan'>>
export type KeyChange = RowChange<KeyRow, Exclude<keyof KeyRow, 'id' | 'account' | 'hint' | 'created' | 'revoked'>>

export const applyChange = <Row extends object>(row: Row, change: { readonly [N in keyof Row]?: Row[N] | null | undefined }): Row => {
  const members = Object.entries({ ...row, ...change })
  // The remaining members are of the row's type: only optional members may be null in a change.
  return Object.fromEntries(members.filter(([, value]) => value !== null && value !== undefined)) as Row
}

export interface KeyWithAccount {
  readonly key: KeyRow
  readonly account: AccountRow
}

export interface AccountStore {
  /** False, and nothing is written, when another account has the name. */
  addAccount(account: AccountRow): Promise<boolean>
  /** False, and nothing is written, when the account is not as it was found any more. */
  changeFoundAccount(found: AccountRow, change: AccountChange): Promise<boolean>
  /** False, and nothing is written, when another account has the name, or had it, or when the account is not as it was found any more. */
  renameAccount(found: AccountRow, name: string): Promise<boolean>
  /** Removes an account and its keys, if it is to be removed at that time. Usage and the ledger stay until they expire. */
  removeAccount(id: string, deleteAt: number): Promise<boolean>
  /** By id or by name. */
  account(idOrName: string): MaybePromise<AccountRow | undefined>
  /** In the order of their names. */
  accounts(): MaybePromise<readonly AccountRow[]>
  addKey(hash: string, key: KeyRow): Promise<void>
  /** The key as it is now; undefined when there is none with this id. */
  changeKey(id: string, change: KeyChange): Promise<KeyRow | undefined>
  /** The key as it is now; a key that was revoked before keeps its time. Undefined when there is none with this id. */
  revokeKey(id: string, time: number): Promise<KeyRow | undefined>
  /** In the order of their creation. */
  keys(account: string): MaybePromise<readonly KeyRow[]>
  /** Keys of all accounts whose text ends so, in any order. Reads all keys. */
  keysWithHint(hint: string): Promise<readonly KeyRow[]>
  findKey(hash: string): MaybePromise<KeyWithAccount | undefined>
  findKeyById(id: string): MaybePromise<KeyWithAccount | undefined>
  /** Differs after each change of accounts or keys, by whichever process. */
  changeCount(): MaybePromise<number>
  /** The same, with the changes of each group of accounts that has some. */
  changeCounts(): MaybePromise<ChangeCounts>
  /** Calls `onChange` after an account of this group, or a key of it, changed, as far as this process is notified; without a group, any may have. Returns the unsubscribe function. */
  subscribe(onChange: (group?: number) => void): () => void
}

export interface ChangeCounts {
  readonly total: number
  readonly byGroup: ReadonlyMap<number, number>
}

/** After a change, a process reads the keys of a group again, and not those of all accounts. */
export const changeGroupCount = 256

export const changeGroupOf = (account: string): number => crc32(account) % changeGroupCount

/** The store's clock, which names the day for all processes. Its day never goes back. */
export interface StoreDay {
  /** Days since 1970, UTC. */
  readonly today: number
  /** Milliseconds until the next day. */
  readonly endsInMs: number
}

export interface LeaseResponse extends StoreDay {
  /** The store's record of the process, with this request. */
  readonly counters: LeaseCounters
  /** Credits that can still be granted; negative when the limit was lowered. */
  readonly remaining: number
}

export interface HeartbeatResponse extends StoreDay {
  readonly liveProcesses: number
  /** By how much the clock is ahead of the store's time, which does not follow it: StoreClock. 0 while it is followed. */
  readonly ignoredJumpMs: number
}

/** One account's day over all processes: leased = used + held + forfeited. */
interface DayBalance extends StoreDay {
  readonly day: number
  readonly leased: number
  /** What counted calls have cost: processes report it together with the counts, within seconds. */
  readonly used: number
  /** Leased by live processes and not used; calls that are not counted yet are among it. */
  readonly held: number
  /** Leased by processes that died and not used. */
  readonly forfeited: number
  /** False while a process has leased credits and has not reported to the store yet. */
  readonly isExact: boolean
}

/**
 * What a key with a daily limit of its own has used today, by its leases alone: its calls are counted for its account. It is up to a second late, or
 * 10 s among thousands of accounts.
 */
export interface KeyUse extends Pick<DayBalance, 'day' | 'used' | 'forfeited'> {}

export interface DayTotals extends DayBalance {
  /** Credits of the day by the usage counts, read in one step with `used`. */
  readonly counted: number
  /**
   * When, in hours since 1970, a process reported last that has been silent since then, and had credits of the day that no counted call has cost: it
   * died, or cannot reach the store and will report calls. Of several, the last one; absent without one.
   */
  readonly silentHour?: number
}

/** Leases by account and UTC day. */
export interface LedgerStore {
  /** For how long a lease should last: longer where a request costs more. */
  readonly horizonMs: number
  /** One atomic step: applyLeaseRequest(). */
  requestLease(request: LeaseRequest): Promise<LeaseResponse>
  /** To be sent each second by each live process. */
  heartbeat(process: string): Promise<HeartbeatResponse>
  /** The process has returned all leased credits, and ends. */
  deregister(process: string): Promise<void>
}

/** The days of accounts, for people: today's, unless another day is named. */
export interface BalanceStore {
  dayTotals(account: string, day?: number): MaybePromise<DayTotals>
  /** dayTotals() without the usage counts, of which a day may have thousands. */
  dayBalance(account: string, day?: number): MaybePromise<DayBalance>
  keyUse(key: string): MaybePromise<KeyUse>
}

/** Hours since 1970, UTC. */
interface HourRange {
  readonly from: number
  readonly to: number
}

/** What reports and commands read in addition. */
export interface StoreDetails {
  /** Empty where the store has none of these limits, or does not tell. */
  usedShares(): MaybePromise<UsedShares>
  countLiveProcesses(): MaybePromise<number>
  /** dayTotals() of today of each of these accounts, read together: in a few round trips, however many there are. */
  dayTotalsOf(accounts: readonly string[]): Promise<readonly DayTotals[]>
  /** All counts, or those from hour `from` up to, not including, hour `to`; those of one account and hour are adjacent. Of days without hours, those of the day. */
  allUsageCounts(hours?: HourRange): AsyncIterable<UsageCount>
}

/** What a store may have a limit of. */
export const storeLimits = ['memory', 'clients', 'disk'] as const

/** How much of a limit of the store is used, from 0 to 1: of several nodes, at the fullest. */
export type UsedShares = Readonly<Partial<Record<(typeof storeLimits)[number], number>>>

/** For a store whose day is wrong because a clock was. */
export interface ClockRepair {
  /**
   * Makes the clock's day the day of the store, and drops the leases of later days. To be called while no gateway uses the store;
   * it is in force for stores that are opened afterwards. Resolves with both days.
   */
  resetDay(): Promise<{ readonly from: number; readonly to: number }>
}

/** The ledger of a day is retained until so many days after it began. */
export const ledgerRetentionDays = 3

/** A process without a heartbeat for this time counts as dead. */
export const processTimeoutMs = 5_000

/** The store cannot be used, and the message tells the operator what to change. */
export class StoreError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StoreError'
  }
}

/** The files of the store are gone, or others stand in their place: what would be written is lost. */
export class StoreRemovedError extends StoreError {}

/** The store answers, but no longer has the accounts and keys that it had, until it has some again. */
export class StoreEmptiedError extends StoreError {}
