import { EventEmitter, once } from 'node:events'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { createAccessToken, listAccessTokens } from '../../src/portal/people/access-tokens.ts'
import { defaultRateRule, editAlertSettings, newWebhook, readAlertSettings } from '../../src/portal/alerts/alert-settings.ts'
import { oneAtATime, tryLock } from '../../src/portal/concurrent-changes.ts'
import { acceptInvitation, addInvitation, findInvitationsTo, renewInvitation } from '../../src/portal/people/invitations.ts'
import { findLinkedIdentity, personOfIdentity } from '../../src/portal/people/oidc-identities.ts'
import {
  addNewPerson,
  addPerson,
  changeRole,
  findPerson,
  findPersonByEmail,
  getOrAddPerson,
  listPeople,
  removePerson,
  renamePerson,
  setEmail,
  unlinkIdentity,
  verifyEmail,
} from '../../src/portal/people/people.ts'
import type { Person } from '../../src/portal/people/people.ts'
import { signUpWithEmail } from '../../src/portal/people/sign-up.ts'
import type { PortalServices } from '../../src/portal/portal-services.ts'
import { checkInput } from '../../src/portal/check-input.ts'
import type { Route, RouteRequest } from '../../src/portal/route.ts'
import { keyRoutes } from '../../src/portal/routes/keys.ts'
import { peopleRoutes } from '../../src/portal/routes/people.ts'
import { requestRoutes } from '../../src/portal/routes/requests.ts'
import { tokenRoutes } from '../../src/portal/routes/tokens.ts'
import { removeDeletedAccounts } from '../../src/services/accounts/account-deletion.ts'
import { createKey } from '../../src/services/accounts/api-key.ts'
import { monthOf, readChanges } from '../../src/services/accounts/change-history.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Log } from '../../src/services/log.ts'
import { openStore } from '../../src/store/open-store.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import type { RecordKind } from '../../src/store/record-store.ts'
import { StoreError } from '../../src/store/store.ts'
import type { Store } from '../../src/store/store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { tempFolder } from '../store/temp-store.ts'
import { fakeLoggedRequest } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { startSessionApp } from '../support/session-app.ts'

/** A store in which something else happens right after the first look-up of a record of the kind. */
const interruptAfterFind = (store: Store, kind: RecordKind, interrupt: () => Promise<unknown>): Store => {
  let isPending = true
  return {
    ...store,
    async findRecord(found, id) {
      const record = await store.findRecord(found, id)
      const isNow = isPending && found === kind
      if (isNow) isPending = false
      if (isNow) await interrupt()
      return record
    },
  }
}

/** A store in which something else happens right before the first record of the kind is added, or changed with others. */
const interruptBeforeAdd = (store: Store, kind: RecordKind, interrupt: () => Promise<unknown>): Store => {
  let isPending = true
  const interruptFirst = async (kinds: readonly RecordKind[]): Promise<void> => {
    if (!isPending || !kinds.includes(kind)) return
    isPending = false
    await interrupt()
  }
  return {
    ...store,
    async addRecord(added, record) {
      await interruptFirst([added])
      return store.addRecord(added, record)
    },
    async changeRecords(changes) {
      await interruptFirst(changes.map(change => change.kind))
      return store.changeRecords(changes)
    },
  }
}

/**
 * A store that fails once, at its nth write from 0 on: before it, or after it, when only the answer is lost. Locks, which are released also where the
 * store fails, are none.
 */
const failAtWrite = (store: Store, nth: number, when: 'before' | 'after' = 'before'): { readonly store: Store; hasFailed(): boolean } => {
  let written = 0
  const mayFail =
    <Args extends readonly unknown[], T>(write: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      const fails = args[0] !== 'lock' && written++ === nth
      if (fails && when === 'before') throw new StoreError('unreachable')
      const result = await write(...args)
      if (fails) throw new StoreError('unreachable')
      return result
    }
  const failing: Store = {
    ...store,
    addAccount: mayFail(store.addAccount),
    changeFoundAccount: mayFail(store.changeFoundAccount),
    putRecord: mayFail(store.putRecord),
    addRecord: mayFail(store.addRecord),
    replaceRecord: mayFail(store.replaceRecord),
    takeRecord: mayFail(store.takeRecord),
    changeRecords: mayFail(store.changeRecords),
  }
  return { store: failing, hasFailed: () => written > nth }
}

