import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type { LeaseRequest } from '../../src/store/lease-accounting.ts'
import type { AccountStore, KeyRow, LedgerStore, UsageCount, UsageReport, UsageStore } from '../../src/store/store.ts'
import { TestClock } from '../support/fakes.ts'
import { dayMs, hourMs } from '../../src/util/dates.ts'

type OpenStore<S> = (t: Test, clock: TestClock) => S | Promise<S>

/** What every store does with accounts and keys. */
export const accountStoreContract = async (t: Test, open: OpenStore<AccountStore>): Promise<void> => {
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

  t.test('a name that is taken is refused, and the account that has it stays as it was', async t => {
    const store = await open(t, new TestClock())
    const added = await Promise.all([store.addAccount(alice), store.addAccount({ ...bob, name: 'alice' })])
    t.same(added, [true, false])
    t.same(await store.account('alice'), alice)
    t.equal(await store.account('acc_2'), undefined)
  })

  t.test('accounts are listed by name', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(bob)
    await store.addAccount(alice)
    t.same(await store.accounts(), [alice, bob])
  })

  t.test('an account changes its plan, or gets credits of its own, and nothing else', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    t.same(await store.changeAccount('acc_1', { plan: 'growth' }), { ...alice, plan: 'growth' })
    t.same(await store.account('alice'), { ...alice, plan: 'growth' })
    t.same(await store.changeAccount('acc_1', { credits: 5_000 }), { ...alice, plan: 'growth', credits: 5_000 })
    t.same(await store.changeAccount('acc_1', { plan: 'core' }), { ...alice, credits: 5_000 })
    t.same(await store.accounts(), [{ ...alice, credits: 5_000 }])
    t.same(await store.changeAccount('acc_1', { credits: null }), alice)
    t.same(await store.account('alice'), alice)
    t.equal(await store.changeAccount('acc_9', { plan: 'growth' }), undefined)
  })

  t.test('a key is found by its hash, together with whose it is', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    const row = key('key_1', { networks: ['devnet'], methods: ['eth_call'], origins: ['https://dapp.test'] })
    await store.addKey('hash', row)
    t.same(await store.findKey('hash'), { key: row, account: alice })
    t.equal(await store.findKey('other'), undefined)
  })

  t.test('keys are listed by account, in the order in which they were made', async t => {
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

  t.test('a key is revoked once: the first time stays', async t => {
    const store = await open(t, new TestClock())
    await store.addAccount(alice)
    await store.addKey('hash', key('key_1'))
    t.match(await store.revokeKey('key_1', 100), { id: 'key_1', revoked: 100 })
    t.match(await store.revokeKey('key_1', 200), { id: 'key_1', revoked: 100 })
    t.match(await store.findKey('hash'), { key: { revoked: 100 } })
    t.match(await store.keys('acc_1'), [{ revoked: 100 }])
    t.equal(await store.revokeKey('key_9', 100), undefined)
  })

  t.test('a key changes the lists that are named, and null opens everything', async t => {
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

  t.test('each change is counted', async t => {
    const store = await open(t, new TestClock())
    const steps: readonly (() => Promise<unknown>)[] = [
      () => store.addAccount(alice),
      () => store.addKey('hash', key('key_1')),
      () => store.changeAccount('acc_1', { plan: 'growth' }),
      () => store.changeKey('key_1', { networks: ['devnet'] }),
      () => store.revokeKey('key_1', 100),
    ]
    const seen = [await store.changeCount(), await store.changeCount()]
    t.equal(seen.shift(), seen[0], 'and nothing else')
    for (const step of steps) {
      await step()
      seen.push(await store.changeCount())
    }
    t.equal(new Set(seen).size, 6)
  })

  t.test('who watches is told after each change, until they stop', async t => {
    const store = await open(t, new TestClock())
    let told = 0
    const stop = store.subscribe(() => {
      told += 1
    })
    await store.addAccount(alice)
    await store.addKey('hash', key('key_1'))
    await store.changeAccount('acc_1', { plan: 'growth' })
    await store.changeKey('key_1', { networks: ['devnet'] })
    await store.revokeKey('key_1', 100)
    t.equal(told, 5)
    stop()
    await store.changeAccount('acc_1', { plan: 'core' })
    t.equal(told, 5)
  })
}

/** What every store does with leases. */
export const ledgerStoreContract = async (t: Test, open: OpenStore<LedgerStore>): Promise<void> => {
  const start = Date.UTC(2026, 0, 15, 12)
  const today = Math.floor(start / dayMs)
  const ask = (over: Partial<LeaseRequest>): LeaseRequest => ({
    account: 'acc_1',
    day: today,
    process: 'p1',
    seq: 1,
    counters: undefined,
    minCredits: 0,
    desiredCredits: 0,
    limit: 1_000,
    shareDivisor: 1,
    ...over,
  })
  const counters = (granted: number, returned: number, used: number) => ({ granted, returned, used })

  t.test('an ask is granted, and all that was told is on record', async t => {
    const store = await open(t, new TestClock(start))
    t.match(await store.requestLease(ask({ desiredCredits: 300 })), {
      today,
      endsInMs: dayMs / 2,
      counters: counters(300, 0, 0),
      remaining: 700,
    })
    t.match(await store.requestLease(ask({ seq: 2, counters: counters(300, 100, 150), desiredCredits: 200 })), {
      counters: counters(500, 100, 150),
      remaining: 600,
    })
    t.match(await store.dayTotals('acc_1'), { day: today, leased: 400, used: 150 })
  })

  t.test('an ask that comes twice, or after a newer one, changes nothing', async t => {
    const store = await open(t, new TestClock(start))
    const first = ask({ desiredCredits: 1_000 })
    const denied = ask({ process: 'p2', minCredits: 80, desiredCredits: 80 })
    const last = ask({ seq: 2, counters: counters(1_000, 500, 500) })
    for (const each of [first, first, denied, last, first, denied, ask({ seq: 1, counters: counters(1_000, 0, 10) }), last]) {
      await store.requestLease(each)
    }
    t.match(await store.requestLease(first), { counters: counters(1_000, 500, 500), remaining: 500 })
    t.match(await store.dayTotals('acc_1'), { leased: 500, used: 500 })
  })

  t.test('processes, accounts and days do not see each other', async t => {
    const store = await open(t, new TestClock(start))
    await store.requestLease(ask({ desiredCredits: 300 }))
    t.match(await store.requestLease(ask({ process: 'p2', desiredCredits: 300 })), { counters: counters(300, 0, 0), remaining: 400 })
    t.match(await store.requestLease(ask({ account: 'acc_10', desiredCredits: 300 })), { counters: counters(300, 0, 0), remaining: 700 })
    t.match(await store.dayTotals('acc_1'), { leased: 600 })
    t.match(await store.dayTotals('acc_10'), { leased: 300 })
    t.match(await store.dayTotals('acc_1', today - 1), { day: today - 1, leased: 0 })
  })

  t.test('many processes at once are never granted more than the limit', async t => {
    const store = await open(t, new TestClock(start))
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => store.requestLease(ask({ process: `p${i}`, minCredits: 30, desiredCredits: 30 }))),
    )
    t.equal(answers.filter(answer => answer.counters.granted === 30).length, 33)
    t.match(await store.dayTotals('acc_1'), { leased: 990 })
  })

  t.test('the store names the day: for another one it takes returns, and grants nothing', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.requestLease(ask({ desiredCredits: 300 }))
    clock.advance(dayMs / 2)
    const late = await store.requestLease(ask({ seq: 2, counters: counters(300, 100, 200), desiredCredits: 300 }))
    t.match(late, { today: today + 1, endsInMs: dayMs, counters: counters(300, 100, 200) })
    t.match(await store.dayTotals('acc_1', today), { leased: 200, used: 200 })
    t.match(await store.requestLease(ask({ day: today + 2, seq: 3, desiredCredits: 300 })), {
      today: today + 1,
      counters: counters(0, 0, 0),
    })
    t.match(await store.requestLease(ask({ day: today + 1, seq: 4, desiredCredits: 300 })), {
      counters: counters(300, 0, 0),
      remaining: 700,
    })
  })

  t.test('its day never goes back, whoever sets the clock', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    clock.shiftWallClock(dayMs)
    await store.requestLease(ask({ day: today + 1, desiredCredits: 300 }))
    clock.shiftWallClock(-dayMs)
    t.match(await store.requestLease(ask({ seq: 2, desiredCredits: 300 })), {
      today: today + 1,
      endsInMs: 1.5 * dayMs,
      counters: counters(0, 0, 0),
    })
    t.match(await store.heartbeat('p1'), { today: today + 1 })
  })

  t.test('what a process holds is held as long as it lives, and forfeited when it is dead', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    t.match(await store.heartbeat('p1'), { today, liveProcesses: 1 })
    t.match(await store.heartbeat('p2'), { today, liveProcesses: 2 })
    await store.requestLease(ask({ desiredCredits: 300 }))
    await store.requestLease(ask({ process: 'p2', desiredCredits: 200 }))
    await store.requestLease(ask({ process: 'p2', seq: 2, counters: counters(200, 0, 50) }))
    t.match(await store.dayTotals('acc_1'), { leased: 500, used: 50, held: 450, forfeited: 0 })
    clock.advance(3_000)
    await store.heartbeat('p2')
    clock.advance(3_000)
    t.match(await store.dayTotals('acc_1'), { leased: 500, used: 50, held: 150, forfeited: 300 })
    t.match(await store.heartbeat('p2'), { liveProcesses: 1 })
    t.match(await store.heartbeat('p1'), { liveProcesses: 2 })
    t.match(await store.dayTotals('acc_1'), { held: 450, forfeited: 0 })
    await store.deregister('p2')
    t.match(await store.dayTotals('acc_1'), { held: 300, forfeited: 150 })
  })

  t.test('a day is kept for three days, then dropped', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.requestLease(ask({ desiredCredits: 300 }))
    clock.advance(2 * dayMs)
    await store.heartbeat('p2')
    t.match(await store.dayTotals('acc_1', today), { leased: 300, forfeited: 300 })
    clock.advance(dayMs)
    await store.heartbeat('p2')
    t.match(await store.dayTotals('acc_1', today), { leased: 0, forfeited: 0 })
  })
}

