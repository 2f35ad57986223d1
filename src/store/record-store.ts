import type { MaybePromise } from '../util/async.ts'
import type { Json } from '../util/json.ts'

/**
 * What the portal stores, the log of changes, the filters of callers, the nodes that are drained or readmitted, evidence of wrong results, and what plugins keep. The names are stored, so that they cannot change.
 */
export type RecordKind =
  | 'session'
  | 'sign-in-link'
  | 'oidc-sign-in'
  | 'sign-up'
  | 'signed-up'
  | 'person'
  | 'email'
  | 'email-confirmation'
  | 'mailbox'
  | 'invitation'
  | 'invitation-to'
  | 'identity'
  | 'identity-of'
  | 'token'
  | 'secret'
  | 'change'
  | 'deletion'
  | 'alerts'
  | 'delivery'
  | 'month-use'
  | 'incident'
  | 'outage'
  | 'lock'
  | 'filter'
  | 'drained-node'
  | 'evidence'
  | 'readmitted-node'
  | 'plugin'

/** What an account has in the portal. */
export const accountRecordKinds = [
  'session',
  'sign-in-link',
  'person',
  'email',
  'email-confirmation',
  'mailbox',
  'invitation',
  'identity',
  'identity-of',
  'token',
  'delivery',
  'month-use',
  'incident',
] as const satisfies readonly RecordKind[]

/** A JSON value that belongs to one account and expires. */
export interface StoredRecord {
  /** Unique among the records of its kind. Never a secret itself: the hash of one. */
  readonly id: string
  /** Id of the account; of a change, its month; of the settings of alerts, their bucket; of what finds invitations, the hash of an address; of a deletion, a drained or readmitted node, evidence and what plugins keep, empty. */
  readonly account: string
  readonly value: Json
  /** Milliseconds since 1970; `neverExpires` at most. */
  readonly expires: number
}

export const neverExpires = Number.MAX_SAFE_INTEGER

/** Of one record: from what was found to what it is from then on; absent where there is none. The same in both: it must not change meanwhile. */
export interface RecordChange {
  readonly kind: RecordKind
  readonly id: string
  readonly found?: StoredRecord | undefined
  readonly record?: StoredRecord | undefined
}

/** Records by kind. An expired record does not exist. */
export interface RecordStore {
  /** Changes several records in one step. False, and nothing is written, when one of them is not as it was found any more: changed, added, removed or expired. */
  changeRecords(changes: readonly RecordChange[]): Promise<boolean>
  /** Replaces the record with the same kind and id. */
  putRecord(kind: RecordKind, record: StoredRecord): Promise<void>
  /** False, and nothing is written, when there is a record with the same kind and id. */
  addRecord(kind: RecordKind, record: StoredRecord): Promise<boolean>
  /** Gives the record another value. False, and nothing is written, when it is not as it was found any more: changed, removed or expired. */
  replaceRecord(kind: RecordKind, found: StoredRecord, value: Json, expires?: number): Promise<boolean>
  findRecord(kind: RecordKind, id: string): MaybePromise<StoredRecord | undefined>
  /** Removes the record; of several callers at once, one gets it. */
  takeRecord(kind: RecordKind, id: string): Promise<StoredRecord | undefined>
  /** All of one account, in the order of their ids. */
  records(kind: RecordKind, account: string): MaybePromise<readonly StoredRecord[]>
}

export const unexpired = (record: StoredRecord | undefined, now: number): StoredRecord | undefined =>
  record !== undefined && record.expires > now ? record : undefined

/** The filters of callers in the store. As RecordStore. */
export interface FilterRecords {
  put(record: StoredRecord): Promise<void>
  /** False, and nothing is written, when it is not as it was found any more. */
  replace(found: StoredRecord, record: StoredRecord): Promise<boolean>
  find(id: string): Promise<StoredRecord | undefined>
  take(id: string): Promise<StoredRecord | undefined>
}

/** Without the rest of the store. */
export const openFilterRecords = (
  store: Pick<RecordStore, 'putRecord' | 'replaceRecord' | 'findRecord' | 'takeRecord'>,
): FilterRecords => ({
  put: record => store.putRecord('filter', record),
  replace: (found, { value, expires }) => store.replaceRecord('filter', found, value, expires),
  find: async id => store.findRecord('filter', id),
  take: id => store.takeRecord('filter', id),
})
