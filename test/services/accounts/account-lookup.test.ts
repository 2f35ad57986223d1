import t from '../../support/tap.ts'
import type { Test } from 'tap'
import type { Plan } from '../../../src/plugin/call.ts'
import { generateApiKey, generateKeyId, hashApiKey, toKeySecret } from '../../../src/services/accounts/api-key.ts'
import type { Secret } from '../../../src/plugin/secret.ts'
import { openAccounts } from '../../../src/services/accounts/index.ts'
import { StoreEmptiedError, changeGroupOf } from '../../../src/store/store.ts'
import type { AccountStore, KeyWithAccount, KeyRow } from '../../../src/store/store.ts'
import { TestClock } from '../../support/fakes.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { tempStore } from '../../store/temp-store.ts'
import { changeAccount } from '../../store/change-account.ts'

const core: Plan = { name: 'core', dailyCredits: 1_000, forwarding: false }
const growth: Plan = { name: 'growth', dailyCredits: 5_000, forwarding: true }

/** An embedded store with one account; counts how often it is read. */
const setUp = async (t: Test) => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  const reads: { keys: number; changes: number; fail: boolean; isEmptied?: boolean; saidEmptied?: boolean; changedElsewhere?: string } = {
    ...{ keys: 0, changes: 0, fail: false },
  }
  const counted: AccountStore = {
    ...store,
    changeCount() {
      reads.changes += 1
      if (reads.isEmptied) throw new StoreEmptiedError('it has lost its accounts and keys')
      if (reads.fail) throw new Error('the store is unavailable')
      return reads.changedElsewhere === undefined ? store.changeCount() : Infinity
    },
    async changeCounts() {
      const { total, byGroup } = await store.changeCounts()
      const { changedElsewhere } = reads
      return changedElsewhere === undefined
        ? { total, byGroup }
        : { total: Infinity, byGroup: new Map([...byGroup, [changeGroupOf(changedElsewhere), Infinity]]) }
    },
    findKey(hash) {
      reads.keys += 1
      if (reads.fail) throw new Error('the store is unavailable')
      return store.findKey(hash)
    },
  }
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const addKey = async (over: Partial<KeyRow> = {}): Promise<Secret> => {
    const key = generateApiKey()
    await store.addKey(hashApiKey(key.reveal()), { id: generateKeyId(), account: 'acc_1', created: 1, hint: 'wxyz', ...over })
    return key
  }
  return {
    clock,
    store,
    reads,
    addKey,
    accounts: openAccounts(counted, { core, growth }, clock, { onEmptied: isEmptied => (reads.saidEmptied = isEmptied) }),
  }
}

t.test('a key gives access to its account, with the plan, and the name, the project and the lists of the key', async t => {
  const { accounts, addKey } = await setUp(t)
  const key = await addKey({ name: 'production', project: 'wallet', networks: ['devnet'] })
  t.match(await accounts.find(key), {
    kind: 'granted',
    key: { name: 'production', project: 'wallet', networks: ['devnet'] },
    account: { id: 'acc_1', name: 'alice', plan: core },
  })
})

t.test('what all calls of a key get cannot be changed in place', async t => {
  const { accounts, addKey } = await setUp(t)
  const lookup = await accounts.find(await addKey({ networks: ['devnet'] }))
  if (lookup.kind !== 'granted') throw new Error('the key is refused')
  for (const each of [lookup, lookup.key, lookup.key.networks, lookup.account, lookup.account.plan]) t.ok(Object.isFrozen(each))
})

t.test('a key is refused from the moment that it expires, cached or not', async t => {
  const { clock, accounts, addKey } = await setUp(t)
  const key = await addKey({ expires: clock.now() + 100 })
  t.match(await accounts.find(key), { kind: 'granted' })
  clock.advance(99)
  t.match(await accounts.find(key), { kind: 'granted' })
  clock.advance(1)
  t.same(await accounts.find(key), { kind: 'expired' })
  t.same(await accounts.find(await addKey({ expires: clock.now() })), { kind: 'expired' })
})

