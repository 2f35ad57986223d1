import type { Test } from 'tap'
import { changeGroupOf } from '../../src/store/store.ts'
import type { AccountStore, KeyRow } from '../../src/store/store.ts'
import { TestClock } from '../support/fakes.ts'
import { changeAccount } from './change-account.ts'

type OpenStore = (t: Test, clock: TestClock) => AccountStore | Promise<AccountStore>

/** Every engine keeps accounts and keys in this way. */
export const accountStoreContract = async (t: Test, open: OpenStore): Promise<void> => {
  const alice = { id: 'acc_1', name: 'alice', plan: 'core', created: 1 }
  const bob = { id: 'acc_2', name: 'bob', plan: 'core', created: 2 }
  const key = (id: string, over: Partial<KeyRow> = {}): KeyRow => ({ id, account: 'acc_1', created: 5, hint: 'wxyz', ...over })

  t.test('an account is found by its name and by its id', async t => {
    const store = await open(t, new TestClock())
    t.equal(await store.addAccount(alice), true)
    t.same(await store.account('alice'), alice)
    t.same(await store.account('acc_1'), alice)
    t.equal(await store.account('carol'), undefined)
    t.equal(await store.account(''), undefined)
  })

  t.test('a duplicate name is refused, and the account that has it is unchanged', async t => {
    const store = await open(t, new TestClock())
    const added = await Promise.all([store.addAccount(alice), store.addAccount({ ...bob, name: 'alice' })])
    t.same(added, [true, false])
    t.same(await store.account('alice'), alice)
    t.equal(await store.account('acc_2'), undefined)
  })

  t.test('an account that is renamed is found by its former names, which no other account gets while it is there', async t => {
    const store = await open(t, new TestClock())
    await Promise.all([store.addAccount(alice), store.addAccount(bob)])
    t.equal(await store.renameAccount(alice, 'bob'), false)
    t.same(await store.account('acc_1'), alice)
    t.equal(await store.renameAccount(alice, 'acme'), true)
    const acme = { ...alice, name: 'acme', formerNames: ['alice'] }
    for (const name of ['acc_1', 'acme', 'alice']) t.same(await store.account(name), acme)
    t.equal(await store.renameAccount(alice, 'other'), false, 'it is not as it was found any more')
    t.equal(await store.addAccount({ ...bob, id: 'acc_3', name: 'alice' }), false)
    t.equal(await store.renameAccount(bob, 'alice'), false)
    t.equal(await store.renameAccount(acme, 'alice'), true)
    t.same(await store.account('acme'), { ...alice, formerNames: ['acme'] })
    await changeAccount(store, 'acc_1', { suspended: 5, deleteAt: 9 })
    t.equal(await store.removeAccount('acc_1', 9), true)
    for (const name of ['alice', 'acme']) t.equal(await store.addAccount({ ...bob, id: `acc_${name}`, name }), true)
  })

  t.test('accounts are listed by name', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(bob)
    await store.addAccount(alice)
    t.same(await store.accounts(), [alice, bob])
  })

  t.test('a change of plan or credits leaves the rest of the account unchanged', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    t.same(await changeAccount(store, 'acc_1', { plan: 'growth' }), { ...alice, plan: 'growth' })
    t.same(await store.account('alice'), { ...alice, plan: 'growth' })
    t.same(await changeAccount(store, 'acc_1', { credits: 5_000 }), { ...alice, plan: 'growth', credits: 5_000 })
    t.same(await changeAccount(store, 'acc_1', { plan: 'core' }), { ...alice, credits: 5_000 })
    t.same(await store.accounts(), [{ ...alice, credits: 5_000 }])
    t.same(await changeAccount(store, 'acc_1', { credits: null }), alice)
    t.same(await store.account('alice'), alice)
    t.equal(await changeAccount(store, 'acc_9', { plan: 'growth' }), undefined)
  })

  t.test('an account is changed as it was found, or not at all', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    const found = (await store.account('alice')) ?? alice
    const before = await store.changeCount()
    t.same(await Promise.all([1, 2, 3].map(credits => store.changeFoundAccount(found, { credits }))), [true, false, false])
    t.same(await store.account('alice'), { ...alice, credits: 1 })
    t.not(await store.changeCount(), before)
    t.equal(await store.changeFoundAccount({ ...alice, credits: 1 }, { credits: null, declared: { people: ['dan'] } }), true)
    t.same(await store.account('alice'), { ...alice, declared: { people: ['dan'] } })
    t.equal(await store.changeFoundAccount(bob, { credits: 1 }), false)
    t.equal(await store.account('bob'), undefined)
  })

  t.test('a key is found by its hash, together with its account', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    const row = key('key_1', { networks: ['devnet'], methods: ['eth_call'], origins: ['https://dapp.test'] })
    await store.addKey('hash', row)
    t.same(await store.findKey('hash'), { key: row, account: alice })
    t.equal(await store.findKey('other'), undefined)
  })

  t.test('a key is found by its id, together with its account; not by its hash', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    await store.addKey('hash', key('key_1'))
    t.same(await store.findKeyById('key_1'), { key: key('key_1'), account: alice })
    for (const other of ['hash', 'key_2', 'acc_1', '']) t.equal(await store.findKeyById(other), undefined, other)
    await store.addKey('other', { ...key('key_2'), hint: 'WXYZ' })
    t.same(
      (await store.keysWithHint('WXYZ')).map(({ id }) => id),
      ['key_2'],
    )
  })

  t.test('members that only a later version of Tollgate knows outlive changes by this one', async t => {
    const store = await open(t, new TestClock())
    const later = { region: 'eu', limits: { tier: 3 } }
    await store.addAccount({ ...alice, ...later })
    await store.addKey('hash', { ...key('key_1'), ...later })
    await changeAccount(store, 'acc_1', { plan: 'growth' })
    await store.changeKey('key_1', { name: 'renamed' })
    await store.revokeKey('key_1', 7)
    t.same(await store.findKey('hash'), {
      key: { ...key('key_1'), ...later, name: 'renamed', revoked: 7 },
      account: { ...alice, ...later, plan: 'growth' },
    })
  })

  t.test('keys are listed by account, in the order of their creation', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    await store.addAccount(bob)
    await store.addKey('h3', key('key_3', { created: 7 }))
    await store.addKey('h1', key('key_1', { created: 6 }))
    await store.addKey('h2', key('key_2', { account: 'acc_2' }))
    t.same(
      (await store.keys('acc_1')).map(({ id }) => id),
      ['key_1', 'key_3'],
    )
    t.same(
      (await store.keys('acc_2')).map(({ id }) => id),
      ['key_2'],
    )
    t.same(await store.keys('acc_9'), [])
  })

  t.test('a key is revoked once: the time of the first revocation stays', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    await store.addKey('hash', key('key_1'))
    t.match(await store.revokeKey('key_1', 100), { id: 'key_1', revoked: 100 })
    t.match(await store.revokeKey('key_1', 200), { id: 'key_1', revoked: 100 })
    t.match(await store.findKey('hash'), { key: { revoked: 100 } })
    t.match(await store.keys('acc_1'), [{ revoked: 100 }])
    t.equal(await store.revokeKey('key_9', 100), undefined)
  })

  t.test('a change of a key leaves other allowlists unchanged, and null removes an allowlist', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    const row = key('key_1', { networks: ['devnet'], methods: ['eth_call'] })
    await store.addKey('hash', row)
    const changed = { ...row, networks: ['base-mainnet'], origins: ['https://dapp.test'] }
    t.same(await store.changeKey('key_1', { networks: ['base-mainnet'], origins: ['https://dapp.test'] }), changed)
    t.same(await store.findKey('hash'), { key: changed, account: alice })
    t.same(await store.changeKey('key_1', { networks: null, methods: null, origins: null }), key('key_1'))
    t.same(await store.keys('acc_1'), [key('key_1')])
    await store.revokeKey('key_1', 100)
    t.same(await store.changeKey('key_1', { networks: [] }), key('key_1', { networks: [], revoked: 100 }))
    t.equal(await store.changeKey('key_9', { networks: null }), undefined)
  })

  t.test('an account is removed with its keys, if it is to be removed at that time; its name is free again', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    await store.addAccount(bob)
    for (const id of ['key_1', 'key_2']) await store.addKey(`hash-${id}`, key(id))
    await store.addKey('hash-bob', key('key_3', { account: 'acc_2' }))
    await changeAccount(store, 'acc_1', { deleteAt: 500 })
    t.equal(await store.removeAccount('acc_1', 400), false)
    t.equal(await store.removeAccount('acc_9', 500), false)
    t.match(await store.findKey('hash-key_1'), { account: { id: 'acc_1' } })
    const changes = await store.changeCount()
    t.same((await Promise.all([store.removeAccount('acc_1', 500), store.removeAccount('acc_1', 500)])).sort(), [false, true])
    t.not(await store.changeCount(), changes)
    t.equal(await store.account('alice'), undefined)
    t.equal(await store.account('acc_1'), undefined)
    t.same(await store.keys('acc_1'), [])
    t.equal(await store.findKey('hash-key_1'), undefined)
    t.equal(await store.changeKey('key_1', { networks: null }), undefined)
    t.same(await store.accounts(), [bob])
    t.match(await store.findKey('hash-bob'), { account: bob }, 'another account keeps its keys')
    t.equal(await store.addAccount({ ...alice, id: 'acc_4' }), true)
  })

  t.test('the change count differs after each change', async t => {
    const store = await open(t, new TestClock())
    const steps: readonly (() => Promise<unknown>)[] = [
      () => store.addAccount(alice),
      () => store.addKey('hash', key('key_1')),
      () => changeAccount(store, 'acc_1', { plan: 'growth' }),
      () => store.changeKey('key_1', { networks: ['devnet'] }),
      () => store.revokeKey('key_1', 100),
    ]
    const counts = [await store.changeCount(), await store.changeCount()]
    t.equal(counts.shift(), counts[0], 'and after nothing else')
    for (const step of steps) {
      await step()
      counts.push(await store.changeCount())
    }
    t.equal(new Set(counts).size, 6)
    const group = changeGroupOf('acc_1')
    t.same(await store.changeCounts(), { total: counts.at(-1), byGroup: new Map([[group, 5]]) })
    await store.addAccount(bob)
    t.equal((await store.changeCounts()).byGroup.get(changeGroupOf('acc_2')), 1)
    t.equal((await store.changeCounts()).byGroup.get(group), 5)
  })

  t.test('a subscriber is notified of each change, until it unsubscribes', async t => {
    const store = await open(t, new TestClock())
    // An account of its own: the nodes of a cluster may still pass on what other tests changed.
    const watched = { ...alice, id: 'acc_watched', name: 'watched' }
    let notifications = 0
    const unsubscribe = store.subscribe(group => {
      if (group === changeGroupOf(watched.id)) notifications += 1
    })
    await store.addAccount(watched)
    await store.addKey('hash', { ...key('key_1'), account: watched.id })
    await changeAccount(store, watched.id, { plan: 'growth' })
    await store.changeKey('key_1', { networks: ['devnet'] })
    await store.revokeKey('key_1', 100)
    t.equal(notifications, 5, 'with the group of the account')
    unsubscribe()
    await changeAccount(store, watched.id, { plan: 'core' })
    t.equal(notifications, 5)
  })
}
