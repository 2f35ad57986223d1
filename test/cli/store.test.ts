import { readdirSync, statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { storeCommand } from '../../src/cli/store.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { monthOf, readChanges, recordChange } from '../../src/services/accounts/change-history.ts'
import { systemClock } from '../../src/services/clock.ts'
import { copyStore } from '../../src/store/copy-store.ts'
import { openStore } from '../../src/store/open-store.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { tempFolder } from '../store/temp-store.ts'
import { TestClock } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { createTestConfigs, runCommand, usageCommand } from './run-command.ts'
import { dayMs, hourMs, isoDate } from '../../src/util/dates.ts'

const hour = Math.floor(systemClock.now() / hourMs)
const count = (over: Partial<UsageCount> = {}): UsageCount => ({
  account: 'acc_1',
  key: 'key_1',
  network: 'devnet',
  method: 'eth_call',
  outcome: 'ok',
  forwarded: false,
  hour,
  calls: 3,
  credits: 240,
  ...over,
})

/** Two accounts with keys, leases of a process that was killed, and calls of two hours. */
const seedStore = async (store: Store): Promise<void> => {
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  await store.addAccount({ id: 'acc_2', name: 'bob', plan: 'growth', created: 2 })
  await store.addKey('hash-1', { id: 'key_1', account: 'acc_1', created: 5, hint: 'wxyz', networks: ['devnet'] })
  await store.addKey('hash-2', { id: 'key_2', account: 'acc_1', created: 6, hint: 'abcd', revoked: 9 })
  await store.addKey('hash-3', { id: 'key_3', account: 'acc_2', created: 7, hint: 'efgh', origins: [], dailyCredits: 500 })
  await store.putRecord('alerts', { id: 'acc_1', account: 'bucket-7', value: { email: true }, expires: neverExpires })
  await store.putRecord('delivery', { id: 'acc_1 2026-01-15 75 webhook', account: 'acc_1', value: 'pending', expires: neverExpires })
  await store.putRecord('delivery', { id: 'usage-webhook', account: '', value: { day: 1 }, expires: neverExpires })
  await store.putRecord('secret', { id: 'webhooks', account: '', value: 'key', expires: neverExpires })
  await recordChange(
    store,
    systemClock,
    { kind: 'command', name: 'me' },
    { action: 'account-added', account: { id: 'acc_1', name: 'alice' } },
  )
  const { today: day } = await store.dayTotals('acc_1')
  const leaseRequest = { account: 'acc_1', day, process: 'p1', minCredits: 0, limit: 1_000, shareDivisor: 1 }
  await store.requestLease({ ...leaseRequest, seq: 1, counters: undefined, desiredCredits: 600 })
  await store.requestLease({ ...leaseRequest, seq: 2, counters: { granted: 600, returned: 100, used: 300 }, desiredCredits: 0 })
  // The day of the key with a daily limit.
  await store.requestLease({ ...leaseRequest, account: 'key_3', seq: 3, counters: undefined, desiredCredits: 70 })
  await store.requestLease({ ...leaseRequest, process: 'p2', seq: 9, counters: undefined, desiredCredits: 50 })
  const others = [{ method: 'eth_getLogs' }, { hour: hour - 30 }, { hour: hour - 40 * 24 }, { account: 'acc_2', key: 'key_3' }]
  await store.reportUsage({ process: 'p1', seq: 1, counts: [count(), ...others.map(count)], retentionHours: 90 * 24 })
}

const readEverything = async (store: Store) => {
  const { today } = await store.dayTotals('acc_1')
  return {
    accounts: await store.accounts(),
    records: [await store.findRecord('alerts', 'acc_1'), await store.records('delivery', 'acc_1'), await store.records('delivery', '')],
    webhookKey: await store.findRecord('secret', 'webhooks'),
    changes: await readChanges(store, monthOf(systemClock.now())),
    keys: [await store.keys('acc_1'), await store.keys('acc_2')],
    holders: await Promise.all(['hash-1', 'hash-2', 'hash-3'].map(hash => store.findKey(hash))),
    totals: await Promise.all(['acc_1', 'acc_2', 'key_3'].map(async id => ({ ...(await store.dayTotals(id, today)), endsInMs: 0 }))),
    usage: [...(await store.usageCounts('acc_1', hour - 100, hour + 1)), ...(await store.usageCounts('acc_2', hour - 100, hour + 1))]
      .map(row => JSON.stringify(Object.entries(row).sort()))
      .sort(),
    // Of one that is older than two weeks, the hours are not known any more.
    days: await Promise.all([today - 40, today - 1, today].map(day => store.usageRows('acc_1', 'day', day - 1, day + 1))),
  }
}

t.test('store copy', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  t.beforeEach(() => redis.send('FLUSHALL'))
  const openFolder = async (t: Test, path: string) => {
    const store = await openStore({ kind: 'lmdb', path }, systemClock)
    t.teardown(() => store.close())
    return store
  }
  const openRedis = async (t: Test, database = 0) => {
    const store = await openStore({ kind: 'redis', url: new Secret(`${redis.url}/${database}`) }, systemClock)
    t.teardown(() => store.close())
    return store
  }
  const copy = (...args: string[]) => runCommand(storeCommand, ['copy', ...args])

  t.test('copies an embedded store into a Redis, and back into another embedded store, without a change', async t => {
    const [first, second] = [join(await tempFolder(t), 'data'), join(await tempFolder(t), 'data')]
    const [from, far, back] = [await openFolder(t, first), await openRedis(t), await openFolder(t, second)]
    await seedStore(from)
    const there = await copy(`lmdb:${first}`, redis.url)
    t.same(there, {
      code: 0,
      err: ['1 of 2 accounts', '2 of 2 accounts'],
      out: ['copied and compared: 2 accounts, 3 keys, 1 balance of today, 5 usage counts'],
    })
    t.same(await readEverything(far), await readEverything(from))
    const returned = await copy(redis.url, `lmdb:${second}`, '--json')
    t.same(
      returned.out.map(line => JSON.parse(line)),
      [{ accounts: 2, keys: 3, balances: 1, counts: 5 }],
    )
    t.same(await readEverything(back), await readEverything(from))
  })

  t.test('may be repeated: only changes are copied', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    for (let i = 0; i < 2; i += 1) t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0)
    t.same(await readEverything(to), await readEverything(from))
    await from.changeAccount('acc_1', { plan: 'growth', credits: 7_000 })
    await from.changeKey('key_3', { networks: ['base-mainnet'], origins: null })
    await from.revokeKey('key_1', 77)
    await from.reportUsage({ process: 'p1', seq: 2, counts: [count({ calls: 2, credits: 160 })], retentionHours: 90 * 24 })
    const { today: day } = await from.dayTotals('acc_1')
    const tally = { granted: 50, returned: 0, used: 50 }
    await from.requestLease({
      account: 'acc_1',
      day,
      process: 'p2',
      seq: 12,
      counters: tally,
      minCredits: 0,
      desiredCredits: 30,
      limit: 1_000,
      shareDivisor: 1,
    })
    t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0)
    t.same(await readEverything(to), await readEverything(from))
    await from.changeAccount('acc_1', { credits: null })
    t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0)
    t.same(await readEverything(to), await readEverything(from))
  })

  t.test('never reactivates a key that was revoked in the target, and never lowers usage counts', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    await copy(`lmdb:${path}`, redis.url)
    await to.revokeKey('key_1', 50)
    await to.reportUsage({ process: 'p7', seq: 1, counts: [count({ calls: 10, credits: 800 })], retentionHours: 90 * 24 })
    t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0)
    t.match(await to.findKey('hash-1'), { key: { revoked: 50 } })
    const calls = (await to.usageCounts('acc_1', hour, hour + 1)).map(row => row.calls)
    t.same(
      calls.sort((a, b) => a - b),
      [3, 13],
    )
  })

  t.test('fails before it writes anything when a name belongs to another account in the target', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    await to.addAccount({ id: 'acc_9', name: 'bob', plan: 'core', created: 1 })
    t.same(await copy(`lmdb:${path}`, redis.url), {
      code: 1,
      out: [],
      err: ['tollgate: nothing was copied: the target has other accounts of the same name: bob'],
    })
    t.equal(await to.account('alice'), undefined)
  })

  t.test('fails while gateways use either store, unless --live is given', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    await to.heartbeat('p3')
    await to.heartbeat('p4')
    t.same((await copy(`lmdb:${path}`, redis.url)).err, [
      'tollgate: 2 gateway processes use TO: stop the gateways for an exact copy, or add --live while they are idle',
    ])
    await from.heartbeat('p1')
    t.same((await copy(`lmdb:${path}`, redis.url)).err, [
      'tollgate: a gateway process uses FROM: stop the gateways for an exact copy, or add --live while they are idle',
    ])
    t.equal((await copy(`lmdb:${path}`, redis.url, '--live')).code, 0)
  })

  t.test('reports when the stores differ in the end', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    const { today: day } = await to.dayTotals('acc_1')
    const leaseRequest = { account: 'acc_1', day, process: 'p9', seq: 1, counters: undefined }
    await to.requestLease({ ...leaseRequest, minCredits: 0, desiredCredits: 5, limit: 10, shareDivisor: 1 })
    t.same((await copy(`lmdb:${path}`, redis.url)).err.slice(-1), [
      'tollgate: copied, but the stores differ: the balance of account alice changed meanwhile; ' + 'stop the gateways and copy again',
    ])
  })

  t.test('reports when keys or accounts were changed after they had been copied, which --live allows', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    // The counts are copied last.
    const changing = (change: () => Promise<unknown>): Store => ({
      ...from,
      async *allUsageCounts() {
        await change()
        yield* from.allUsageCounts()
      },
    })
    const quiet = { accounts: () => undefined, counts: () => undefined }
    const bare = { account: 'acc_1', created: 5, hint: 'wxyz' }
    for (const [what, change] of [
      ['alice', () => from.changeKey('key_1', { networks: [] })],
      ['alice', () => from.changeKey('key_1', { methods: ['eth_call'] })],
      ['alice', () => from.revokeKey('key_1', 77)],
      ['alice', () => from.addKey('hash-9', { id: 'key_9', ...bare })],
      ['bob', () => from.changeAccount('acc_2', { plan: 'core' })],
      ['carol', () => from.addAccount({ id: 'acc_3', name: 'carol', plan: 'core', created: 1 })],
    ] as const) {
      await t.rejects(copyStore(changing(change), to, quiet), {
        message: `copied, but the stores differ: account ${what} or its keys changed meanwhile; stop the gateways and copy again`,
      })
      await copyStore(from, to, quiet)
    }
    t.same(await readEverything(to), await readEverything(from))
  })

  t.test('rejects an invalid store without printing its text, as a usage error', async t => {
    const wrong = await copy('redis://:canary@', redis.url)
    t.match(wrong, { code: 64, err: ['FROM must be lmdb:PATH or redis://HOST:PORT'] })
    t.match(await copy(redis.url, '${STORE}'), { code: 64, err: ['TO: the environment variable STORE is not set'] })
    t.match(await copy(redis.url), { code: 64, err: ['missing argument TO'] })
    t.match(await copy(redis.url, `${redis.url}/1`, '--config', 'configs'), { code: 64, err: [/^unknown option --config$/] })
    t.match(await copy(redis.url, redis.url), { code: 1, err: ['tollgate: FROM and TO are the same store'] })
    t.match(await copy('lmdb:nowhere', redis.url), { code: 1, err: [/^tollgate: no store in .*nowhere$/] })
  })

  t.test('overwrites one line on a terminal', async t => {
    await seedStore(await openRedis(t))
    const drawn: string[] = []
    const out: string[] = []
    const terminal = {
      env: { STORE: redis.url },
      err: t.fail,
      out: (line: string) => {
        out.push(line)
      },
      status: (text: string) => {
        drawn.push(text)
      },
    }
    t.equal(await storeCommand.run(['copy', '${STORE}', `${redis.url}/1`], terminal), 0)
    t.equal(drawn[0], `[${'#'.repeat(15)}${'.'.repeat(15)}] 1 of 2 accounts`)
    t.equal(drawn.at(-1), '', 'and wipes it at the end')
    t.equal(out.length, 1)
  })
})

