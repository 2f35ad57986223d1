import { randomBytes } from 'node:crypto'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import { isJsonObject, toJson } from '../../util/json.ts'
import type { Json } from '../../util/json.ts'
import type { Clock } from '../clock.ts'

export const changeAuthors = ['command', 'person', 'operator', 'gateway'] as const

/** Who changes accounts and keys: a command on a machine, a person in the dashboard, the admin listener, or the gateway by itself. */
export interface ChangeAuthor {
  readonly kind: (typeof changeAuthors)[number]
  readonly name: string
}

export const changeActions = [
  'account-added',
  'account-changed',
  'account-removed',
  'alerts-changed',
  'key-created',
  'key-changed',
  'key-revoked',
  'link-created',
  'person-added',
  'person-changed',
  'person-removed',
  'person-left',
  'person-invited',
  'invitation-accepted',
  'invitation-declined',
  'invitation-withdrawn',
  'token-created',
  'token-removed',
  'node-drained',
  'node-undrained',
  'evidence-cleared',
  'problem-acknowledged',
  'problem-unacknowledged',
  'configuration-reloaded',
  'log-level-changed',
] as const

export type ChangeAction = (typeof changeActions)[number]

/** One entry of the log of changes. The members are those of `tollgate changes --json`. */
export interface Change {
  /** ISO 8601. */
  readonly time: string
  readonly by: ChangeAuthor
  readonly action: ChangeAction
  /** Absent where the change is of no account. */
  readonly account?: { readonly id: string; readonly name: string }
  /** Id of the key, the person or the token; NETWORK/NODE. */
  readonly target?: string
  /** The members that were set; null was removed. Times are ISO 8601. */
  readonly after?: { readonly [member: string]: Json }
  /** Their values before, where they are known. */
  readonly before?: { readonly [member: string]: Json }
}

export type NewChange = Omit<Change, 'time' | 'by'>

/** For longer than a year, so that a year can be compared with the one before. */
const changeRetentionMs = 400 * dayMs

/** YYYY-MM: the changes of a month are stored together. */
export const monthOf = (time: number): string => isoTime(time).slice(0, 7)

/** The entry, for a step that changes other records too. */
export const entryOf = (clock: Clock, by: ChangeAuthor, change: NewChange): StoredRecord => {
  const now = clock.now()
  const time = isoTime(now)
  // In the order of time; the random part tells changes of one millisecond apart.
  const id = `${time}-${randomBytes(6).toString('hex')}`
  const value = toJson({ time, by, ...change })
  return { id, account: monthOf(now), value, expires: now + changeRetentionMs }
}

export const recordChange = async (store: RecordStore, clock: Clock, by: ChangeAuthor, change: NewChange): Promise<void> => {
  await store.addRecord('change', entryOf(clock, by, change))
}

/** The changes of a month, YYYY-MM, the oldest first. */
export const readChanges = async (store: Pick<RecordStore, 'records'>, month: string): Promise<readonly Change[]> =>
  (await store.records('change', month)).flatMap(record => toChange(record) ?? [])

/** What owners of an account see of a change: not how the operator calls the account, nor who of the operator has made it. Undefined: nothing. */
export const changeForOwners = ({ by, before, after, ...change }: Change): Change | undefined => {
  const shown = { ...(before && { before: withoutPrivate(before) }), ...(after && { after: withoutPrivate(after) }) }
  if (after !== undefined && Object.keys(after).length > 0 && Object.keys(shown.after ?? {}).length === 0) return undefined
  const isPerson = by.kind === 'person'
  return { ...change, by: isPerson ? by : { kind: by.kind === 'gateway' ? 'gateway' : 'operator', name: '' }, ...shown }
}

const withoutPrivate = ({ label: _, declared: __, ...members }: NonNullable<Change['after']>): NonNullable<Change['after']> => members

/** Written by entryOf() alone. */
const toChange = ({ value }: StoredRecord): Change | undefined => {
  if (!isJsonObject(value)) return undefined
  const { before, after, ...change } = value as unknown as Change
  return { ...change, ...(before && { before: withIsoTimes(before) }), ...(after && { after: withIsoTimes(after) }) }
}

/** Times of accounts and keys are stored in ms; people and programs read them as they read all others. */
const withIsoTimes = (members: NonNullable<Change['after']>): NonNullable<Change['after']> =>
  Object.fromEntries(
    Object.entries(members).map(([name, value]) => [name, timeMembers.has(name) && typeof value === 'number' ? isoTime(value) : value]),
  )

const timeMembers: ReadonlySet<string> = new Set(['suspended', 'deleteAt', 'awaitsApproval', 'expires', 'revoked', 'until'])