/** Begins it at another gateway. Resolves once it waits for a lock, or is done; of what it comes to, in an array. */
const beginElsewhere = async (other: Store, run: (store: Store) => Promise<unknown>): Promise<readonly [Promise<unknown>]> => {
  const steps = new EventEmitter()
  const isWaiting = once(steps, 'waiting')
  const outcome = run({
    ...other,
    async addRecord(kind, record) {
      const isAdded = await other.addRecord(kind, record)
      if (kind === 'lock' && !isAdded) steps.emit('waiting')
      return isAdded
    },
  })
  await Promise.race([outcome.catch(() => undefined), isWaiting])
  return [outcome]
}

const account = 'acc_1'
const alice = { account, name: 'alice', role: 'owner' } as const

/** What a route answers a person whose request reaches the gateway of this store. */
const requestRoute = async (
  route: Route,
  store: Store,
  person: Person,
  { id = '', name, setting }: { readonly id?: string; readonly name?: string; readonly setting?: string },
) => {
  // What the routes below use: no network, and a log that nobody reads.
  const services = {
    ...{ store, clock: systemClock, url: '', networks: [], log: { info: () => undefined } },
    requestLog: { enabled: true, params: true, slow: 1_000, retention: hourMs, maxBytes: 10_000 },
  } as unknown as PortalServices
  const body =
    route.body && checkInput('body', route.body, { ...(name !== undefined && { name }), ...(setting !== undefined && { setting }) })
  return route.handle({ person, params: { id }, body } as unknown as RouteRequest<never, never>, services)
}

const routeOf = (routes: readonly Route[], method: string, path: string): Route => {
  const route = routes.find(each => each.method === method && each.path === path)
  if (route === undefined) throw new Error(`no route ${method} ${path}`)
  return route
}