t.test('store repair makes the day of the clock the day of the store, while no gateway uses it', async t => {
  const { dir, run, json } = await createTestConfigs(t)
  const daysAhead = 40
  const ahead = await openStore({ kind: 'lmdb', path: join(dir, '../data') }, new TestClock(systemClock.now() + daysAhead * dayMs))
  t.teardown(() => ahead.close())
  await ahead.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const { today: day } = await ahead.heartbeat('p1')
  const request = { account: 'acc_1', day, process: 'p1', seq: 1, counters: undefined, minCredits: 0, limit: 1_000, shareDivisor: 1 }
  await ahead.requestLease({ ...request, desiredCredits: 1_000 })
  const [today, wrongDay] = [0, daysAhead].map(days => isoDate(systemClock.now() + days * dayMs))
  t.match(await json(usageCommand, 'alice'), { day: wrongDay, left: 0 })

  const gateway = await openStore({ kind: 'lmdb', path: join(dir, '../data') }, systemClock)
  t.teardown(() => gateway.close())
  await gateway.heartbeat('p2')
  const refusal = 'tollgate: a gateway process uses the store: stop the gateways first, or they would go on with its day'
  t.same(await run(storeCommand, 'repair'), { code: 1, out: [], err: [refusal] })
  await gateway.deregister('p2')

  const done = `the store's day was ${wrongDay}, and is ${today} now`
  t.same(await run(storeCommand, 'repair'), { code: 0, out: [done], err: [] })
  t.match(await json(usageCommand, 'alice'), { day: today, left: 1_000 })
  t.same(await json(storeCommand, 'repair'), { from: today, to: today })
  t.same((await run(storeCommand, 'repair')).out, [`the store's day is that of the clock: ${today}`])
})