/** What every store does with counts of calls. */
export const usageStoreContract = async (t: Test, open: OpenStore<UsageStore>): Promise<void> => {
  const start = Date.UTC(2026, 0, 15, 12)
  const hour = start / hourMs
  const count = (over: Partial<UsageCount> = {}): UsageCount => ({
    account: 'acc_1',
    key: 'key_1',
    network: 'devnet',
    method: 'eth_call',
    outcome: 'ok',
    forwarded: false,
    hour,
    calls: 1,
    credits: 80,
    ...over,
  })
  const report = (seq: number, counts: readonly UsageCount[], over: Partial<UsageReport> = {}): UsageReport => ({
    process: 'p1',
    seq,
    counts,
    retentionHours: 90 * 24,
    ...over,
  })
  const all = async (store: UsageStore, account = 'acc_1') => store.usageCounts(account, 0, hour + 1_000)
  const sums = async (store: UsageStore, account?: string) => (await all(store, account)).map(({ calls, credits }) => [calls, credits])

  t.test('counts of one group and hour are added up, over all processes', async t => {
    const store = await open(t, new TestClock(start))
    await store.reportUsage(report(1, [count(), count({ calls: 2, credits: 160 })]))
    await store.reportUsage(report(2, [count()]))
    await store.reportUsage(report(1, [count({ calls: 10, credits: 800 })], { process: 'p2' }))
    t.same(await all(store), [count({ calls: 14, credits: 1_120 })])
  })

  t.test('whatever differs is counted apart', async t => {
    const store = await open(t, new TestClock(start))
    const others = [
      { key: 'key_2' },
      { network: 'base-mainnet' },
      { method: 'eth_getLogs' },
      { outcome: 'timeout' },
      { forwarded: true },
      { hour: hour + 1 },
    ]
    const counts = [count(), ...others.map(count)]
    await store.reportUsage(report(1, counts))
    const found = await all(store)
    t.equal(found.length, counts.length)
    for (const each of counts)
      t.ok(
        found.some(row => isDeepStrictEqual(row, each)),
        JSON.stringify(each),
      )
  })

  t.test('accounts do not see each other, and hours come in order, from the first up to the last', async t => {
    const store = await open(t, new TestClock(start))
    const hours = [hour - 9, hour, hour - 1, hour - 10]
    await store.reportUsage(report(1, [...hours.map(each => count({ hour: each })), count({ account: 'acc_10' })]))
    t.same(
      (await all(store)).map(row => row.hour),
      [hour - 10, hour - 9, hour - 1, hour],
    )
    t.same(
      (await store.usageCounts('acc_1', hour - 9, hour)).map(row => row.hour),
      [hour - 9, hour - 1],
    )
    t.equal((await all(store, 'acc_10')).length, 1)
    t.same(await all(store, 'acc_9'), [])
  })

  t.test('a report that comes twice, or after a newer one, changes nothing', async t => {
    const store = await open(t, new TestClock(start))
    const first = report(1, [count()])
    const second = report(2, [count({ calls: 5, credits: 400 })])
    for (const each of [first, first, second, first, second]) await store.reportUsage(each)
    t.same(await sums(store), [[6, 480]])
    await Promise.all(Array.from({ length: 10 }, () => store.reportUsage(report(3, [count()]))))
    t.same(await sums(store), [[7, 560]])
  })

  t.test('the answer is the number of the report before', async t => {
    const store = await open(t, new TestClock(start))
    const answers: number[] = []
    for (const seq of [1, 2, 2, 7, 3]) answers.push(await store.reportUsage(report(seq, [])))
    t.same(answers, [0, 1, 2, 2, 7])
    t.equal(await store.reportUsage(report(1, [], { process: 'p2' })), 0)
  })

  t.test('a call can be taken back', async t => {
    const store = await open(t, new TestClock(start))
    await store.reportUsage(report(1, [count({ calls: 3, credits: 240 })]))
    await store.reportUsage(report(2, [count({ calls: -1, credits: -80 })]))
    t.same(await sums(store), [[2, 160]])
  })

  t.test('many processes at once lose nothing', async t => {
    const store = await open(t, new TestClock(start))
    await Promise.all(Array.from({ length: 40 }, (_, i) => store.reportUsage(report(1, [count()], { process: `p${i}` }))))
    t.same(await sums(store), [[40, 3_200]])
  })

  t.test('what is older than the hours that are kept is dropped', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.reportUsage(report(1, [count(), count({ hour: hour + 1 })], { retentionHours: 48 }))
    clock.advance(48 * hourMs)
    await store.reportUsage(report(2, [], { retentionHours: 48 }))
    t.equal((await all(store)).length, 2)
    clock.advance(hourMs)
    t.equal(await store.reportUsage(report(1, [], { process: 'p2', retentionHours: 48 })), 0)
    t.same(
      (await all(store)).map(row => row.hour),
      [hour + 1],
    )
    t.equal(await store.reportUsage(report(3, [], { retentionHours: 48 })), 2)
  })
}