t.test('a key that was refused as revoked stays revoked where the store has lost the revocation, and is revoked there again', async t => {
  const { clock, store, accounts, addKey } = await setUp(t)
  const key = await addKey({ id: 'key_1' })
  t.match(await accounts.find(key), { kind: 'granted' })
  await store.revokeKey('key_1', clock.now())
  t.same(await accounts.find(key), { kind: 'revoked' })
  // As of a replica that did not have the last writes.
  await store.addKey(hashApiKey(key.reveal()), { id: 'key_1', account: 'acc_1', created: 1, hint: 'wxyz' })
  clock.advance(1_000)
  t.same(await accounts.find(key), { kind: 'revoked' })
  await waitUntil(async () => (await store.findKeyById('key_1'))?.key.revoked !== undefined)
  t.same(await accounts.find(key), { kind: 'revoked' })
})

t.test('a suspended key is refused until it is resumed', async t => {
  const { clock, store, accounts, addKey } = await setUp(t)
  const key = await addKey()
  const lookup = await accounts.find(key)
  const id = lookup.kind === 'granted' ? lookup.key.id : ''
  await store.changeKey(id, { suspended: clock.now() })
  t.same(await accounts.find(key), { kind: 'suspended' })
  await store.changeKey(id, { suspended: null })
  t.match(await accounts.find(key), { kind: 'granted' })
})

t.test('a malformed key is refused without reading the store', async t => {
  const { accounts, reads, addKey } = await setUp(t)
  const key = (await addKey()).reveal()
  t.same(await accounts.find(toKeySecret('nonsense')), { kind: 'malformed' })
  t.same(await accounts.find(toKeySecret(key.slice(0, -1) + (key.endsWith('0') ? '1' : '0'))), { kind: 'malformed' })
  t.equal(reads.keys, 0)
})

t.test('a key that is not in the store is unknown', async t => {
  const { accounts } = await setUp(t)
  t.same(await accounts.find(generateApiKey()), { kind: 'unknown' })
})

t.test('an account whose plan no longer exists has none, also when the plan has the name of an object property', async t => {
  const { accounts, store, addKey, clock } = await setUp(t)
  const key = await addKey()
  await changeAccount(store, 'acc_1', { plan: 'gold' })
  t.same(await accounts.find(key), { kind: 'planNotFound', plan: 'gold' })
  const gold = { name: 'gold', dailyCredits: 1, forwarding: false }
  t.match(
    await openAccounts(store, { gold }, clock).find(key),
    { kind: 'granted', account: { plan: gold } },
    'the key is valid again when the plan returns',
  )
  await changeAccount(store, 'acc_1', { plan: 'constructor' })
  clock.advance(500)
  t.same(await accounts.find(key), { kind: 'planNotFound', plan: 'constructor' })
})

t.test('credits of the account replace those of its plan, whichever plan it has', async t => {
  const { accounts, store, addKey } = await setUp(t)
  const key = await addKey()
  await changeAccount(store, 'acc_1', { credits: 7 })
  t.match(await accounts.find(key), { account: { plan: { name: 'core', dailyCredits: 7, forwarding: false } } })
  await changeAccount(store, 'acc_1', { plan: 'growth' })
  t.match(await accounts.find(key), { account: { plan: { name: 'growth', dailyCredits: 7, forwarding: true } } })
  await changeAccount(store, 'acc_1', { plan: 'gold' })
  t.same(await accounts.find(key), { kind: 'planNotFound', plan: 'gold' }, 'credits are no plan')
  await changeAccount(store, 'acc_1', { plan: 'growth', credits: null })
  t.match(await accounts.find(key), { account: { plan: growth } })
})

t.test('results are cached until the store changes, which is checked twice a second for all keys, unknown keys too', async t => {
  const { accounts, store, reads, addKey, clock } = await setUp(t)
  const keys = await Promise.all(Array.from({ length: 50 }, () => addKey()))
  const unknowns = Array.from({ length: 50 }, generateApiKey)
  const findAll = () => Promise.all([...keys, ...unknowns].map(key => accounts.find(key)))
  await accounts.find(generateApiKey())
  const before = { ...reads }
  const found = await findAll()
  for (let i = 0; i < 100; i += 1) {
    clock.advance(100)
    t.same(
      (await findAll()).map((lookup, at) => lookup === found[at]),
      found.map(() => true),
      'the same objects while they are valid',
    )
  }
  t.equal(reads.keys - before.keys, 100, 'each key was read once')
  t.equal(reads.changes - before.changes, 20, 'in 10 s')
  await changeAccount(store, 'acc_1', { plan: 'growth' })
  t.match((await findAll())[0], { account: { plan: growth } })
})

