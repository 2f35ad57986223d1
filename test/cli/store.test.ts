import { readdirSync, statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { runCommand as runByMain } from '../../src/cli/command.ts'
import { storeCommand } from '../../src/cli/store.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { monthOf, readChanges, recordChange } from '../../src/services/accounts/change-history.ts'
import { systemClock } from '../../src/services/clock.ts'
import { beginCopy, copyStore } from '../../src/store/copy-store.ts'
import { backupStore, openEngine, openStore } from '../../src/store/open-store.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import { StoreError } from '../../src/store/store.ts'
import type { Store } from '../../src/store/store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { tempFolder } from '../store/temp-store.ts'
import { TestClock } from '../support/fakes.ts'
import { freePort } from '../support/free-port.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { createTestConfigs, runCommand, usageCommand } from './run-command.ts'
import { dayMs, hourMs, isoDate } from '../../src/util/dates.ts'
import { changeAccount } from '../store/change-account.ts'

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
    const from = await openFolder(t, first)
    await seedStore(from)
    const there = await copy(`lmdb:${first}`, redis.url)
    t.match(there, { code: 0, err: [], out: [/^copied and compared: 2 accounts, 3 keys, \d+ rows$/] })
    t.same(await readEverything(await openRedis(t)), await readEverything(from))
    const returned = await copy(redis.url, `lmdb:${second}`, '--json')
    t.match(JSON.parse(returned.out[0] ?? ''), { accounts: 2, keys: 3, rows: Number })
    t.same(await readEverything(await openFolder(t, second)), await readEverything(from))
    await from.addAccount({ id: 'acc_3', name: 'carol', plan: 'core', created: 1 })
    t.match(await from.account('carol'), { id: 'acc_3' }, 'the store that was copied can be used')
  })

  t.test('goes on with a copy that was cut off, as the store is by then, and nobody can use it before', async t => {
    const path = join(await tempFolder(t), 'data')
    const from = await openFolder(t, path)
    await seedStore(from)
    const [source, target] = [await openEngine({ kind: 'lmdb', path }, systemClock), await openEngine(redis.address, systemClock)]
    t.teardown(() => Promise.all([source.close(), target.close()]))
    const cutOff = await beginCopy(source, target, () => undefined)
    await cutOff.copyAll()
    await t.rejects(openRedis(t), { message: /^the store is an unfinished copy of another one: run `tollgate store copy` again/ })
    await changeAccount(from, 'acc_1', { plan: 'growth', credits: 7_000 })
    await from.changeKey('key_3', { networks: ['base-mainnet'], origins: null })
    await from.revokeKey('key_1', 77)
    await from.takeRecord('secret', 'webhooks')
    await from.reportUsage({ process: 'p1', seq: 2, counts: [count({ calls: 2, credits: 160 })], retentionHours: 90 * 24 })
    t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0)
    t.same(await readEverything(await openRedis(t)), await readEverything(from))
  })

  t.test('writes nothing into a store that is not empty, unless it is a part of the same store', async t => {
    const [path, other] = [join(await tempFolder(t), 'data'), join(await tempFolder(t), 'data')]
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    await to.addAccount({ id: 'acc_9', name: 'zoe', plan: 'core', created: 1 })
    const refusal = 'tollgate: nothing was copied: TO is not empty. Name another folder or database, or remove what is in it'
    t.same(await copy(`lmdb:${path}`, redis.url), { code: 1, out: [], err: [refusal] })
    t.equal(await to.account('alice'), undefined)
    await redis.send('FLUSHALL')
    t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0)
    t.same((await copy(`lmdb:${path}`, redis.url)).err, [refusal], 'a finished copy may have been used')
    await seedStore(await openFolder(t, other))
    t.same((await copy(`lmdb:${other}`, redis.url)).err, [refusal])
  })

  t.test('fails while gateways use either store', async t => {
    const path = join(await tempFolder(t), 'data')
    const [from, to] = [await openFolder(t, path), await openRedis(t)]
    await seedStore(from)
    const hint = 'stop the gateways, or add --switch to copy while they serve'
    await to.heartbeat('p3')
    await to.heartbeat('p4')
    t.same((await copy(`lmdb:${path}`, redis.url)).err, [`tollgate: 2 gateway processes use TO: ${hint}`])
    t.same((await copy(`lmdb:${path}`, redis.url, '--switch')).err, [
      'tollgate: nothing was copied: gateways use TO, which must be a new store',
    ])
    await from.heartbeat('p1')
    t.same((await copy(`lmdb:${path}`, redis.url)).err, [`tollgate: a gateway process uses FROM: ${hint}`])
    await redis.send('FLUSHALL')
    t.match((await copy(`lmdb:${path}`, redis.url, '--switch')).err, [
      /^tollgate: nothing was copied: 1 of 1 processes of gateways that use FROM do not know TO. Write `store: FROM -> TO` into/,
    ])
  })

  t.test('reports when the stores differ in the end, as one was used', async t => {
    const path = join(await tempFolder(t), 'data')
    const from = await openFolder(t, path)
    await seedStore(from)
    const [source, target] = [await openEngine({ kind: 'lmdb', path }, systemClock), await openEngine(redis.address, systemClock)]
    t.teardown(() => Promise.all([source.close(), target.close()]))
    let isChanged = false
    const changing = {
      ...target,
      async commit(...args: Parameters<typeof target.commit>) {
        const done = await target.commit(...args)
        if (args[0] === 'portal' && !isChanged) {
          isChanged = true
          await from.revokeKey('key_1', 77)
          await from.addAccount({ id: 'acc_3', name: 'carol', plan: 'core', created: 1 })
        }
        return done
      },
    }
    await t.rejects(
      copyStore(source, changing, () => undefined),
      {
        message: 'copied, but the stores differ, as FROM was used meanwhile: copy it again',
      },
    )
    await copyStore(source, target, () => undefined)
    t.same(await readEverything(await openRedis(t)), await readEverything(from))
  })

  t.test('reports an error once nothing is written any more, also of usage that goes to several places', async t => {
    const path = join(await tempFolder(t), 'data')
    await seedStore(await openFolder(t, path))
    const [source, target] = [await openEngine({ kind: 'lmdb', path }, systemClock), await openEngine(redis.address, systemClock)]
    t.teardown(() => Promise.all([source.close(), target.close()]))
    let [begun, underWay] = [0, 0]
    const failing = {
      ...target,
      async commit(...args: Parameters<typeof target.commit>) {
        const [, { puts = [] }] = args
        if (puts[0]?.table !== 'lastReports') return target.commit(...args)
        if ((begun += 1) === 1) throw new StoreError('no space left')
        underWay += 1
        // Longer than all else that the copy has begun.
        for (let turn = 0; turn < 500; turn += 1) await nextTurn()
        return target.commit(...args).finally(() => {
          underWay -= 1
        })
      },
    }
    await t.rejects(
      copyStore(source, failing, () => undefined),
      { message: 'no space left' },
    )
    t.match({ begun, underWay }, { begun: target.usageTags.length, underWay: 0 })
  })

  t.test('rejects an invalid store without printing its text, as a usage error', async t => {
    const wrong = await copy('redis://:canary@', redis.url)
    t.match(wrong, { code: 64, err: ['FROM must be lmdb:PATH or redis://HOST:PORT'] })
    t.match(await copy(redis.url, '${STORE}'), { code: 64, err: ['TO: the environment variable STORE is not set'] })
    t.match(await copy(redis.url), { code: 64, err: ['missing argument TO'] })
    t.match(await copy(redis.url, `${redis.url}/1`, '--config', 'configs'), { code: 64, err: [/^unknown option --config$/] })
    t.match(await copy(redis.url, redis.url.replace('127.0.0.1', 'localhost')), {
      code: 1,
      err: ['tollgate: FROM and TO are the same store'],
    })
    t.match(await copy(redis.url, `${redis.url} -> ${redis.url}/1`), { code: 64, err: ['TO must be lmdb:PATH or redis://HOST:PORT'] })
    t.match(await copy('lmdb:nowhere', redis.url), {
      code: 1,
      err: [/^tollgate: FROM: no store in .*nowhere: name its folder, which has a file data.mdb, as seen from \//],
    })
  })

  t.test('says which of both cannot be used, and which right its user lacks', async t => {
    const path = join(await tempFolder(t), 'data')
    await seedStore(await openFolder(t, path))
    const gone = `redis://127.0.0.1:${await freePort()}`
    for (const [args, name] of [
      [[gone, redis.url], 'FROM'],
      [[redis.url, gone], 'TO'],
    ] as const) {
      const { code, err } = await copy(...args)
      t.match(
        { code, err },
        { code: 1, err: [new RegExp(`^tollgate: ${name}: cannot use redis at .*; start it, or correct its address$`)] },
      )
    }
    await redis.send('ACL', 'SETUSER', 'narrow', 'on', '>pw', '~tollgate:*', '&tollgate:*', '+@all', '-scan')
    const { err } = await copy(`lmdb:${path}`, redis.url.replace('//', '//narrow:pw@'))
    t.match(err, [/NOPERM [^;]*; give its user the right `\+scan`, and the others that docs\/store.md names$/])
  })

  t.test('copies no empty database, and lets no gateways go over that do not use FROM', async t => {
    const path = join(await tempFolder(t), 'data')
    const from = await openFolder(t, path)
    await seedStore(from)
    const empty = 'tollgate: nothing was copied: FROM is empty. Name the store that gateways use'
    t.same(await copy(`${redis.url}/5`, redis.url), { code: 1, out: [], err: [empty] })
    const unused = 'tollgate: nothing was copied: no gateway uses FROM. Name the store that gateways use, or copy without --switch'
    for (const name of [`${redis.url}/5`, `lmdb:${path}`])
      t.same(await copy(name, redis.url, '--switch'), { code: 1, out: [], err: [unused] })
    const used = join(await tempFolder(t), 'used')
    const gateway = await openStore({ ...redis.address, from: { kind: 'lmdb', path: used } }, systemClock)
    t.teardown(() => gateway.close())
    await gateway.addAccount({ id: 'acc_9', name: 'zoe', plan: 'core', created: 1 })
    t.match(await gateway.account('zoe'), { id: 'acc_9' }, 'gateways that know TO start with the store before the arrow')
    t.equal((await copy(`lmdb:${path}`, redis.url)).code, 0, 'and TO can be copied into')
  })

  t.test('that is stopped by Ctrl-C says so, with exit code 1, and is gone on with', async t => {
    const path = join(await tempFolder(t), 'data')
    const from = await openFolder(t, path)
    await seedStore(from)
    const [out, err]: [string[], string[]] = [[], []]
    let isFirst = true
    const terminal = {
      env: {},
      err: (line: string) => void err.push(line),
      out: (line: string) => void out.push(line),
      status: () => {
        // As the kernel does it, for this process alone.
        if (isFirst) for (const listener of process.listeners('SIGINT')) listener('SIGINT')
        isFirst = false
      },
    }
    t.equal(await runByMain(storeCommand, ['copy', `lmdb:${path}`, redis.url], terminal), 1)
    const received = 'SIGINT received: what has begun is ended, or taken back; another signal ends the command at once'
    t.same({ out, err }, { out: [], err: [received, 'tollgate: stopped by SIGINT: run the command again, which goes on with the copy'] })
    await t.rejects(openRedis(t), { message: /^the store is an unfinished copy of another one/ })
    t.match(await copy(`lmdb:${path}`, redis.url), { code: 0 })
    t.same(await readEverything(await openRedis(t)), await readEverything(from))
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
    t.match(drawn[0], /^\d+ rows$/)
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

t.test('store backup that is stopped says so, and leaves no part of the backup', async t => {
  const { dir } = await createTestConfigs(t)
  const path = join(dir, '..', 'data')
  const store = await openStore({ kind: 'lmdb', path }, systemClock)
  await seedStore(store)
  await store.close()
  const target = join(dir, 'backup')
  const controller = new AbortController()
  const backup = backupStore({ kind: 'lmdb', path }, systemClock, target, controller.signal)
  while (!readdirSync(dir).some(file => file.includes('partial'))) await nextTurn()
  controller.abort(new Error('stopped by SIGINT'))
  await t.rejects(backup, { message: 'stopped by SIGINT' })
  await t.rejects(
    backupStore({ kind: 'lmdb', path }, systemClock, target, controller.signal),
    { message: 'stopped by SIGINT' },
    'before it began',
  )
  t.same(
    readdirSync(dir).filter(file => file.startsWith('backup')),
    [],
  )
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
