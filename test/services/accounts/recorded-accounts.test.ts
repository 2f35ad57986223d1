import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { changeAlerts } from '../../../src/portal/alerts/manage-alerts.ts'
import { monthOf, readChanges } from '../../../src/services/accounts/change-history.ts'
import { RecordedAccounts } from '../../../src/services/accounts/recorded-accounts.ts'
import { StoreError } from '../../../src/store/store.ts'
import { TestClock } from '../../support/fakes.ts'
import { tempStore } from '../../store/temp-store.ts'

const setUp = async (t: Test) => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  const accounts = new RecordedAccounts(store, clock, { kind: 'command', name: 'test' })
  await accounts.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', credits: 500, created: 1 })
  clock.advance(1) // entries of one millisecond have no order
  const { row: key } = await accounts.createKey('acc_1', { name: 'web', networks: ['devnet'] })
  clock.advance(1)
  const { length: setUpCount } = await readChanges(store, monthOf(clock.now()))
  const changes = async () => (await readChanges(store, monthOf(clock.now()))).slice(setUpCount)
  return { clock, store, accounts, key, changes }
}

t.test('what changes nothing of an account or a key is not in the log of changes', async t => {
  const { clock, store, accounts, key, changes } = await setUp(t)
  t.match(await accounts.changeAccount('acc_1', {}), { plan: 'core', credits: 500 })
  t.match(await accounts.changeAccount('acc_1', { plan: 'core', credits: 500, label: null, suspended: null }), { credits: 500 })
  t.match(await accounts.changeKey(key.id, {}), { name: 'web' })
  t.match(await accounts.changeKey(key.id, { name: 'web', networks: ['devnet'], methods: null }), { networks: ['devnet'] })
  await changeAlerts({ store, accounts, portalSecret: undefined, canMail: true, knownNetworks: [] }, 'acc_1', {
    daily: [100, 75, 85],
    email: false,
  })
  await changeAlerts({ store, accounts, portalSecret: undefined, canMail: true, knownNetworks: [] }, 'acc_1', { webhook: null })
  t.same(await changes(), [])

  const since = clock.now()
  for (const _ of [1, 2]) {
    t.match(await accounts.changeAccount('acc_1', { suspended: clock.now() }), { suspended: since })
    clock.advance(1)
    t.match(await accounts.changeKey(key.id, { suspended: clock.now() }), { suspended: since + 1 })
    clock.advance(1)
    t.match(await accounts.revokeKey(key.id), { revoked: since + 2 })
    clock.advance(1)
  }
  t.same(
    (await changes()).map(({ action }) => action),
    ['account-changed', 'key-changed', 'key-revoked'],
    'a second suspension or revocation is none, and keeps the time of the first',
  )
})

t.test('an entry of the log of changes has only the members that change, with their values before', async t => {
  const { clock, accounts, key, changes } = await setUp(t)
  await accounts.changeAccount('acc_1', { plan: 'growth', credits: 500, label: 'x' })
  clock.advance(1)
  await accounts.changeKey(key.id, { name: 'web', networks: null, dailyCredits: 9 })
  t.match(await changes(), [
    { before: { plan: 'core', label: null }, after: { plan: 'growth', label: 'x' } },
    { before: { networks: ['devnet'], dailyCredits: null }, after: { networks: null, dailyCredits: 9 } },
  ])
  for (const { before = {}, after = {} } of await changes()) {
    t.same([Object.keys(before).length, Object.keys(after).length], [2, 2])
  }
})

t.test('an account or a key that does not exist is not changed', async t => {
  const { accounts, changes } = await setUp(t)
  t.equal(await accounts.changeAccount('acc_2', { label: 'x' }), undefined)
  t.equal(await accounts.changeKey('key_2', { name: 'x' }), undefined)
  t.equal(await accounts.revokeKey('key_2'), undefined)
  t.same(await changes(), [])
})

t.test('an error says that a change is made when only the log of changes could not be written', async t => {
  const { clock, store, key } = await setUp(t)
  const addRecord = () => Promise.reject(new StoreError('no space left'))
  const accounts = new RecordedAccounts({ ...store, addRecord }, clock, { kind: 'command', name: 'test' })
  const error = (action: string) => ({
    name: 'StoreError',
    message: `the change is made (${action}), but it is missing in the log of changes: no space left`,
  })
  await t.rejects(accounts.addAccount({ id: 'acc_2', name: 'bob', plan: 'core', created: 1 }), error('account-added'))
  await t.rejects(accounts.revokeKey(key.id), error('key-revoked'))
  t.ok(await store.account('bob'))
  t.ok((await store.findKeyById(key.id))?.key.revoked)
})
