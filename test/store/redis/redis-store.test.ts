import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { Secret } from '../../../src/plugin/secret.ts'
import { gatewayHealth, gatewayProblems } from '../../../src/portal/operator/gateway-health.ts'
import { systemClock } from '../../../src/services/clock.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { createMetricsRegistry, formatMetrics } from '../../../src/services/metrics.ts'
import { StoreLimits } from '../../../src/services/store-limits.ts'
import { applyLeaseRequest, emptyLeaseRecord } from '../../../src/store/lease-accounting.ts'
import type { LeaseRequest, LeaseRecord } from '../../../src/store/lease-accounting.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { tableKey, usageTagOf, usageTags } from '../../../src/store/redis/redis-layout.ts'
import { keySlot, slotCount } from '../../../src/store/redis/redis-slots.ts'
import { openRedisStore } from '../../../src/store/redis/redis-store.ts'
import { changeGroupOf } from '../../../src/store/store.ts'
import type { Store } from '../../../src/store/store.ts'
import { TestClock } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { accountStoreContract } from '../account-store-contract.ts'
import { ledgerStoreContract, storeClockContract } from '../ledger-store-contract.ts'
import { useContract, usageStoreContract } from '../usage-store-contract.ts'
import { recordStoreContract } from '../record-store-contract.ts'
import { requestLogContract } from '../request-log-contract.ts'
import { dayMs } from '../../../src/util/dates.ts'
import { changeAccount } from '../change-account.ts'

const alice = { id: 'acc_1', name: 'alice', plan: 'core', created: 1 }

