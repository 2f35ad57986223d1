import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { formatAccounts, readAccountFiles } from '../../src/config/account-files.ts'
import type { ExportedAccount } from '../../src/config/account-files.ts'
import { applyAccounts, exportAccounts, mergeChanges, planAccounts, shownChanges } from '../../src/portal/declared-accounts.ts'
import type { DeclarationRequest, DeclaredChange } from '../../src/portal/declared-accounts.ts'
import { addNewPerson, findPersonByEmail, listPeople, removePerson, setEmail } from '../../src/portal/people/people.ts'
import { monthOf, readChanges } from '../../src/services/accounts/change-history.ts'
import { deleteAccount, mayOwnersResume, removeDeletedAccounts, undoDeletionChange } from '../../src/services/accounts/account-deletion.ts'
import { RecordedAccounts } from '../../src/services/accounts/recorded-accounts.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { AccountRow, Store } from '../../src/store/store.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { tempFolder, tempStore } from '../store/temp-store.ts'

const plans = ['core', 'growth']

type OpenStore = (t: Test, clock: TestClock) => Promise<Store>

const setUp = async (t: Test, open: OpenStore) => {
  const clock = new TestClock()
  const store = await open(t, clock)
  const accounts = new RecordedAccounts(store, clock, { kind: 'command', name: 'test' })
  const file = join(await tempFolder(t), 'accounts.yaml')
  /** What a file with this text declares. */
  const read = (text: string): DeclarationRequest['accounts'] => {
    writeFileSync(file, text)
    const { accounts: declared, problems } = readAccountFiles(file, {}, plans)
    t.same(problems, [], text)
    return declared
  }
  /** `before` is called between the first plan and its steps. */
  const apply = async (text: string, prune: DeclarationRequest['prune'] = 'declared', before: () => Promise<unknown> = async () => {}) => {
    const changes: DeclaredChange[] = []
    let plans = 0
    const check = async (): Promise<void> => {
      plans += 1
      if (plans === 1) await before()
    }
    const request = { accounts: read(text), prune }
    const plan = await applyAccounts({ store, accounts, clock }, request, { check, onChange: change => void changes.push(change) })
    return { problems: plan.problems.map(({ message }) => message), changes: mergeChanges(changes) }
  }
  const dryRun = async (text: string, prune: DeclarationRequest['prune']) => {
    const plan = await planAccounts({ store, accounts, clock }, { accounts: read(text), prune })
    return { problems: plan.problems.map(({ message }) => message), changes: shownChanges(plan) }
  }
  const exported = async () => (await exportAccounts(store)).accounts
  return { clock, store, accounts, apply, dryRun, exported, changes: () => readChanges(store, monthOf(clock.now())) }
}

const printable = fc.string({ unit: fc.constantFrom(...'ab$ {}:#"\'\\,-é世😀'), maxLength: 12 })

const person = fc.record(
  { role: fc.constantFrom('viewer', 'developer', 'owner'), email: fc.constantFrom('a@x.org', 'b@x.org', 'c@x.org', "d'$$%{@x.org") },
  { requiredKeys: ['role'] },
)

const account = fc.record(
  {
    plan: fc.constantFrom(...plans),
    credits: fc.constantFrom(1, 5_000, Number.MAX_SAFE_INTEGER),
    label: printable.map(label => label.trim()).filter(label => label !== ''),
    suspended: fc.boolean(),
    people: fc.dictionary(fc.constantFrom('dan', 'eve', '007', '__proto__', 'constructor'), person, { minKeys: 1 }),
  },
  { requiredKeys: ['plan'] },
)

/** Declarations in which no address is in twice. */
const declaration: fc.Arbitrary<readonly ExportedAccount[]> = fc
  .dictionary(fc.constantFrom('acme', 'bolt', '1e3', '__proto__', 'true', 'a.b@c-d'), account, { minKeys: 1 })
  .map(accounts => Object.entries(accounts).map(([name, members]) => ({ name, ...members })) as readonly ExportedAccount[])
  .filter(accounts => {
    const emails = accounts.flatMap(({ people = {} }) => Object.values(people).flatMap(({ email }) => email ?? []))
    return new Set(emails).size === emails.length
  })

/** What a store that follows the declaration has at least. */
const isDeclared = (t: Test, found: readonly ExportedAccount[], declared: readonly ExportedAccount[]) => {
  const sorted = declared.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  t.same(
    found.map(({ name }) => name),
    sorted.map(({ name }) => name),
  )
  for (const [i, { people, suspended, ...members }] of sorted.entries()) {
    const { people: foundPeople, suspended: foundSuspended, ...foundMembers } = found[i] ?? { name: '', plan: '' }
    t.same(foundMembers, members)
    t.equal(foundSuspended ?? false, suspended ?? false)
    if (people === undefined) continue
    t.same(Object.keys(foundPeople ?? {}).sort(), Object.keys(people).sort())
    for (const [name, { role, email }] of Object.entries(people)) {
      const foundPerson = Object.entries(foundPeople ?? {}).find(([each]) => each === name)?.[1]
      t.equal(foundPerson?.role, role)
      if (email !== undefined) t.equal(foundPerson?.email, email)
    }
  }
}

