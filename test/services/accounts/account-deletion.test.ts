import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { createSignInToken } from '../../../src/portal/people/one-time-links.ts'
import { addPerson, listPeople, setEmail } from '../../../src/portal/people/people.ts'
import {
  deleteAccount,
  deletionDelayMs,
  openAccountRemoval,
  removeDeletedAccounts,
  resumeChange,
  undoDeletionChange,
} from '../../../src/services/accounts/account-deletion.ts'
import { monthOf, readChanges } from '../../../src/services/accounts/change-history.ts'
import { RecordedAccounts } from '../../../src/services/accounts/recorded-accounts.ts'
import { accountRecordKinds } from '../../../src/store/record-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { hourMs } from '../../../src/util/dates.ts'
import { TestClock, TestLog, fakeLoggedRequest } from '../../support/fakes.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { tempStore } from '../../store/temp-store.ts'

const alice = { id: 'acc_1', name: 'alice', plan: 'core', created: 1 }

const setUp = async (t: Test) => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  const log = new TestLog()
  const accounts = new RecordedAccounts(store, clock, { kind: 'command', name: 'test' })
  await accounts.addAccount(alice)
  const remove = () => removeDeletedAccounts({ store, clock, log })
  const requestDeletion = async () => deleteAccount({ store, accounts, clock }, (await store.account('acc_1')) ?? alice)
  return { clock, store, log, accounts, remove, requestDeletion }
}

t.test('a deleted account is suspended at once, and removed a week later with everything that it has', async t => {
  const { clock, store, log, remove, requestDeletion } = await setUp(t)
  const person = await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  await setEmail(store, person, 'alice@example.org')
  await createSignInToken(store, clock, person)
  const deleteAt = clock.now() + deletionDelayMs
  t.match(await requestDeletion(), { suspended: clock.now(), deleteAt })
  clock.advance(hourMs)
  t.match(await requestDeletion(), { deleteAt }, 'a second request does not postpone it')
  clock.advance(deletionDelayMs - hourMs - 1)
  await remove()
  t.equal((await listPeople(store, 'acc_1')).length, 1)
  await store.addRequests(
    { id: 'p1-1', accounts: [{ account: 'acc_1', requests: [fakeLoggedRequest] }] },
    { retentionMs: hourMs, maxBytes: 10_000 },
  )
  t.equal((await store.requests('acc_1')).length, 1)
  clock.advance(1)
  await remove()
  t.equal(await store.account('acc_1'), undefined)
  for (const kind of [...accountRecordKinds]) t.same(await store.records(kind, 'acc_1'), [], kind)
  t.equal(await store.findRecord('email', 'alice@example.org'), undefined)
  t.same(await store.requests('acc_1'), [])
  t.same(await store.records('deletion', ''), [])
  t.match((await readChanges(store, monthOf(clock.now()))).at(-1), {
    action: 'account-removed',
    by: { kind: 'gateway' },
    account: { name: 'alice' },
  })
  t.match(log.lines, [{ fields: { event: 'account-removed', account: 'acc_1' } }])
})

t.test('a clock that is ahead by weeks for a while removes no account', async t => {
  const { clock, store, remove, requestDeletion } = await setUp(t)
  await store.heartbeat('gateway')
  await requestDeletion()
  clock.shiftWallClock(2 * deletionDelayMs)
  await remove()
  t.match(await store.account('acc_1'), { name: 'alice' })
  clock.shiftWallClock(-2 * deletionDelayMs)
  clock.advance(deletionDelayMs)
  await remove()
  t.equal(await store.account('acc_1'), undefined)
})

t.test('an account that is resumed stays, and can be deleted again', async t => {
  const { clock, store, accounts, remove, requestDeletion } = await setUp(t)
  await requestDeletion()
  await accounts.changeAccount('acc_1', resumeChange)
  t.same(await store.account('acc_1'), alice)
  clock.advance(deletionDelayMs)
  await remove()
  t.same(await store.account('acc_1'), alice)
  await requestDeletion()
  await accounts.changeAccount('acc_1', { suspended: null })
  clock.advance(deletionDelayMs)
  await remove()
  t.ok(await store.account('acc_1'), 'what is not suspended stays')
  await accounts.changeAccount('acc_1', resumeChange)
  await requestDeletion()
  clock.advance(deletionDelayMs)
  await remove()
  t.equal(await store.account('acc_1'), undefined)
})

t.test('an owner who deletes an account while the operator suspends it does not lift the suspension by undoing that', async t => {
  const { clock, store, accounts } = await setUp(t)
  let isPending = true
  const racing: Store = {
    ...store,
    async account(id) {
      const found = await store.account(id)
      if (!isPending) return found
      isPending = false
      clock.advance(1)
      await accounts.changeAccount(id, { suspended: clock.now(), suspensionReason: 'unpaid' })
      return found
    },
  }
  const suspended = clock.now() + 1
  const owners = new RecordedAccounts(racing, clock, { kind: 'person', name: 'owner' })
  t.match(await deleteAccount({ store, accounts: owners, clock }, alice, 'owner'), { suspended, deleteAt: Number })
  const deleted = (await store.account('acc_1')) ?? alice
  t.match(await owners.changeAccount('acc_1', undoDeletionChange(deleted)), { suspended, suspensionReason: 'unpaid', deleteAt: undefined })
})

t.test('a gateway that ended between the removal and its records leaves none: the next run removes them', async t => {
  const { clock, store, remove, requestDeletion } = await setUp(t)
  await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  await requestDeletion()
  const { deleteAt = 0 } = (await store.account('acc_1')) ?? {}
  await store.removeAccount('acc_1', deleteAt)
  clock.advance(hourMs)
  await remove()
  t.same(await listPeople(store, 'acc_1'), [])
  t.same(await store.records('deletion', ''), [])
})

t.test('the removal runs every hour, until it is stopped; a failure is a line in the log', async t => {
  const { clock, store, log, requestDeletion } = await setUp(t)
  await requestDeletion()
  let fails = true
  const records: typeof store.records = (kind, account) => {
    if (fails) throw new Error('away')
    return store.records(kind, account)
  }
  const removal = openAccountRemoval({ store: { ...store, records }, clock, log })
  clock.advance(deletionDelayMs)
  await waitUntil(async () => log.lines.length > 0)
  t.match(log.lines.at(-1), { level: 'warn', message: 'deleted accounts could not be removed' })
  fails = false
  clock.advance(hourMs)
  await waitUntil(async () => (await store.records('deletion', '')).length === 0)
  t.equal(await store.account('acc_1'), undefined)
  await removal.stop()
  log.lines.length = 0
  fails = true
  clock.advance(hourMs)
  await new Promise(setImmediate)
  t.same(log.lines, [], 'nothing runs after stop()')
})