t.test('redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  // The system clock is for timers only: the time of the store is the test's.
  const openFresh =
    (at: RedisServer) =>
    async (t: Test, clock: Clock): Promise<Store> => {
      await at.send('FLUSHALL')
      const store = await openRedisStore(at.address, systemClock, clock)
      t.teardown(() => store.close())
      return store
    }
  const openOne = openFresh(redis)

  t.test('fulfills the contract of account stores', t => accountStoreContract(t, openOne))
  t.test('fulfills the contract of ledger stores', t => ledgerStoreContract(t, openOne))
  t.test('fulfills the contract of usage stores', t => usageStoreContract(t, openOne))
  t.test('fulfills the contract of record stores', t => recordStoreContract(t, openOne))
  t.test('fulfills the contract of request logs', t => requestLogContract(t, openOne))

  t.test('records use and counts in one step', t => useContract(t, openOne))
  t.test('follows a clock within reason', async t => {
    await redis.send('FLUSHALL')
    await storeClockContract(t, async (t, clock) => {
      const store = await openRedisStore(redis.address, systemClock, clock)
      t.teardown(() => store.close())
      return store
    })
  })

  t.test('runs each lease request as applyLeaseRequest() does', async t => {
    const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
    const today = Math.floor(clock.now() / dayMs)
    const store = await openOne(t, clock)
    let runs = 0
    await fc.assert(
      fc.asyncProperty(leaseRequests, async requests => {
        const account = `acc_${(runs += 1)}`
        const records = new Map<string, LeaseRecord>()
        let leased = 0
        for (const [index, { offset, isStale, ...over }] of requests.entries()) {
          const request: LeaseRequest = { ...over, account, day: today + offset, seq: isStale ? 1 : index + 1 }
          // Only one day is compared: requests for other days must not change its totals.
          if (offset === 0) {
            const result = applyLeaseRequest(leased, records.get(request.process) ?? emptyLeaseRecord, request, today)
            leased = result.leased
            records.set(request.process, result.record)
            const { granted, returned, used } = result.record
            const { counters, remaining } = await store.requestLease(request)
            if (remaining !== request.limit - leased) throw new Error(`remaining ${remaining}, not ${request.limit - leased}`)
            if (counters.granted !== granted || counters.returned !== returned || counters.used !== used) {
              throw new Error(`${JSON.stringify(counters)}, not ${JSON.stringify(result.record)}`)
            }
          } else {
            await store.requestLease(request)
          }
        }
        const totals = await store.dayTotals(account)
        if (totals.leased !== leased) throw new Error(`leased ${totals.leased}, not ${leased}`)
      }),
      { numRuns: 200 },
    )
    t.pass(`${runs} sequences`)
  })

  t.test('leases that the store has lost are written again, also those of accounts that have stopped calling', async t => {
    const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
    const store = await openOne(t, clock)
    const day = Math.floor(clock.now() / dayMs)
    const base = { day, process: 'p1', minCredits: 0, limit: 1_000, shareDivisor: 1 }
    const lease = (account: string, seq: number) => store.requestLease({ ...base, account, seq, counters: undefined, desiredCredits: 100 })
    const settle = (account: string, seq: number, used: number) =>
      store.requestLease({ ...base, account, seq, counters: { granted: 100, returned: 100 - used, used }, desiredCredits: 0 })
    await lease('acc_old', 1)
    await settle('acc_old', 2, 70)
    clock.advance(31_000)
    for (const [i, account] of ['acc_idle', 'acc_other', 'acc_busy'].entries()) await lease(account, 3 + i)
    const older = await redis.send('HGET', `tollgate:{acc_other}:day:${day}`, 'process:p1')
    for (const [i, account] of ['acc_idle', 'acc_other'].entries()) await settle(account, 6 + i, 40)
    // The replica that is promoted has no row, an older one, and all.
    for (const account of ['acc_old', 'acc_idle', 'acc_busy']) await redis.send('DEL', `tollgate:{${account}}:day:${day}`)
    await redis.send('HSET', `tollgate:{acc_other}:day:${day}`, 'process:p1', String(older), 'leased', '100')
    const totals = async (account: string) => {
      const { leased, used } = await store.dayTotals(account)
      return [leased, used]
    }
    await settle('acc_busy', 9, 10)
    await waitUntil(async () => (await totals('acc_idle'))[0] === 40 && (await totals('acc_other'))[0] === 40)
    t.same(await Promise.all(['acc_idle', 'acc_other', 'acc_busy', 'acc_old'].map(totals)), [
      [40, 40],
      [40, 40],
      [10, 10],
      [0, 0],
    ])
    const loseIdle = () => redis.send('DEL', `tollgate:{acc_idle}:day:${day}`)
    await loseIdle()
    await store.heartbeat('p1')
    await waitUntil(async () => (await totals('acc_idle'))[0] === 40)
    clock.advance(6_000)
    await loseIdle()
    await store.heartbeat('p1')
    await waitUntil(async () => (await totals('acc_idle'))[0] === 40)
    await loseIdle()
    for (let i = 0; i < 20; i += 1) await store.heartbeat('p1')
    t.same(await totals('acc_idle'), [0, 0], 'later nothing is repeated unless a loss is found')
  })

  t.test('is exact to the credit for the largest possible balance', async t => {
    const clock = new TestClock()
    const store = await openOne(t, clock)
    const day = Math.floor(clock.now() / dayMs)
    const limit = Number.MAX_SAFE_INTEGER
    const base = { account: 'acc_1', day, process: 'p1', minCredits: 0, limit, shareDivisor: 1 }
    const first = await store.requestLease({ ...base, seq: 1, counters: undefined, desiredCredits: limit - 1 })
    t.match(first, { counters: { granted: limit - 1 }, remaining: 1 })
    const counters = { granted: limit - 1, returned: 0, used: limit - 1 }
    const second = await store.requestLease({ ...base, seq: 2, counters, desiredCredits: 5 })
    t.match(second, { counters: { granted: limit, used: limit - 1 }, remaining: 0 })
    t.match(await store.dayTotals('acc_1'), { leased: limit, used: limit - 1, held: 0, forfeited: 1 })
  })

  t.test('takes the day from its own clock', async t => {
    await redis.send('FLUSHALL')
    const wrong = new TestClock(Date.UTC(2001, 0, 1))
    const store = await openStore(redis.address, wrong)
    t.teardown(() => store.close())
    const { today, endsInMs } = await store.heartbeat('p1')
    const differenceMs = today * dayMs + dayMs - endsInMs - systemClock.now()
    t.ok(Math.abs(differenceMs) < 5_000, `${differenceMs} ms`)
  })

  t.test('no clock alone ends a record for others: not that of Redis, nor that of one gateway', async t => {
    await redis.send('FLUSHALL')
    const open = async (clock: Clock) => {
      const store = await openRedisStore(redis.address, clock)
      t.teardown(() => store.close())
      return store
    }
    const store = await open(systemClock)
    const session = { id: 's1', account: 'acc_1', value: null, expires: systemClock.now() + 600_000 }
    await store.putRecord('session', session)
    t.equal(await redis.send('PTTL', 'tollgate:{portal}:session'), -1, 'Redis does not expire it')

    const ahead = await open(new TestClock(systemClock.now() + 3_650 * dayMs))
    await ahead.putRecord('session', { ...session, id: 's2', expires: systemClock.now() + 7_300 * dayMs })
    t.equal(await ahead.findRecord('session', 's1'), undefined)
    t.same(await store.findRecord('session', 's1'), session)
    t.match(await store.records('session', 'acc_1'), [{ id: 's1' }, { id: 's2' }])

    const behind = await open(new TestClock(systemClock.now() - 3_650 * dayMs))
    await behind.putRecord('sign-in-link', { ...session, id: 'l1', expires: systemClock.now() - 1 })
    await behind.putRecord('sign-in-link', { ...session, id: 'l2' })
    t.equal(await store.takeRecord('sign-in-link', 'l1'), undefined, 'nobody signs in later than promised')
  })

  t.test('records that have expired are removed with later writes, whatever their kind and account, and nothing stays of them', async t => {
    const clock = new TestClock()
    const store = await openOne(t, clock)
    const record = { id: 'a', account: 'acc_1', value: 1, expires: clock.now() + 1_000 }
    for (let i = 0; i < 25; i += 1) await store.putRecord('session', { ...record, id: `s${i}` })
    await store.putRecord('sign-in-link', { ...record, id: 'l:1', account: 'acc_2' })
    await store.putRecord('person', { ...record, id: 'p1', expires: Number.MAX_SAFE_INTEGER })
    await store.putRecord('session', { ...record, id: 's0', expires: clock.now() + 1_000 + dayMs })
    clock.advance(30 * 60_000)
    for (let i = 0; i < 3; i += 1) await store.putRecord('token', { ...record, account: 'acc_3', expires: Number.MAX_SAFE_INTEGER })
    const span = Math.floor((record.expires + dayMs) / 600_000)
    const tables = ['expiring', `expiring:${span}`, 'person', 'person-of:acc_1', 'session', 'session-of:acc_1', 'token', 'token-of:acc_3']
    const keys = async () => ((await redis.send('KEYS', 'tollgate:{portal}:*')) as string[]).sort()
    await waitUntil(async () =>
      isDeepStrictEqual(
        await keys(),
        tables.map(table => `tollgate:{portal}:${table}`),
      ),
    )
    t.same(await redis.send('HKEYS', `tollgate:{portal}:expiring:${span}`), ['session:s0'])
    t.same(await redis.send('HKEYS', 'tollgate:{portal}:session'), ['s0'])
  })

  t.test('no clock of Redis expires what credits and counts depend on: the three latest days of an account are retained', async t => {
    const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
    const today = Math.floor(clock.now() / dayMs)
    const store = await openOne(t, clock)
    const row = (day: number) => `tollgate:{acc_1}:day:${day}`
    const reported = (day: number) => tableKey(usageTagOf('acc_1'), `reportedUse:acc_1:${day}`)
    const use = async (day: number, seq: number, process = 'p1') => {
      const base = { account: 'acc_1', process, minCredits: 0, limit: 900, shareDivisor: 1, counters: undefined, desiredCredits: 80 }
      await store.requestLease({ ...base, day, seq })
      const count = { account: 'acc_1', key: 'key_1', network: 'devnet', method: 'eth_call', outcome: 'ok', forwarded: false }
      const counts = [{ ...count, hour: day * 24, calls: 1, credits: 80 }]
      return store.reportUsage({ process, seq, counts, retentionHours: 90 * 24 })
    }
    const keys = async () => ((await redis.send('KEYS', 'tollgate:*')) as string[]).filter(key => key !== 'tollgate:version')
    const rows = async () => (await keys()).filter(key => /:(day|reportedUse):/.test(key)).sort()
    const lastReports = () => redis.send('HKEYS', tableKey(usageTagOf('acc_1'), 'lastReports'))
    for (const seq of [1, 2, 3, 4]) await use(today + seq - 2, seq)
    const latest = [today, today + 1, today + 2]
    await waitUntil(async () => isDeepStrictEqual(await rows(), [...latest.map(row), ...latest.map(reported)].sort()))
    await use(today - 7, 7)
    await waitUntil(async () => !(await rows()).includes(row(today - 7)))

    clock.advance(3 * dayMs)
    await use(today + 3, 1, 'p2')
    t.same(await lastReports(), ['p1', 'p2'])
    clock.advance(3_600_000)
    await use(today + 3, 2, 'p2')
    t.same(await lastReports(), ['p2'], 'a process without reports for three days has ended')
    for (const key of await keys()) t.equal(await redis.send('PTTL', key), -1, key)
  })

  t.test(
    'usage is spread over the slots of a cluster by account, each beside its ledger; a part that was lost is not counted twice',
    async t => {
      t.same(
        usageTags.map(tag => Math.floor(keySlot(tableKey(tag, 'calls')) / (slotCount / 64))),
        Array.from({ length: 64 }, (_, i) => i),
      )
      const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
      const store = await openOne(t, clock)
      const accounts = Array.from({ length: 500 }, (_, i) => `acc_${i}`)
      const [hour, day] = [Math.floor(clock.now() / 3_600_000), Math.floor(clock.now() / dayMs)]
      const of = (credits: number) => (account: string) => ({
        ...{ account, key: 'key_1', network: 'devnet', method: 'eth_call', outcome: 'ok', forwarded: false },
        ...{ hour, calls: 1, credits },
      })
      const report = (seq: number, credits: number) =>
        store.reportUsage({ process: 'p1', seq, counts: accounts.map(of(credits)), retentionHours: 48 })
      t.same(await report(1, 80), { lostWrites: 'none' })
      const tags = new Set(((await redis.send('KEYS', 'tollgate:*:calls:*')) as string[]).map(key => /\{(.*)\}/.exec(key)?.[1]))
      t.equal(tags.size, 64)
      for (const account of accounts.slice(0, 50)) {
        const ranges = [tableKey(account, ''), tableKey(usageTagOf(account), '')].map(key => Math.floor(keySlot(key) / (slotCount / 64)))
        t.equal(ranges[0], ranges[1])
      }
      t.same(
        await store.accountUse(accounts, { day, hours: [hour] }),
        accounts.map(account => ({ account, credits: 80, calls: [1] })),
      )

      // One node of a cluster refuses its part, and the report is sent again.
      const broken = tableKey(usageTagOf('acc_7'), 'lastReports')
      await redis.send('RENAME', broken, 'tollgate:aside')
      await redis.send('SET', broken, 'of another type')
      await t.rejects(report(2, 20), /WRONGTYPE/)
      await redis.send('DEL', broken)
      await redis.send('RENAME', 'tollgate:aside', broken)
      t.same(await report(2, 20), { lostWrites: 'none' })
      t.same(
        (await store.accountUse(accounts, { day, hours: [hour] })).filter(({ credits, calls }) => credits !== 100 || calls[0] !== 2),
        [],
      )

      // One node loses all its rows: what was reported in the last 30 s comes again, and processes are known there again from the next report on.
      const lost = usageTagOf('acc_7')
      const keys = (await redis.send('KEYS', `tollgate:{${lost}}:*`)) as string[]
      await redis.send('DEL', ...keys)
      t.same(await report(3, 1), { lostWrites: 'repeated' })
      const ofLost = async () =>
        (await store.accountUse(['acc_7'], { day, hours: [hour] })).map(({ credits, calls }) => [credits, calls[0]])
      t.same(await ofLost(), [[101, 3]])
      clock.advance(31_000)
      await report(4, 1)
      await redis.send('DEL', ...keys)
      t.same(await report(5, 1), { lostWrites: 'missing' })
      t.same(await ofLost(), [[2, 2]])
      const other = accounts.find(account => usageTagOf(account) !== lost) ?? ''
      clock.advance(31_000)
      await redis.send('DEL', tableKey(lost, 'lastReports'))
      await store.reportUsage({ process: 'p1', seq: 6, counts: [of(1)(other)], retentionHours: 48 })
      t.same(await redis.send('HKEYS', tableKey(lost, 'lastReports')), ['p1'])
      t.same(
        (await store.accountUse(['acc_7', other], { day, hours: [hour] })).map(({ credits }) => credits),
        [2, 104],
      )

      clock.advance(49 * 3_600_000)
      await store.reportUsage({ process: 'p1', seq: 7, counts: [], retentionHours: 48 })
      const left = async () =>
        ((await redis.send('KEYS', 'tollgate:*')) as string[]).filter(key => /:calls:.*:[mh]\d|:accounts:[mh]/.test(key))
      await waitUntil(async () => (await left()).length === 0)
    },
  )

  t.test('a process that knows no day yet drops no counts by a clock that is years ahead', async t => {
    const start = Date.UTC(2026, 0, 15, 12)
    const store = await openOne(t, new TestClock(start))
    await store.heartbeat('p1')
    const count = { account: 'acc_1', key: 'key_1', network: 'devnet', method: 'eth_call', outcome: 'ok', forwarded: false }
    const hour = Math.floor(start / 3_600_000)
    await store.reportUsage({ process: 'p1', seq: 1, counts: [{ ...count, hour, calls: 1, credits: 80 }], retentionHours: 90 * 24 })
    const joining = await openRedisStore(redis.address, systemClock, new TestClock(start + 3_650 * dayMs))
    t.teardown(() => joining.close())
    await joining.reportUsage({ process: 'p2', seq: 1, counts: [], retentionHours: 90 * 24 })
    t.equal((await store.usageCounts('acc_1', hour, hour + 1)).length, 1)
  })

  t.test('an account that is removed leaves no row of its ledger, and a repair none of a later day', async t => {
    await redis.send('FLUSHALL')
    const store = await openStore(redis.address, systemClock)
    t.teardown(() => store.close())
    await store.addAccount({ ...alice, deleteAt: 1 })
    await store.addKey('hash', { id: 'key_1', account: alice.id, hint: 'x', dailyCredits: 9, created: 1 })
    const { today } = await store.heartbeat('p1')
    const base = { process: 'p1', minCredits: 0, limit: 9, shareDivisor: 1, counters: undefined, desiredCredits: 5 }
    const rows = async () => ((await redis.send('KEYS', 'tollgate:*')) as string[]).filter(key => /day|reportedUse/.test(key))
    const count = { key: 'key_1', network: 'devnet', method: 'eth_call', outcome: 'ok', forwarded: false }
    const lease = async (account: string, seq: number) => {
      await store.requestLease({ ...base, account, day: today + 3_652, seq })
      const counts = [{ ...count, account, hour: (today + 3_652) * 24, calls: 1, credits: 5 }]
      await store.reportUsage({ process: 'p1', seq, counts, retentionHours: 90 * 24 })
    }
    await lease(alice.id, 1)
    await lease('key_1', 2)
    t.equal((await rows()).length, 6)
    await store.resetDay()
    t.same(await rows(), [])
    await lease(alice.id, 3)
    await lease('key_1', 4)
    await redis.send('ACL', 'SETUSER', 'default', '-hdel')
    await t.rejects(store.removeAccount(alice.id, 1))
    await redis.send('ACL', 'SETUSER', 'default', '+hdel')
    t.equal(await store.removeAccount(alice.id, 1), true, 'a removal that was cut off is done again')
    t.same(await rows(), [])
  })

  t.test('answers thousands of concurrent commands in turn', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    const found = await Promise.all(Array.from({ length: 12_000 }, () => store.account('alice')))
    t.ok(found.every(account => account?.id === 'acc_1'))
  })

  t.test('finds a key and its account in one request, and that there is none', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    await store.addKey('hash', { id: 'key_1', account: alice.id, created: 5, hint: 'wxyz' })
    await redis.send('CONFIG', 'RESETSTAT')
    t.match(await store.findKey('hash'), { key: { id: 'key_1' }, account: alice })
    t.equal(await store.findKey('other'), undefined)
    t.match(String(await redis.send('INFO', 'commandstats')), /^cmdstat_evalsha:calls=2,/m)
  })

  t.test('gets its scripts again when it has lost them', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    await redis.send('SCRIPT', 'FLUSH')
    t.equal(await store.addAccount(alice), false)
    t.match(await store.heartbeat('p1'), { liveProcesses: 1 })
  })

  t.test('notifies every subscribed process of the changes of others', async t => {
    const one = await openOne(t, new TestClock())
    const two = await openRedisStore(redis.address, systemClock)
    t.teardown(() => two.close())
    const notified = new Promise<number | undefined>(resolve => {
      t.teardown(two.subscribe(resolve))
    })
    await waitUntil(async () => String(await redis.send('PUBSUB', 'CHANNELS')).includes('tollgate:news'))
    await one.addAccount(alice)
    t.equal(await notified, changeGroupOf(alice.id))
    t.match(await two.account('alice'), alice)
  })

  t.test('concurrent changes of one row are all kept', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    await store.addKey('hash', { id: 'key_1', account: 'acc_1', created: 5, hint: 'wxyz' })
    const plans = Array.from({ length: 20 }, (_, i) => changeAccount(store, 'acc_1', { plan: `plan-${i}` }))
    const lists = Array.from({ length: 20 }, (_, i) => store.changeKey('key_1', { networks: [`network-${i}`] }))
    const times = await Promise.all(Array.from({ length: 20 }, (_, i) => store.revokeKey('key_1', 100 + i)))
    t.ok((await Promise.all([...plans, ...lists])).every(Boolean))
    t.equal(new Set(times.map(row => row?.revoked)).size, 1, 'all return the same time')
    t.match(await store.keys('acc_1'), [{ revoked: times[0]?.revoked, networks: [/^network-/] }])
  })

  t.test('refuses a layout of another version', async t => {
    await redis.send('FLUSHALL')
    await redis.send('SET', 'tollgate:version', '1')
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message:
        `the store in redis at 127.0.0.1:${redis.port} has version 1, and this Tollgate reads version 2: ` +
        'run the Tollgate that wrote it, or name another database',
    })
    await redis.send('FLUSHALL')
  })

  t.test('tells how much of its limits is used; operators are warned before one is reached', async t => {
    const store = await openOne(t, new TestClock())
    const metrics = createMetricsRegistry()
    const limits = new StoreLimits(store, metrics)
    const problems = () => {
      const families = metrics.families()
      const idle = { networks: [], refusedSockets: 0, hasOwnPlugins: false, cpu: 0, now: 0 }
      return gatewayProblems({ ...idle, health: gatewayHealth(families), families }).map(({ alert, text }) => `${alert}: ${text}`)
    }
    const used = Number(/used_memory:(\d+)/.exec(String(await redis.send('INFO', 'memory')))?.[1])
    await redis.send('CONFIG', 'SET', 'maxmemory', String(10 * used))
    await limits.record()
    t.same(problems(), [])
    t.match(formatMetrics(metrics.families()), /tollgate_store_used_ratio\{limit="memory"\} 0\.[01]/)
    const { memory = 0, clients = 0 } = await store.usedShares()
    t.ok(memory > 0.09 && memory < 0.2, 'of 10 times what is used')
    t.ok(clients >= 0 && clients < 0.01, 'of 10,000, where Redis tells')
    await redis.send('CONFIG', 'SET', 'maxmemory', String(Math.round(used / 0.85)))
    await limits.record()
    t.match(problems(), [/^TollgateStoreFull: (8|9)\d\.\d % of the memory of the store are in use: at 100 % calls are refused$/])
    await redis.send('CONFIG', 'SET', 'maxmemory', '0')
    await limits.record()
    t.same(problems(), [])
    t.notMatch(formatMetrics(metrics.families()), /limit="memory"/, 'without a limit there is no share of it')
    await store.close()
    await limits.record()
    t.pass('nothing is thrown while the store does not answer')
  })

  t.test('is refused when it would evict balances', async t => {
    await redis.send('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', 'volatile-lru')
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message:
        `redis at 127.0.0.1:${redis.port} would drop balances and keys when its memory is full: ` +
        'set its maxmemory-policy to noeviction (it is volatile-lru)',
    })
    await redis.send('CONFIG', 'SET', 'maxmemory', '0', 'appendonly', 'yes')
    const { warnings } = await openOne(t, new TestClock())
    t.match(warnings, [/^redis at .* drops balances and keys as soon as it has a maxmemory: set its maxmemory-policy to noeviction$/])
    await redis.send('CONFIG', 'SET', 'maxmemory-policy', 'noeviction', 'appendonly', 'no')
  })

  t.test('is read where it takes no writes now, and is written by nobody before', async t => {
    await redis.send('FLUSHALL')
    const open = async () => {
      const store = await openStore(redis.address, systemClock)
      t.teardown(() => store.close())
      return store
    }
    await redis.send('CONFIG', 'SET', 'maxmemory', '1')
    await t.rejects(open(), /: OOM .*; raise its maxmemory/, 'a new store needs a version')
    await redis.send('CONFIG', 'SET', 'maxmemory', '0')
    await (await open()).addAccount(alice)
    for (const [name, value] of Object.entries({ maxmemory: '1', 'min-replicas-to-write': '1' })) {
      await redis.send('CONFIG', 'SET', name, value)
      const store = await open()
      t.match(await store.accounts(), [alice], name)
      await t.rejects(changeAccount(store, alice.id, { label: 'x' }), / (OOM|NOREPLICAS) /)
      await redis.send('CONFIG', 'SET', name, '0')
    }
  })

  t.test('is used without an append-only file, with a warning', async t => {
    t.match((await openOne(t, new TestClock())).warnings, [/^redis at .* has `appendonly no`: a restart loses .*; set `appendonly yes`$/])
    await redis.send('CONFIG', 'SET', 'appendonly', 'yes')
    t.same((await openOne(t, new TestClock())).warnings, [])
    await redis.send('CONFIG', 'SET', 'appendonly', 'no')
  })

  t.test('accepts a user, a password and a database', async t => {
    const rights = ['~tollgate:*', '&tollgate:*', '+@all', '-@dangerous', '+info']
    await redis.send('ACL', 'SETUSER', 'gate', 'on', '>p@ss/word', ...rights)
    const at = (credentials: string) =>
      ({
        kind: 'redis',
        url: new Secret(`redis://${credentials}@127.0.0.1:${redis.port}/3`, `127.0.0.1:${redis.port}`),
      }) as const
    const store = await openStore(at('gate:p%40ss%2Fword'), systemClock)
    await store.addAccount(alice)
    await store.close()
    const other = await openStore(redis.address, systemClock)
    t.equal(await other.account('alice'), undefined, 'another database')
    await other.close()
    await t.rejects(openStore(at('gate:wrong'), systemClock), {
      name: 'StoreError',
      message: `cannot use redis at 127.0.0.1:${redis.port}: WRONGPASS invalid username-password pair or user is disabled; correct the user and the password in its address`,
    })
  })

  t.test('refuses requests after it was closed, and may be closed twice', async t => {
    const store = await openOne(t, new TestClock())
    await store.close()
    await store.close()
    await t.rejects(store.heartbeat('p1'), { name: 'StoreError', message: 'the store is closed' })
    await t.rejects(async () => store.account('alice'), { name: 'StoreError' })
  })
})

const credits = fc.oneof(fc.nat(30), fc.nat(500), fc.constantFrom(0, 1, 1_000, 1_001, Number.MAX_SAFE_INTEGER))
/** Mostly less than was granted: the response to the request before was lost. */
const counters = fc.record({ granted: fc.oneof(fc.nat(20), fc.nat(1_200)), returned: fc.nat(200), used: fc.nat(500) })

const leaseRequests = fc.array(
  fc.record({
    process: fc.constantFrom('p1', 'p2', 'p3'),
    offset: fc.constantFrom(0, 0, 0, 0, 0, -1, 1),
    isStale: fc.constantFrom(false, false, false, true),
    counters: fc.option(counters, { nil: undefined }),
    minCredits: credits,
    desiredCredits: credits,
    limit: fc.constantFrom(0, 80, 300, 1_000),
    shareDivisor: fc.integer({ min: 1, max: 8 }),
  }),
  { minLength: 1, maxLength: 15 },
)
