import type { RootDatabase } from 'lmdb'
import type { LeaseRecord } from '../lease-accounting.ts'
import type { RecordKind, StoredRecord } from '../record-store.ts'
import type { AccountRow, KeyRow } from '../store.ts'

/** A process's last heartbeat. */
export interface ProcessHeartbeat {
  readonly pid: number
  /** Milliseconds since 1970. */
  readonly seen: number
}

/** The hour comes first, so that old rows are adjacent. */
export type UsageRowKey = [hour: number, account: string, key: string, network: string, method: string, outcome: string, forwarded: 0 | 1]
export type UsageRowValue = readonly [calls: number, credits: number]

/** The last usage report of a process. */
interface LastReport {
  readonly seq: number
  /** Of the report before; an older Tollgate did not write it. */
  readonly previousSeq?: number
  readonly hour: number
  readonly isFinal?: boolean
}

/** Sorts after every id and name in a key. */
export const maxKeySuffix = '\uffff'

/**
 * `version` of the schema, `changes` of accounts and keys so far, the latest `day` that any process has seen, and the `time` of the
 * last heartbeat in ms since 1970, as StoreClock reads it.
 */
export const openMetaTable = (root: RootDatabase) => root.openDB<number, string>({ name: 'meta' })

/** By id. */
export const openAccountsTable = (root: RootDatabase) => root.openDB<AccountRow, string>({ name: 'accounts' })

/** By the hash of the key's text. */
export const openKeysTable = (root: RootDatabase) => root.openDB<KeyRow, string>({ name: 'keys' })

/** Every table of the folder. Rows are JSON. The names are stored in the file, so that they cannot change. */
export const openTables = (root: RootDatabase) => ({
  meta: openMetaTable(root),

  accounts: openAccountsTable(root),
  accountIdsByName: root.openDB<string, string>({ name: 'account-names' }),
  keys: openKeysTable(root),
  keyHashesById: root.openDB<string, string>({ name: 'key-ids' }),
  keyHashesByAccount: root.openDB<string, [account: string, created: number, id: string]>({ name: 'account-keys' }),

  /** Credits that are leased, over all processes. */
  leased: root.openDB<number, [day: number, account: string]>({ name: 'sums' }),
  leaseRecords: root.openDB<LeaseRecord, [day: number, account: string, process: string]>({ name: 'entries' }),
  /** Credits of counted calls. */
  reportedUse: root.openDB<number, [day: number, account: string, process: string]>({ name: 'counted' }),
  heartbeats: root.openDB<ProcessHeartbeat, string>({ name: 'processes' }),

  usage: root.openDB<UsageRowValue, UsageRowKey>({ name: 'usage' }),
  /** The sums of `usage`. */
  hourTotals: root.openDB<UsageRowValue, [hour: number, account: string]>({ name: 'usage-totals' }),
  lastReports: root.openDB<LastReport, string>({ name: 'usage-reports' }),

  records: root.openDB<StoredRecord, [kind: RecordKind, id: string]>({ name: 'records' }),
  recordsByAccount: root.openDB<true, [kind: RecordKind, account: string, id: string]>({ name: 'account-records' }),
  recordsByExpiry: root.openDB<true, [expires: number, kind: RecordKind, id: string]>({ name: 'record-expiry' }),
})

export type LmdbTables = ReturnType<typeof openTables>