/** The stores of two gateways. */
const testChanges = (t: Test, [store, other]: readonly [Store, Store]): void => {
  const addWithEmail = async (name: string) => {
    const email = `${name}@example.org`
    const person = await addPerson(store, { ...alice, name })
    t.equal(await setEmail(store, person, email), true)
    return { ...person, email }
  }

  t.test('a person who is removed while their address is confirmed or changed stays removed', async t => {
    for (const [name, change] of [
      ['confirmed', (racing: Store, person: Awaited<ReturnType<typeof addWithEmail>>) => verifyEmail(racing, person)],
      ['changed', (racing: Store, person: Awaited<ReturnType<typeof addWithEmail>>) => setEmail(racing, person, 'new@example.org')],
    ] as const) {
      const person = await addWithEmail(name)
      const changed = await change(
        interruptAfterFind(store, 'person', () => removePerson(other, person)),
        person,
      )
      t.notOk(changed)
      t.equal(await findPerson(store, person.id), undefined)
      for (const email of [person.email, 'new@example.org']) t.equal(await store.findRecord('email', email), undefined, email)
    }
  })

  t.test('of two people who are given one address at the same time one gets it', async t => {
    const email = 'shared@example.org'
    const [first, second] = [await addPerson(store, { ...alice, name: 'first' }), await addPerson(store, { ...alice, name: 'second' })]
    const given: boolean[] = []
    const racing = interruptBeforeAdd(store, 'email', async () => given.push(await setEmail(other, second, email)))
    given.push(await setEmail(racing, first, email))
    t.same([...given].sort(), [false, true])
    const owners = (await listPeople(store, account)).filter(person => person.email === email)
    t.equal(owners.length, 1)
    t.match(await findPersonByEmail(other, email), { id: owners[0]?.id })
  })

  t.test('a look-up that finds what an earlier version has left of an address takes it from nobody who gets it meanwhile', async t => {
    const email = 'slowly@example.org'
    const [left, person] = [await addPerson(store, { ...alice, name: 'left' }), await addPerson(store, { ...alice, name: 'slowly' })]
    await store.putRecord('email', { id: email, account, value: { claimedBy: left.id }, expires: neverExpires })
    const given: boolean[] = []
    const lookUp = interruptAfterFind(other, 'person', async () => given.push(await setEmail(store, person, email)))
    t.equal(await findPersonByEmail(lookUp, email), undefined)
    t.same(given, [true])
    t.match(await findPersonByEmail(other, email), { id: person.id })
  })

  t.test('a person who is added several times at once is added once', async t => {
    const added = await Promise.all([store, other, store].map(each => addNewPerson(each, systemClock, alice)))
    t.equal(added.filter(person => person !== undefined).length, 1)
    t.equal(await addNewPerson(other, systemClock, alice), undefined)
    const found = await Promise.all([store, other, store].map(each => getOrAddPerson(each, systemClock, { ...alice, name: 'bob' })))
    t.equal(new Set(found.map(({ id }) => id)).size, 1)
    const names = (await listPeople(store, account)).map(({ name }) => name)
    t.same([names.filter(name => name === 'alice').length, names.filter(name => name === 'bob').length], [1, 1])
  })

  t.test('of two owners who remove each other at once, one stays', async t => {
    const removal = routeOf(peopleRoutes, 'delete', '/people/{id}')
    const people = { account: 'acc_owners', role: 'owner' } as const
    const [one, two] = [await addPerson(store, { ...people, name: 'one' }), await addPerson(store, { ...people, name: 'two' })]
    const outcomes = await Promise.allSettled([requestRoute(removal, store, one, two), requestRoute(removal, other, two, one)])
    t.match(
      outcomes.filter(({ status }) => status === 'rejected'),
      [{ reason: { code: 'not-signed-in' } }],
    )
    t.equal((await listPeople(store, people.account)).length, 1)
  })

  t.test('of two owners who leave at once, one stays', async t => {
    const removal = routeOf(peopleRoutes, 'delete', '/people/{id}')
    const people = { account: 'acc_leaving', role: 'owner' } as const
    const [one, two] = [await addPerson(store, { ...people, name: 'one' }), await addPerson(store, { ...people, name: 'two' })]
    const outcomes = await Promise.allSettled([requestRoute(removal, store, one, one), requestRoute(removal, other, two, two)])
    t.match(
      outcomes.filter(({ status }) => status === 'rejected'),
      [{ reason: { code: 'last-owner' } }],
    )
    t.equal((await listPeople(store, people.account)).length, 1)
  })

  t.test('the last owner does not leave the account to an invited owner who cannot join after all', async t => {
    const [team, email] = ['acc_joining', 'joining@example.org']
    await store.addAccount({ id: team, name: 'joining', plan: 'core', created: 1 })
    const owner = await addPerson(store, { account: team, name: 'owner', role: 'owner' })
    const invitation = await addInvitation(store, systemClock, owner, { name: 'joining', role: 'owner', email })
    const stranger = await addPerson(store, { ...alice, name: 'joining' })
    const leaving: Promise<unknown>[] = []
    const racing = interruptBeforeAdd(store, 'email', async () => {
      const leave = (from: Store) => requestRoute(routeOf(peopleRoutes, 'delete', '/people/{id}'), from, owner, owner)
      leaving.push(...(await beginElsewhere(other, leave)))
      t.equal(await setEmail(other, stranger, email), true)
    })
    await t.rejects(acceptInvitation({ store: racing, clock: systemClock }, email, invitation.id), { code: 'has-account' })
    await t.rejects(Promise.all(leaving), { code: 'last-owner' })
    t.same(
      (await listPeople(store, team)).map(({ id }) => id),
      [owner.id],
    )
    t.match(await findInvitationsTo(store, email), [{ id: invitation.id }])
  })

  t.test(
    'whoever accepts an invitation while the account is removed keeps their address, also where the store fails after that',
    async t => {
      const [team, email] = ['acc_removed', 'late@example.org']
      await store.addAccount({ id: team, name: 'removed', plan: 'core', created: 1, suspended: 1, deleteAt: 2 })
      const owner = await addPerson(store, { account: team, name: 'owner', role: 'owner' })
      const invitation = await addInvitation(store, systemClock, owner, { name: 'late', role: 'viewer', email })
      await store.putRecord('deletion', { id: team, account: '', value: 'owner', expires: neverExpires })
      const log = { info: () => undefined } as unknown as Log
      const accepts: Store = {
        ...store,
        takeRecord: () => Promise.reject(new StoreError('unreachable')),
        async changeRecords(changes) {
          if (!changes.some(({ kind }) => kind === 'invitation')) throw new StoreError('unreachable')
          const isChanged: boolean[] = []
          // The people of the account have been removed by then.
          const removes = async (kind: RecordKind, of: string) => {
            if (kind === 'invitation') isChanged.push(await store.changeRecords(changes))
            return other.records(kind, of)
          }
          await removeDeletedAccounts({ store: { ...other, records: removes }, clock: systemClock, log })
          return isChanged[0] === true
        },
      }
      await t.rejects(acceptInvitation({ store: accepts, clock: systemClock }, email, invitation.id), { code: 'not-found' })
      t.equal(await findPersonByEmail(store, email), undefined)
      t.same(await listPeople(store, team), [])
    },
  )

  t.test(
    'a store that fails while an invitation is accepted leaves nobody without an address, and neither an invitation nor its entry in the log is lost',
    async t => {
      const team = 'acc_failing'
      await store.addAccount({ id: team, name: 'failing', plan: 'core', created: 1 })
      const owner = await addPerson(store, { account: team, name: 'owner', role: 'owner' })
      for (const when of ['before', 'after'] as const)
        for (let nth = 0; ; nth += 1) {
          const name = `joins-${when}-${nth}`
          const email = `${name}@example.org`
          const { id } = await addInvitation(store, systemClock, owner, { name, role: 'viewer', email })
          const failing = failAtWrite(store, nth, when)
          const accept = (from: Store) => acceptInvitation({ store: from, clock: systemClock }, email, id)
          await accept(failing.store).catch(() => undefined)
          const joined = await accept(other)
          t.match(joined, { account: team, name, role: 'viewer', email, isEmailVerified: true }, name)
          t.same(await accept(store), joined, 'who repeats it has joined')
          t.same(
            (await listPeople(other, team)).filter(person => person.name.startsWith(name)),
            [joined],
          )
          t.same(await findInvitationsTo(other, email), [])
          const entries = (await readChanges(other, monthOf(systemClock.now()))).filter(({ target }) => target === joined.id)
          const after = { name, role: 'viewer', email }
          t.match(
            entries,
            [{ action: 'invitation-accepted', account: { id: team, name: 'failing' }, after }],
            'one entry in the log of changes',
          )
          t.equal(entries.length, 1)
          if (!failing.hasFailed()) break
        }
    },
  )

  t.test('whoever has accepted an invitation joins nothing by repeating it after they were removed', async t => {
    const [team, email] = ['acc_repeating', 'repeats@example.org']
    await store.addAccount({ id: team, name: 'repeating', plan: 'core', created: 1 })
    const owner = await addPerson(store, { account: team, name: 'owner', role: 'owner' })
    const { id } = await addInvitation(store, systemClock, owner, { name: 'repeats', role: 'viewer', email })
    const accept = (from: Store) => acceptInvitation({ store: from, clock: systemClock }, email, id)
    const joined = await Promise.all([accept(store), accept(other)])
    t.same(joined[0], joined[1])
    t.equal(await removePerson(store, joined[0]), true)
    await t.rejects(accept(other), { code: 'not-found' })
    const stranger = await addPerson(store, { ...alice, name: 'repeats' })
    t.equal(await setEmail(store, stranger, email, true), true)
    await t.rejects(accept(other), { code: 'not-found' })
  })

  t.test('an invitation that a later version has written is sent again, with what that version has written of it', async t => {
    const owner = await addPerson(store, { account: 'acc_later', name: 'owner', role: 'owner' })
    const invitation = await addInvitation(store, systemClock, owner, { name: 'later', role: 'viewer', email: 'later@example.org' })
    const found = (await store.findRecord('invitation', invitation.id))!
    await store.putRecord('invitation', { ...found, value: { ...(found.value as object), later: 'value' } })
    const laterClock = { ...systemClock, now: () => systemClock.now() + hourMs }
    const renewed = await renewInvitation(other, laterClock, invitation, { ...owner, name: 'another' })
    t.match(renewed, { ...invitation, inviter: 'another', expires: Number })
    t.match((await store.findRecord('invitation', invitation.id))?.value, { later: 'value', inviter: 'another' })
    t.same(await findInvitationsTo(store, invitation.email), [renewed])
  })

  t.test('a store that fails while somebody signs up leaves no mailbox without its account, and no account without people', async t => {
    const signUp = { plan: 'core', perDay: 100, domains: ['example.org'], approval: false }
    const services = { clock: systemClock, signUp, log: { info: () => undefined } as unknown as Log }
    for (let nth = 0; ; nth += 1) {
      const email = `signs-up-${nth}@example.org`
      const failing = failAtWrite(store, nth)
      // Of another network each time: one makes a few accounts a day.
      const signsUp = (from: Store) => signUpWithEmail({ ...services, store: from }, { email }, `203.${nth}.113.1`)
      await signsUp(failing.store).catch(() => undefined)
      const person = await signsUp(other)
      t.match(person, { role: 'owner', email, isEmailVerified: true }, `write ${nth}`)
      t.match(await listPeople(other, person.account), [{ id: person.id, email }])
      if (!failing.hasFailed()) break
    }
    const madeAccounts = async () => (await store.accounts()).filter(({ name }) => name.startsWith('signs-up-'))
    const remove = (from: Store, afterMs: number) =>
      removeDeletedAccounts({ store: from, clock: { ...systemClock, now: () => systemClock.now() + afterMs }, log: services.log })
    await remove(store, hourMs / 2)
    t.same(
      (await madeAccounts()).filter(({ deleteAt }) => deleteAt !== undefined),
      [],
      'a sign-up may take its time',
    )
    // Cut off anywhere, it goes on the next time.
    for (let nth = 0; ; nth += 1) {
      const failing = failAtWrite(store, nth)
      await remove(failing.store, 2 * hourMs).catch(() => undefined)
      if (!failing.hasFailed()) break
    }
    for (const { id, name, deleteAt } of await madeAccounts())
      t.equal((await listPeople(store, id)).length === 0, deleteAt !== undefined, `${name} has people, or is deleted`)
    t.ok((await madeAccounts()).some(({ deleteAt }) => deleteAt !== undefined))
    t.same(
      (await store.records('deletion', '')).filter(({ value }) => typeof value !== 'string'),
      [],
    )
  })

  t.test('what a later version has written of a person stays when their role, name or address is changed here', async t => {
    const { id, ...person } = await addWithEmail('upgraded')
    const found = (await store.findRecord('person', id))!
    await store.putRecord('person', { ...found, value: { ...(found.value as object), later: 'value' } })
    t.equal(await setEmail(other, { id, ...person }, 'upgraded-2@example.org', true), true)
    t.equal(await changeRole(other, { id, ...person }, 'viewer'), true)
    t.equal(await renamePerson(other, systemClock, { id, ...person }, 'renamed'), true)
    const value = { name: 'renamed', role: 'viewer', email: 'upgraded-2@example.org', isEmailVerified: true, later: 'value' }
    t.same((await store.findRecord('person', id))?.value, value)
  })

  t.test('of a sign-up whose address joins another account meanwhile, no account and no mailbox stay', async t => {
    const [team, email] = ['acc_team', 'both@example.org']
    await store.addAccount({ id: team, name: 'team', plan: 'core', created: 1 })
    const owner = await addPerson(store, { account: team, name: 'owner', role: 'owner' })
    const invitation = await addInvitation(store, systemClock, owner, { name: 'both', role: 'viewer', email })
    const racing = interruptBeforeAdd(store, 'email', () => acceptInvitation({ store: other, clock: systemClock }, email, invitation.id))
    const signUp = { plan: 'core', perDay: 100, domains: [], approval: false }
    const services = { clock: systemClock, signUp, log: { info: () => undefined } as unknown as Log }
    t.match(await signUpWithEmail({ ...services, store: racing }, { email }, '203.0.113.7'), { account: team, email })
    t.match(await store.account(email), { suspended: Number, deleteAt: Number })
    t.equal(await removePerson(store, (await findPersonByEmail(store, email))!), true)
    const own = await signUpWithEmail({ ...services, store }, { email }, '203.0.113.7')
    t.match(own, { role: 'owner', email })
    t.equal((await store.account(own.account))?.deleteAt, undefined)
  })

  t.test('requests at once make no more keys, people and tokens than 100', async t => {
    const person = await addPerson(store, { account: 'acc_many', name: 'owner', role: 'owner' })
    await store.addAccount({ id: person.account, name: 'many', plan: 'core', created: systemClock.now() })
    for (let i = 0; i < 97; i += 1) {
      const created = await createKey(store, systemClock, person.account)
      if (i % 2 === 0) await store.changeKey(created.row.id, { suspended: 1 })
      await addPerson(store, { ...person, name: `person-${i}` })
      await createAccessToken(store, systemClock, person, { name: 'token', expires: undefined })
    }
    for (const [routes, path, count, made] of [
      [keyRoutes, '/keys', async () => (await store.keys(person.account)).length, 3],
      [peopleRoutes, '/people', async () => (await listPeople(store, person.account)).length, 2],
      [tokenRoutes, '/tokens', async () => (await listAccessTokens(store, person)).length, 3],
    ] as const) {
      const requests = Array.from({ length: 8 }, (_, i) =>
        requestRoute(routeOf(routes, 'post', path), i % 2 === 0 ? store : other, person, { name: `new-${i}` }),
      )
      const outcomes = await Promise.allSettled(requests)
      t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, made, path)
      t.match(
        outcomes.filter(({ status }) => status === 'rejected'),
        Array.from({ length: 8 - made }, () => ({ reason: { code: 'too-many' } })),
      )
      t.equal(await count(), 100, path)
    }
  })

  t.test('an action that has outlasted its lock does not end the lock of the next one', async t => {
    const steps = new EventEmitter()
    const isFree = () => store.addRecord('lock', { id: 'outlasted', account: '', value: true, expires: systemClock.now() + 1 })
    // Its lock ends in 50 ms.
    const slowClock = { ...systemClock, now: () => systemClock.now() - 9_950 }
    const next: Promise<unknown>[] = []
    await oneAtATime({ store, clock: slowClock }, 'outlasted', async () => {
      const entered = once(steps, 'entered')
      next.push(
        oneAtATime({ store: other, clock: systemClock }, 'outlasted', async () => {
          steps.emit('entered')
          await once(steps, 'left')
        }),
      )
      await entered
    })
    t.equal(await isFree(), false)
    steps.emit('left')
    await Promise.all(next)
    t.equal(await isFree(), true)
  })

  t.test('a lock that is left from before the clock went back by an hour holds nobody up, and one gateway gets it', async t => {
    const clockBefore = { ...systemClock, now: () => systemClock.now() + hourMs }
    await tryLock({ store, clock: clockBefore }, 'left', 10_000)
    const locks = await Promise.all([store, other].map(each => tryLock({ store: each, clock: systemClock }, 'left', 10_000)))
    t.equal(locks.filter(release => release !== undefined).length, 1)
    const aheadBySeconds = { ...systemClock, now: () => systemClock.now() + 30_000 }
    await tryLock({ store, clock: aheadBySeconds }, 'held', 10_000)
    t.equal(await tryLock({ store: other, clock: systemClock }, 'held', 10_000), undefined, 'clocks may differ by seconds')
  })

  t.test('what was done under a lock stands, also where the store fails before the lock is released', async t => {
    const failures = [
      () => Promise.reject(new Error('unreachable')),
      () => {
        throw new Error('removed')
      },
    ]
    for (const [i, replaceRecord] of failures.entries()) {
      const failing = { ...store, replaceRecord }
      t.equal(await oneAtATime({ store: failing, clock: systemClock }, `released ${i}`, async () => 'done'), 'done')
    }
  })

  t.test('a person who is removed several times at once is removed once', async t => {
    const person = await addWithEmail('removed')
    const removed = await Promise.all([store, other, store].map(each => removePerson(each, person)))
    t.same([...removed].sort(), [false, false, true])
  })

  const provider = { name: 'Example' }
  const signInAt = (from: Store, email: string, subject: string) =>
    personOfIdentity({ store: from, clock: systemClock }, provider, { issuer: 'https://example.org', subject, email })

  t.test('an identity that is unlinked signs nobody in, and another one does', async t => {
    const { id, email } = await addWithEmail('linked')
    t.match(await signInAt(store, email, 'linked-1'), { id })
    await t.rejects(signInAt(other, email, 'linked-2'), { code: 'other-identity' })
    t.same([await unlinkIdentity(other, id), await unlinkIdentity(other, id)], [true, false])
    t.match(await signInAt(store, email, 'linked-2'), { id })
    await t.rejects(signInAt(other, email, 'linked-1'), { code: 'other-identity' })
  })

  t.test('an identity that is linked while the person is removed, or gets another address, signs nobody in', async t => {
    for (const [name, change] of [
      ['removed-at-once', (racing: Store, person: Person) => removePerson(racing, person)],
      ['moved-at-once', (racing: Store, person: Person) => setEmail(racing, person, 'moved-at-once-2@example.org')],
    ] as const) {
      const email = `${name}@example.org`
      const person = (await verifyEmail(store, await addWithEmail(name)))!
      const racing = interruptBeforeAdd(store, 'person', async () => t.match(await signInAt(other, email, name), { id: person.id }))
      t.equal(await change(racing, person), true, name)
      t.equal(await findLinkedIdentity(other, person.id), undefined)
      t.match(await signInAt(other, email, name), { email, id: undefined })
    }
  })

  t.test('a store that fails while a person gets another address, or is removed, leaves no identity of the one before', async t => {
    for (const [name, change] of [
      ['unlinked', (from: Store, person: Person) => setEmail(from, person, `new-${person.email}`)],
      ['gone', (from: Store, person: Person) => removePerson(from, person)],
    ] as const)
      for (let nth = 0; ; nth += 1) {
        const person = await addWithEmail(`${name}-${nth}`)
        const subject = `${name}-${nth}`
        t.match(await signInAt(store, person.email, subject), { id: person.id })
        const failing = failAtWrite(store, nth)
        await change(failing.store, { ...person, isEmailVerified: true }).catch(() => undefined)
        const isChanged = (await findPersonByEmail(other, person.email)) === undefined
        t.match(
          await signInAt(other, person.email, subject),
          isChanged ? { email: person.email, id: undefined } : { id: person.id },
          subject,
        )
        t.equal((await findLinkedIdentity(other, person.id)) === undefined, isChanged)
        if (!failing.hasFailed()) break
      }
  })

  t.test('an identity whose address is changed while it is linked signs nobody in', async t => {
    const person = await addWithEmail('left-behind')
    const racing = interruptBeforeAdd(store, 'identity-of', () => setEmail(other, person, 'moved@example.org', true))
    await t.rejects(signInAt(racing, person.email, '3'), { code: 'not-invited' })
    t.match(await signInAt(other, person.email, '3'), { email: person.email, id: undefined })
    t.match(await signInAt(store, 'moved@example.org', '4'), { id: person.id })
  })

  t.test('of two owners who set at once what is logged of requests, the last one decides what the store takes', async t => {
    const owner = { id: 'usr_owner', account: 'acc_logging', name: 'owner', role: 'owner' } as const
    await store.addAccount({ id: owner.account, name: 'logging', plan: 'core', created: 1 })
    const set = (from: Store, setting: string) => requestRoute(routeOf(requestRoutes, 'patch', '/requests'), from, owner, { setting })
    const others: Promise<unknown>[] = []
    const racing: Store = {
      ...store,
      async limitRequests(...limit) {
        others.push(...(await beginElsewhere(other, from => set(from, 'on'))))
        await store.limitRequests(...limit)
      },
    }
    await set(racing, 'off')
    await Promise.all(others)
    t.equal((await store.account(owner.account))?.requestLog, undefined)
    const batch = { id: 'p1-1', accounts: [{ account: owner.account, requests: [fakeLoggedRequest] }] }
    await store.addRequests(batch, { retentionMs: hourMs, maxBytes: 10_000 })
    t.equal((await store.requests(owner.account)).length, 1)
  })

  t.test('of changes of the alerts at the same time none is lost', async t => {
    const webhook = newWebhook('https://example.org/hook')
    await Promise.all([
      editAlertSettings(store, account, before => ({ ...before, webhook })),
      editAlertSettings(other, account, before => ({ ...before, daily: [50] })),
      editAlertSettings(store, account, before => ({ ...before, monthly: [60] })),
      editAlertSettings(other, account, before => ({ ...before, email: true })),
    ])
    t.same(await readAlertSettings(store, account), {
      account,
      webhook,
      daily: [50],
      monthly: [60],
      keyDaily: [],
      email: true,
      networks: [],
      ...defaultRateRule,
    })
  })

  t.test('a session that is ended while it is renewed stays ended', async t => {
    const request = await startSessionApp(t, { store, clock: systemClock }, async ctx => {
      if (ctx.path === '/sign-in') ctx['session'] = { person: 'usr_1', account, signedIn: systemClock.now() }
      // Renewed at the end of the request, as it is after half of its time.
      else ctx['session'].maxAge = 1_000_000
      const [record] = ctx.path === '/end' ? await other.records('session', account) : []
      if (record !== undefined) await other.takeRecord('session', record.id)
    })
    const expires = async () => (await store.records('session', account)).map(record => record.expires)
    const cookie = await request('/sign-in')
    const [first = 0] = await expires()
    t.equal(await request('/renew', cookie), cookie)
    t.not((await expires())[0], first, 'it is renewed')
    await request('/end', cookie)
    t.same(await expires(), [])
  })
}

const testOn = async (t: Test, open: () => Promise<Store>): Promise<void> => {
  const stores = [await open(), await open()] as const
  t.teardown(() => Promise.all(stores.map(store => store.close())))
  // As the listeners of a gateway do: a request that waits for another has a timer alone, which does not.
  const keepAlive = setInterval(() => undefined, 1_000)
  t.teardown(() => clearInterval(keepAlive))
  testChanges(t, stores)
}

t.test('changes at the same time, with LMDB', async t => {
  const path = await tempFolder(t)
  await testOn(t, () => openStore({ kind: 'lmdb', path }, systemClock))
})

t.test('changes at the same time, with Redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  await testOn(t, () => openStore(redis.address, systemClock))
})