t.test('a change takes effect at once in the process that made it, and after half a second in another', async t => {
  const { accounts, store, addKey } = await setUp(t)
  const key = await addKey({ id: 'key_1' })
  t.match(await accounts.find(key), { kind: 'granted' })
  await changeAccount(store, 'acc_1', { plan: 'growth' })
  t.match(await accounts.find(key), { account: { plan: growth } })
  await store.revokeKey('key_1', 5)
  t.same(await accounts.find(key), { kind: 'revoked' })

  const other = await setUp(t)
  const unsubscribed = openAccounts({ ...other.store, subscribe: () => () => {} }, { core, growth }, other.clock)
  const otherKey = await other.addKey({ id: 'key_2' })
  await unsubscribed.find(generateApiKey()) // checks the store for the first time
  t.match(await unsubscribed.find(otherKey), { kind: 'granted' })
  await other.store.revokeKey('key_2', 5)
  t.match(await unsubscribed.find(otherKey), { kind: 'granted' })
  other.clock.advance(500)
  t.same(await unsubscribed.find(otherKey), { kind: 'revoked' })
})

t.test('after a change of another account, by whichever process, a key is not read again', async t => {
  const { accounts, store, reads, addKey, clock } = await setUp(t)
  const [own, other] = [await addKey(), generateApiKey()]
  await store.addAccount({ id: 'acc_2', name: 'bob', plan: 'core', created: 1 })
  t.not(changeGroupOf('acc_2'), changeGroupOf('acc_1'))
  await store.addKey(hashApiKey(other.reveal()), { id: 'key_2', account: 'acc_2', created: 1, hint: 'wxyz' })
  await accounts.find(generateApiKey()) // checks the store for the first time
  const read = async (): Promise<number> => {
    const before = reads.keys
    for (const key of [own, other]) await accounts.find(key)
    return reads.keys - before
  }
  t.equal(await read(), 2)
  await changeAccount(store, 'acc_2', { plan: 'growth' })
  t.equal(await read(), 1, 'in this process')
  clock.advance(500)
  await read() // finds the change in the count too
  reads.changedElsewhere = 'acc_2'
  clock.advance(500)
  t.equal(await read(), 1, 'in another one')
  t.equal(await read(), 0)
})

t.test('while the store is unavailable', async t => {
  const { accounts, store, reads, addKey, clock } = await setUp(t)
  const [known, revoked, unknown, late] = [await addKey(), await addKey({ revoked: 3 }), generateApiKey(), await addKey()]
  for (const key of [known, revoked, unknown]) await accounts.find(key)
  reads.fail = true
  clock.advance(60_000)
  await changeAccount(store, 'acc_1', { plan: 'growth' })
  const readsBefore = reads.keys
  t.match(await accounts.find(known), { kind: 'granted' }, 'a cached key stays valid')
  t.equal(reads.keys, readsBefore, 'and is not looked up in the store that fails')
  t.match(await accounts.find(revoked), { kind: 'revoked' }, 'a revoked key stays revoked')
  t.same(await accounts.find(late), { kind: 'storeUnavailable' }, 'a key that is not cached may be valid or not')
  t.same(await accounts.find(unknown), { kind: 'storeUnavailable' }, 'so may a key that was unknown before')
  reads.fail = false
  t.match(await accounts.find(late), { kind: 'granted' })
})

t.test('a store that has lost its accounts is told from one that does not answer, until it has some again', async t => {
  const { accounts, reads, addKey, clock } = await setUp(t)
  const key = await addKey()
  const find = async () => {
    clock.advance(1_000)
    return accounts.find(key)
  }
  t.match(await find(), { kind: 'granted' })
  t.equal(reads.saidEmptied, false)
  reads.isEmptied = true
  t.match(await find(), { kind: 'granted' }, 'a cached key stays valid')
  t.equal(reads.saidEmptied, true)
  reads.isEmptied = false
  reads.fail = true
  await find()
  t.equal(reads.saidEmptied, true, 'a store that does not answer says nothing of what it has')
  reads.fail = false
  await find()
  t.equal(reads.saidEmptied, false)
})