t.test('store backup writes the store as it is at one moment while a gateway writes, and the backup is a store', async t => {
  const { dir, run } = await createTestConfigs(t)
  const path = join(dir, '..', 'data')
  t.match(await run(storeCommand, 'backup', join(dir, 'early')), { code: 1, err: [/^tollgate: no store in /] })
  const store = await openStore({ kind: 'lmdb', path }, systemClock)
  await seedStore(store)
  const expected = await readEverything(store)
  const target = join(dir, 'backup')
  // Accounts are added meanwhile, each with its key: a backup has both or none.
  let isDone = false
  const writes = (async () => {
    for (let i = 0; !isDone; i += 1) {
      await store.addAccount({ id: `acc_new_${i}`, name: `new-${i}`, plan: 'core', created: i })
      await store.addKey(`hash-new-${i}`, { id: `key_new_${i}`, account: `acc_new_${i}`, created: i, hint: 'wxyz' })
    }
  })()
  const { code, out } = await run(storeCommand, 'backup', target, '--json').finally(() => (isDone = true))
  await writes
  await store.close()
  t.equal(code, 0)
  const summary = JSON.parse(out.join('')) as { readonly accounts: number; readonly keys: number; readonly bytes: number }
  t.ok(summary.accounts >= 2 && summary.accounts - 2 - (summary.keys - 3) <= 1, JSON.stringify(summary))
  t.equal(statSync(join(target, 'data.mdb')).mode & 0o777, 0o600)
  t.same(readdirSync(target), ['data.mdb'])
  t.same(
    readdirSync(dir).filter(file => file.includes('partial')),
    [],
  )
  const restored = await openStore({ kind: 'lmdb', path: target }, systemClock)
  const found = await readEverything(restored)
  await restored.close()
  t.same({ ...found, accounts: found.accounts.filter(({ id }) => !id.includes('new')) }, expected)
  t.match(await run(storeCommand, 'backup', target), {
    code: 1,
    err: [/exists already: a backup is a new folder, such as backup-\$\(date \+%F\)$/],
  })
})

t.test('store backup refuses a store on Redis, and a folder that it cannot write to', async t => {
  const { dir, run } = await createTestConfigs(t)
  const store = await openStore({ kind: 'lmdb', path: join(dir, '..', 'data') }, systemClock)
  await store.close()
  await writeFile(join(dir, 'file'), '')
  t.match(await run(storeCommand, 'backup', join(dir, 'file/backup')), { code: 1, err: [/^tollgate: cannot write the backup to /] })
  const gateway = join(dir, 'gateway.yaml')
  await writeFile(gateway, (await readFile(gateway, 'utf8')).replace('lmdb:../data', 'redis://127.0.0.1:1'))
  t.match(await run(storeCommand, 'backup', join(dir, 'backup')), {
    code: 1,
    err: [/is for an embedded store: a Redis is saved by its own means/],
  })
})
