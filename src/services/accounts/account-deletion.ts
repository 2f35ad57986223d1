import { accountRecordKinds, neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import type { RequestLogStore } from '../../store/request-log-store.ts'
import type { AccountRow, BalanceStore } from '../../store/store.ts'
import { storeTimeOf } from '../../store/store-clock.ts'
import { dayMs, hourMs, isoTime } from '../../util/dates.ts'
import { isJsonObject } from '../../util/json.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { everyMs, startRounds } from '../rounds.ts'
import type { BackgroundTask } from '../rounds.ts'
import { recordChange } from './change-history.ts'
import type { ChangeAuthor } from './change-history.ts'
import { RecordedAccounts } from './recorded-accounts.ts'
import type { RecordedStore } from './recorded-accounts.ts'

/** How long a deletion can be undone. */
export const deletionDelayMs = 7 * dayMs

interface DeletionContext {
  readonly store: RecordedStore
  readonly accounts: RecordedAccounts
  readonly clock: Clock
}

/**
 * Suspends an account at once, to be removed later. An account that is to be removed already keeps its time; what the operator has deleted, too,
 * only the operator resumes. Undefined when it no longer exists.
 */
export const deleteAccount = async (
  { store, accounts, clock }: DeletionContext,
  account: AccountRow,
  by: DeletionAuthor = 'operator',
): Promise<AccountRow | undefined> => {
  if (account.deleteAt !== undefined && by === 'owner') return account
  const change = await prepareDeletion(store, account, clock.now(), by)
  return account.deleteAt === undefined ? accounts.changeAccount(account.id, change) : account
}

/** Who has deleted an account, as stored. */
type DeletionAuthor = 'owner' | 'operator'

/** Resolves with the change that deletes the account. */
export const prepareDeletion = async (store: RecordStore, { id, suspended }: AccountRow, now: number, by: DeletionAuthor = 'operator') => {
  // First: removeDeletedAccounts() finds the account by it. It stays when the account is resumed.
  await store.putRecord('deletion', { id, account: '', value: by, expires: neverExpires })
  return { suspended: suspended ?? now, deleteAt: now + deletionDelayMs }
}

/** True unless the operator has deleted the account, or has suspended it since an owner has deleted it. */
export const mayOwnersResume = async (store: RecordStore, { id }: AccountRow): Promise<boolean> =>
  (await store.findRecord('deletion', id))?.value === 'owner'

/** The change by which an owner undoes a deletion: a suspension from before it stays. */
export const undoDeletionChange = ({ suspended, deleteAt = 0 }: AccountRow) => ({
  deleteAt: null,
  ...(suspended === deleteAt - deletionDelayMs && { suspended: null }),
})

/** The change that accepts an account's keys again, and approves one that was made by a sign-up. */
export const resumeChange = { suspended: null, suspensionReason: null, deleteAt: null, awaitsApproval: null } as const

/** How long a sign-up may take. */
const signUpTimeoutMs = hourMs

/** Of an account that a sign-up makes. It is removed in one step with the addition of the owner: while it is there, the account has nobody. */
export const signUpRecord = (account: string, began: number): StoredRecord => ({
  id: account,
  account: '',
  value: { signUp: began },
  expires: neverExpires,
})

/** Deletes the account of a sign-up that has failed: from then on it adds no owner. Repeated after it was cut off, it goes on. */
export const discardSignUp = async ({ store, accounts, clock }: DeletionContext, found: StoredRecord): Promise<void> => {
  const { id } = found
  const discarded = { ...found, value: { signUp: 0 } }
  if (!(await store.changeRecords([{ kind: 'deletion', id, found, record: discarded }]))) return
  const account = await store.account(id)
  const hasPeople = (await store.records('person', id)).length > 0
  const now = clock.now()
  if (account !== undefined && !hasPeople)
    await accounts.changeAccount(id, { suspended: account.suspended ?? now, deleteAt: now + deletionDelayMs })
  await store.replaceRecord('deletion', discarded, 'operator')
}

interface RemovalContext {
  readonly store: RecordedStore & Pick<BalanceStore, 'dayBalance'> & Pick<RequestLogStore, 'dropRequests'>
  readonly clock: Clock
  readonly log: Log
}

const removalAuthor: ChangeAuthor = { kind: 'gateway', name: 'deletion' }

/** Deletes accounts that failed sign-ups have left, and removes those whose time has come, with their keys, people, sessions, tokens and logged requests. After a failure the next run goes on. */
export const removeDeletedAccounts = async (context: RemovalContext, isStopped = () => false): Promise<void> => {
  const { store, clock } = context
  if (isStopped()) return
  for (const deletion of await store.records('deletion', '')) {
    if (isStopped()) return
    const { id, value } = deletion
    if (isJsonObject(value)) {
      if (clock.now() - Number(value['signUp']) < signUpTimeoutMs) continue
      const accounts = new RecordedAccounts(store, clock, removalAuthor)
      await discardSignUp({ store, accounts, clock }, deletion)
      continue
    }
    const account = await store.account(id)
    if (account !== undefined && !(await removeIfDue(context, account))) continue
    // Before its people are removed: whoever joins, and has seen the account before it was removed, finds this changed and does not.
    await store.putRecord('deletion', { ...deletion, value: 'removed' })
    for (const kind of accountRecordKinds) {
      for (const record of await store.records(kind, id)) await store.takeRecord(kind, record.id)
    }
    await store.takeRecord('alerts', id)
    await store.dropRequests(id)
    await store.takeRecord('deletion', id)
  }
}

/** Of several gateways, one removes it. What is not suspended stays, whatever time it has. */
const removeIfDue = async ({ store, clock, log }: RemovalContext, account: AccountRow): Promise<boolean> => {
  const { id, name, suspended, deleteAt } = account
  if (suspended === undefined || deleteAt === undefined || deleteAt > clock.now()) return false
  // A removal cannot be undone: a clock that is ahead for a moment is not enough.
  if (deleteAt > storeTimeOf(await store.dayBalance(id))) return false
  if (!(await store.removeAccount(id, deleteAt))) return false
  const before = { deleteAt: isoTime(deleteAt) }
  await recordChange(store, clock, removalAuthor, { action: 'account-removed', account: { id, name }, before })
  log.info({ event: 'account-removed', account: id }, 'account removed: it was deleted a week ago')
  return true
}

/** Removes deleted accounts every hour, in each process of each gateway. The store may be closed once it has stopped. */
export const openAccountRemoval = (context: RemovalContext): BackgroundTask => {
  let isStopped = false
  const rounds = startRounds({
    clock: context.clock,
    run: () => removeDeletedAccounts(context, () => isStopped),
    firstMs: hourMs,
    restMs: everyMs(hourMs),
    reportFailure: error => context.log.warn({ err: error }, 'deleted accounts could not be removed'),
  })
  return {
    async stop() {
      isStopped = true
      await rounds.stop()
    },
  }
}