const properties = (t: Test, open: OpenStore): void => {
  t.test('one declaration after the other: the store has what the last one says, or it is refused and nothing is changed', t =>
    fc.assert(
      fc.asyncProperty(fc.array(declaration, { minLength: 1, maxLength: 4 }), async declarations => {
        const { clock, apply, dryRun, exported, store } = await setUp(t, open)
        for (const declared of declarations) {
          clock.advance(1_000)
          const text = formatAccounts(declared, [])
          const before = await exported()
          const planned = await dryRun(text, 'all')
          t.same(await exported(), before, 'a dry run changes nothing')
          const { problems, changes } = await apply(text, 'all')
          t.same(changes, problems.length > 0 ? [] : planned.changes, 'what is done is what the dry run said')
          if (problems.length > 0) {
            t.same(await exported(), before)
            continue
          }
          isDeclared(t, await exported(), declared)
          t.same(await apply(text, 'all'), { problems: [], changes: [] }, 'a second time')
          for (const { id } of await store.accounts()) {
            for (const each of await listPeople(store, id))
              if (each.email !== undefined) t.equal((await findPersonByEmail(store, each.email))?.id, each.id)
          }
        }
      }),
      { numRuns: 15 },
    ),
  )

  t.test('an exported store is as declared, and makes an empty store the same', t =>
    fc.assert(
      fc.asyncProperty(declaration, async declared => {
        const one = await setUp(t, open)
        if ((await one.apply(formatAccounts(declared, []), 'none')).problems.length > 0) return
        const found = await one.exported()
        const text = formatAccounts(found, ['two', 'comments'])
        t.same(await one.apply(text, 'all'), { problems: [], changes: [] })
        const other = await setUp(t, open)
        t.same((await other.apply(text)).problems, [])
        t.same(await other.exported(), found)
      }),
      { numRuns: 15 },
    ),
  )
}

t.test('lmdb', async t => {
  await t.test('properties', async t => properties(t, tempStore))
})

t.test('redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  await t.test('properties', async t =>
    properties(t, async (t, clock) => {
      await redis.send('FLUSHALL')
      const store = await openRedisStore(redis.address, systemClock, clock)
      t.teardown(() => store.close())
      return store
    }),
  )
})

const acme = 'accounts: { acme: { plan: core, people: { dan: { role: owner }, eve: { role: owner } } } }'

t.test('what others change between read and write is not lost', async t => {
  const { apply, clock, store, accounts, exported, changes } = await setUp(t, tempStore)
  await apply(acme)
  const { id = '' } = (await store.account('acme')) ?? {}
  const before = async () => {
    await accounts.changeAccount(id, { suspended: 7, credits: 9 })
    clock.advance(1) // entries of one millisecond have no order
  }
  const { changes: done } = await apply(acme.replace('core', 'growth'), 'declared', before)
  t.same(done, [{ account: 'acme', change: 'changed', fields: { plan: { from: 'core', to: 'growth' }, credits: { from: 9, to: null } } }])
  t.match(await exported(), [{ plan: 'growth', suspended: true }], 'the suspension stays')
  t.match((await changes()).at(-1), { before: { plan: 'core', credits: 9 }, after: { plan: 'growth', credits: null } })
})

t.test('an account that is used again while it is pruned is not removed as it was found before', async t => {
  const { apply, store, accounts } = await setUp(t, tempStore)
  await apply(`${acme.slice(0, -1)}, bolt: { plan: core } }`)
  const { id = '' } = (await store.account('bolt')) ?? {}
  await apply(acme, 'declared', () => accounts.changeAccount(id, { suspended: 7 }))
  const { suspended, declared } = (await store.account('bolt')) ?? {}
  t.equal(suspended, 7, 'the suspension keeps the time at which it began')
  t.match(declared, { suspended: 7, deleteAt: Number })
})

t.test('an account that its owner has deleted, and that a file then suspends, is resumed by the operator alone', async t => {
  const { store, accounts, clock, apply } = await setUp(t, tempStore)
  await apply('accounts: { acme: { plan: core }, bolt: { plan: core, suspended: true } }')
  const find = async (name: string) => (await store.account(name)) as AccountRow // declared above
  clock.advance(1)
  for (const name of ['acme', 'bolt']) await deleteAccount({ store, accounts, clock }, await find(name), 'owner')
  await apply('accounts: { acme: { plan: growth }, bolt: { plan: core, suspended: true } }')
  t.ok(await mayOwnersResume(store, await find('acme')), 'the file does not suspend it')
  await apply('accounts: { acme: { plan: growth, suspended: true }, bolt: { plan: core, suspended: true } }')
  t.notOk(await mayOwnersResume(store, await find('acme')))
  t.match(await find('acme'), { suspended: Number, deleteAt: Number }, 'it stays deleted')
  const bolt = await find('bolt')
  t.ok(await mayOwnersResume(store, bolt), 'the suspension of the file is older, and stays')
  t.same(undoDeletionChange(bolt), { deleteAt: null })
})