t.test('a remote store', async t => {
  /** A store that answers when the test says so. */
  const setUpRemote = async () => {
    const { store, addKey, clock } = await setUp(t)
    const asked: { answer: () => void; answerAsRequested: () => void; fail: () => void }[] = []
    const ask = <T>(answer: () => T | Promise<T>) => {
      const early = answer()
      return new Promise<T>((resolve, reject) =>
        asked.push({
          answer: () => resolve(answer()),
          answerAsRequested: () => resolve(early),
          fail: () => reject(new Error('connection refused')),
        }),
      )
    }
    const remote: AccountStore = {
      ...store,
      changeCount: () => ask(() => store.changeCount()),
      findKey: hash => ask<KeyWithAccount | undefined>(() => store.findKey(hash)),
    }
    const accounts = openAccounts(remote, { core }, clock)
    const first = accounts.find(generateApiKey())
    for (const each of asked.splice(0)) each.answer() // the key, and the check for changes
    await first
    const thereAndBackMs = 150
    let answers: readonly { readonly at: number; answer(): void }[] = []
    /** Looks up the key, in one of `every` steps of 50 ms, in a store that answers after 150 ms. True for a result without a promise. */
    const lookUpFarAway = async (key: Secret, steps: number, every = 1): Promise<readonly boolean[]> => {
      const found: boolean[] = []
      for (let step = 0; step < steps; step += 1) {
        if (step % every === 0) found.push(!(accounts.find(key) instanceof Promise))
        const now = clock.monotonic()
        answers = [...answers, ...asked.splice(0).map(({ answer }) => ({ at: now + thereAndBackMs, answer }))]
        for (const { answer } of answers.filter(({ at }) => at <= now)) answer()
        answers = answers.filter(({ at }) => at > now)
        await new Promise(setImmediate)
        clock.advance(50)
      }
      return found
    }
    return { accounts, addKey, asked, clock, store, lookUpFarAway }
  }

  t.test('is read once for all calls that wait for the same key', async t => {
    const { accounts, addKey, asked } = await setUpRemote()
    const key = await addKey()
    const found = Promise.all([accounts.find(key), accounts.find(key), accounts.find(key)])
    t.equal(asked.length, 1)
    asked[0]?.answer()
    t.ok((await found).every(({ kind }) => kind === 'granted'))
    t.match(accounts.find(key), { kind: 'granted' }, 'then the lookup needs no promise')
  })

  t.test('is checked for changes once for all keys, and then read for each key', async t => {
    const { accounts, store, addKey, asked, clock } = await setUpRemote()
    const keys = [await addKey(), await addKey(), generateApiKey()]
    const findAll = () => Promise.all(keys.map(key => accounts.find(key)))
    for (const count of [3, 1, 3]) {
      // The keys; the check for changes; the keys, which changed.
      void findAll()
      t.equal(asked.length, count)
      for (const each of asked.splice(0)) each.answer()
      await new Promise(setImmediate)
      if (count === 3) clock.advance(500)
    }
    for (let i = 0; i < 10; i += 1) {
      clock.advance(500)
      const found = findAll()
      t.equal(asked.length, 1)
      asked.pop()?.answer()
      t.same(
        (await found).map(({ kind }) => kind),
        ['granted', 'granted', 'unknown'],
      )
    }
    await changeAccount(store, 'acc_1', { credits: 3 })
    void findAll()
    t.equal(asked.length, 3)
  })

  t.test('is checked again before the last check is too old, so that calls do not wait for one that is far away', async t => {
    const { accounts, store, addKey, clock, lookUpFarAway } = await setUpRemote()
    const key = await addKey({ id: 'key_1' })
    t.same((await lookUpFarAway(key, 100)).slice(30), Array(70).fill(true))
    await store.revokeKey('key_1', 5)
    await lookUpFarAway(key, 20)
    t.match(accounts.find(key), { kind: 'revoked' })
    clock.advance(500)
    t.ok(accounts.find(key) instanceof Promise, 'the result of the last check is too old')
  })

  t.test('that cannot be reached delays no calls of a known key that come all the time: none waits for a check that is silent', async t => {
    const { accounts, addKey, asked, clock } = await setUpRemote()
    const key = await addKey()
    const found = accounts.find(key)
    asked.splice(0).forEach(({ answer }) => answer())
    t.match(await found, { kind: 'granted' })
    clock.advance(500)
    const waiting = accounts.find(key)
    t.ok(waiting instanceof Promise)
    asked.splice(0).forEach(({ fail }) => fail())
    t.match(await waiting, { kind: 'granted' })
    for (let i = 0; i < 10; i += 1) {
      clock.advance(100)
      t.match(accounts.find(key), { kind: 'granted' })
      t.equal(asked.length, 1, 'a check is under way')
    }
    asked.splice(0).forEach(({ fail }) => fail())
    await new Promise(setImmediate)
    clock.advance(60_000)
    t.ok(accounts.find(key) instanceof Promise, 'the first call after a pause waits: the store may be back, and have changed')
  })

  t.test(
    'that is far away is checked without calls too, until ten minutes after the last one, so that those that come seldom do not wait',
    async t => {
      const { accounts, addKey, asked, clock, lookUpFarAway } = await setUpRemote()
      const key = await addKey()
      await lookUpFarAway(key, 20)
      t.same((await lookUpFarAway(key, 400, 40)).slice(1), Array(9).fill(true))
      await lookUpFarAway(key, 12_100, 13_000)
      asked.splice(0)
      clock.advance(60_000)
      t.equal(asked.length, 0)
      t.ok(accounts.find(key) instanceof Promise, 'the result of the last check is too old')
    },
  )

  t.test('that is far away is read again after a change, before the next call of a key', async t => {
    const { accounts, store, addKey, asked, lookUpFarAway } = await setUpRemote()
    const [busy, seldom] = [await addKey(), await addKey()]
    await lookUpFarAway(seldom, 20)
    await lookUpFarAway(busy, 20)
    await changeAccount(store, 'acc_1', { credits: 3 })
    t.ok(asked.length >= 2, 'both at once, as this process is notified')
    await lookUpFarAway(busy, 30)
    t.match(accounts.find(seldom), { kind: 'granted', account: { plan: { dailyCredits: 3 } } })
  })

  t.test('is read again when it changed during a read', async t => {
    const { accounts, addKey, asked, store } = await setUpRemote()
    const key = await addKey({ id: 'key_1' })
    const found = accounts.find(key)
    asked[0]?.answer()
    await store.revokeKey('key_1', 5)
    t.match(await found, { kind: 'granted' })
    const again = accounts.find(key)
    asked[1]?.answer()
    t.same(await again, { kind: 'revoked' })
  })

  t.test('is not taken for what it was before, when the answer to an earlier read comes last', async t => {
    const { accounts, addKey, asked, clock, store } = await setUpRemote()
    const key = await addKey({ id: 'key_1' })
    const first = accounts.find(key)
    await store.revokeKey('key_1', 5)
    const second = accounts.find(key)
    asked[1]?.answer()
    t.same(await second, { kind: 'revoked' })
    asked[0]?.answerAsRequested()
    t.match(await first, { kind: 'granted' }, 'it began before')
    clock.advance(500)
    const third = accounts.find(key)
    t.equal(asked.length, 3)
    asked[2]?.fail()
    t.same(await third, { kind: 'revoked' }, 'a revoked key stays revoked, also in an outage')
  })

  t.test('leaves cached keys valid when it fails', async t => {
    const { accounts, addKey, asked, clock } = await setUpRemote()
    const key = await addKey()
    const found = accounts.find(key)
    asked[0]?.answer()
    await found
    clock.advance(500)
    const again = accounts.find(key)
    asked[1]?.fail()
    t.match(await again, { kind: 'granted' })
    const unknown = accounts.find(generateApiKey())
    asked[2]?.fail()
    t.same(await unknown, { kind: 'storeUnavailable' })
  })
})

t.test('a flood of invented keys does not evict existing keys, and only the last 10,000 of them stay cached', async t => {
  const { accounts, reads, addKey } = await setUp(t)
  const key = await addKey()
  await accounts.find(generateApiKey()) // checks the store for the first time
  await accounts.find(key)
  const invented = Array.from({ length: 11_000 }, generateApiKey)
  for (const one of invented) await accounts.find(one)
  const counted: number[] = []
  for (const one of [key, invented.at(-1), invented[1000], invented[999]]) {
    const before = reads.keys
    if (one !== undefined) await accounts.find(one)
    counted.push(reads.keys - before)
  }
  t.same(counted, [0, 0, 0, 1])
})
