import { accountRecordKinds, neverExpires } from '../../store/record-store.ts'
import type { RecordStore } from '../../store/record-store.ts'
import type { RequestLogStore } from '../../store/request-log-store.ts'
import type { AccountRow, BalanceStore } from '../../store/store.ts'
import { storeTimeOf } from '../../store/store-clock.ts'
import { dayMs, hourMs, isoTime } from '../../util/dates.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { everyMs, startRounds } from '../rounds.ts'
import type { BackgroundTask } from '../rounds.ts'
import { recordChange } from './change-history.ts'
import type { RecordedAccounts, RecordedStore } from './recorded-accounts.ts'

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

interface RemovalContext {
  readonly store: RecordedStore & Pick<BalanceStore, 'dayBalance'> & Pick<RequestLogStore, 'dropRequests'>
  readonly clock: Clock
  readonly log: Log
}

/** Removes accounts whose time has come, with their keys, people, sessions, tokens and logged requests. After a failure the next run goes on. */
export const removeDeletedAccounts = async (context: RemovalContext, isStopped = () => false): Promise<void> => {
  const { store } = context
  if (isStopped()) return
  for (const { id } of await store.records('deletion', '')) {
    if (isStopped()) return
    const account = await store.account(id)
    if (account !== undefined && !(await removeIfDue(context, account))) continue
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
  await recordChange(store, clock, { kind: 'gateway', name: 'deletion' }, { action: 'account-removed', account: { id, name }, before })
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