t.test('an account keeps an owner, also where one leaves while another is removed', async t => {
  const { apply, store } = await setUp(t, tempStore)
  await apply(acme)
  const { id = '' } = (await store.account('acme')) ?? {}
  const leave = async () => {
    const dan = (await listPeople(store, id)).find(({ name }) => name === 'dan')
    if (dan !== undefined) await removePerson(store, dan)
  }
  const file = 'accounts: { acme: { plan: core, people: { eve: { role: viewer }, dan: { role: owner } } } }'
  const { problems, changes } = await apply(file, 'declared', leave)
  t.same(problems, [])
  t.match(changes, [
    { person: 'dan', change: 'added' },
    { person: 'eve', change: 'changed' },
  ])
  t.match(await listPeople(store, id), { length: 2 })
})

t.test('who is to be removed is removed, also where the rest had to be planned anew', async t => {
  const { apply, clock, store } = await setUp(t, tempStore)
  await apply(acme)
  const { id = '' } = (await store.account('acme')) ?? {}
  const add = () => addNewPerson(store, clock, { account: id, name: 'ann', role: 'viewer' })
  const file = 'accounts: { acme: { plan: core, people: { ann: { role: owner }, eve: { role: owner } } } }'
  const { changes } = await apply(file, 'declared', add)
  t.match(changes, [
    { person: 'ann', change: 'changed', fields: { role: { from: 'viewer', to: 'owner' } } },
    { person: 'dan', change: 'removed' },
  ])
  t.same((await store.account('acme'))?.declared, { people: ['ann', 'eve'] })
  await addNewPerson(store, clock, { account: id, name: 'dan', role: 'owner' })
  t.same(await apply(file), { problems: [], changes: [] }, 'somebody whom an owner has added since stays')
})

t.test('an address that somebody has taken meanwhile stays theirs', async t => {
  const { apply, store } = await setUp(t, tempStore)
  await apply(`${acme.slice(0, -1)}, bolt: { plan: core, people: { ann: { role: owner } } } }`)
  const { id = '' } = (await store.account('bolt')) ?? {}
  const take = async () => {
    const [ann] = await listPeople(store, id)
    if (ann !== undefined) await setEmail(store, ann, 'new@x.org')
  }
  const { problems, changes } = await apply(acme.replace('dan: { role: owner', 'dan: { role: owner, email: new@x.org'), 'none', take)
  t.match(problems, [/^somebody else has the address new@x\.org: ann of the account bolt$/])
  t.same(changes, [])
  t.match(await findPersonByEmail(store, 'new@x.org'), { name: 'ann' })
})

t.test('a former name of an account is a problem of the file, also where another account is to have it', async t => {
  const { apply, dryRun, exported, accounts, store } = await setUp(t, tempStore)
  await accounts.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const file = formatAccounts(await exported(), [])
  const rename = async (name: string): Promise<void> => {
    const found = await store.account('acc_1')
    t.ok(found !== undefined && (await accounts.renameAccount(found, name)))
  }
  await rename('alice-corp')
  const problem = { problems: ['the account alice is called alice-corp now'] }
  t.match(await dryRun(file, 'all'), problem)
  t.same(await apply(file, 'all'), { ...problem, changes: [] })
  const both = 'accounts: { alice: { plan: growth }, alice-corp: { plan: growth } }'
  t.same(await apply(both, 'all'), { ...problem, changes: [] })
  t.match(await exported(), [{ name: 'alice-corp', plan: 'core' }])
  t.match(await apply(file.replace('alice', 'alice-corp').replace('core', 'growth')), { problems: [], changes: { length: 1 } })
  await rename('alice')
  t.match(await apply(both), { problems: ['the account alice-corp is called alice now'] })
  t.match(await apply(file), { problems: [], changes: [{ account: 'alice', change: 'changed' }] })
  const renameFirst = () => rename('alice-corp')
  t.match(await apply(file.replace('core', 'growth'), 'none', renameFirst), problem, 'a name that was given up while the file was applied')
})

t.test('an account that was removed for good comes back as a new one', async t => {
  const { apply, store, clock, exported } = await setUp(t, tempStore)
  const both = 'accounts: { acme: { plan: core }, bolt: { plan: core } }'
  await apply(both)
  const { id = '' } = (await store.account('bolt')) ?? {}
  await apply('accounts: { acme: { plan: core } }')
  for (let day = 0; day < 9; day += 1) {
    clock.advance(86_400_000)
    await store.heartbeat('p')
  }
  await removeDeletedAccounts({ store, clock, log: new TestLog() })
  t.equal(await store.account('bolt'), undefined)
  t.match((await apply(both)).changes, [{ account: 'bolt', change: 'added' }])
  t.not((await store.account('bolt'))?.id, id)
  t.same((await exported()).length, 2)
})
