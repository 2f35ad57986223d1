import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type { Store } from '../../src/store/store.ts'
import type { UsageCount, UsagePeriod, UsageReport, UsageStore } from '../../src/store/usage-store.ts'
import { dayMs, hourMs, hoursPerDay } from '../../src/util/dates.ts'
import { TestClock } from '../support/fakes.ts'

type OpenStore = (t: Test, clock: TestClock) => UsageStore | Promise<UsageStore>

/** Every engine keeps usage in this way. */
export const usageStoreContract = async (t: Test, open: OpenStore): Promise<void> => {
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

  t.test('counts of one group and hour are summed over all processes', async t => {
    const store = await open(t, new TestClock(start))
    await store.reportUsage(report(1, [count(), count({ calls: 2, credits: 160 })]))
    await store.reportUsage(report(2, [count()]))
    await store.reportUsage(report(1, [count({ calls: 10, credits: 800 })], { process: 'p2' }))
    t.same(await all(store), [count({ calls: 14, credits: 1_120 })])
  })

  t.test('calls that differ in one member are counted apart', async t => {
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

  t.test('accounts are independent, and hours are returned in order', async t => {
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

  t.test('a report that is duplicate, or older than the last report, changes nothing', async t => {
    const store = await open(t, new TestClock(start))
    const first = report(1, [count()])
    const second = report(2, [count({ calls: 5, credits: 400 })])
    for (const each of [first, first, second, first, second]) await store.reportUsage(each)
    t.same(await sums(store), [[6, 480]])
    await Promise.all(Array.from({ length: 10 }, () => store.reportUsage(report(3, [count()]))))
    t.same(await sums(store), [[7, 560]])
  })

  t.test('a call can be taken back', async t => {
    const store = await open(t, new TestClock(start))
    await store.reportUsage(report(1, [count({ calls: 3, credits: 240 })]))
    await store.reportUsage(report(2, [count({ calls: -1, credits: -80 })]))
    t.same(await sums(store), [[2, 160]])
  })

  t.test('a group whose calls were all taken back is no group', async t => {
    const store = await open(t, new TestClock(start))
    await store.reportUsage(report(1, [count({ latencies: [0, 1] }), count({ outcome: 'tooLarge', calls: 0, credits: 0 })]))
    const taken = count({ calls: -1, credits: -80, latencies: [0, -1] })
    await store.reportUsage(report(2, [taken, count({ outcome: 'unavailable', credits: 0 })]))
    t.same(await all(store), [count({ outcome: 'unavailable', credits: 0 })])
  })

  t.test('the totals of hours are the sums of the counts', async t => {
    const store = await open(t, new TestClock(start))
    const counts = [count(), count({ method: 'eth_getLogs', calls: 3, credits: 765 }), count({ hour: hour - 2 })]
    const failed = count({ outcome: 'params', calls: 2, credits: 0 })
    await store.reportUsage(report(1, [...counts, failed, count({ account: 'acc_2' })]))
    await store.reportUsage(report(1, [...counts]))
    await store.reportUsage(report(1, [count({ hour: hour - 2, calls: -1, credits: -20 }), count({ hour: hour + 1 })], { process: 'p2' }))
    t.same(await store.hourTotals('acc_1', hour - 3, hour + 1), [
      { hour: hour - 2, calls: 0, failed: 0, credits: 60 },
      { hour, calls: 6, failed: 2, credits: 845 },
    ])
    t.same(await store.hourTotals('acc_1', hour - 1, hour), [])
    t.same(await store.hourTotals('acc_9', hour, hour + 1), [])
  })

  t.test('latencies of one group and hour are summed by bucket, also when a call is taken back', async t => {
    const store = await open(t, new TestClock(start))
    await store.reportUsage(report(1, [count({ latencies: [0, 1] })]))
    await store.reportUsage(report(1, [count({ calls: 3, latencies: [1, 1, 0, 1] })], { process: 'p2' }))
    await store.reportUsage(report(2, [count({ calls: -1, credits: -80, latencies: [0, -1] })]))
    t.same(await all(store), [count({ calls: 3, credits: 80, latencies: [1, 1, 0, 1] })])
  })

  t.test('no count of concurrent processes is lost', async t => {
    const store = await open(t, new TestClock(start))
    await Promise.all(Array.from({ length: 40 }, (_, i) => store.reportUsage(report(1, [count()], { process: `p${i}` }))))
    t.same(await sums(store), [[40, 3_200]])
  })

  t.test('hours that are older than the retention are dropped', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.reportUsage(report(1, [count(), count({ hour: hour + 1 })], { retentionHours: 48 }))
    clock.advance(48 * hourMs)
    await store.reportUsage(report(2, [], { retentionHours: 48 }))
    t.equal((await all(store)).length, 2)
    const hoursOfTotals = async () => (await store.hourTotals('acc_1', hour, hour + 2)).map(total => total.hour)
    t.same(await hoursOfTotals(), [hour, hour + 1])
    clock.advance(hourMs)
    await store.reportUsage(report(1, [], { process: 'p2', retentionHours: 48 }))
    t.same(
      (await all(store)).map(row => row.hour),
      [hour + 1],
    )
    t.same(await hoursOfTotals(), [hour + 1])
  })
}

/** A report of counts is a report of use: both are recorded in one step. */
export const useContract = async (t: Test, open: (t: Test, clock: TestClock) => Promise<Store>): Promise<void> => {
  const start = Date.UTC(2026, 0, 15, 12)
  const day = start / dayMs - 0.5
  const count = (credits: number, over: Partial<UsageCount> = {}): UsageCount => ({
    account: 'acc_1',
    key: 'key_1',
    network: 'devnet',
    method: 'eth_call',
    outcome: 'ok',
    forwarded: false,
    hour: start / hourMs,
    calls: 1,
    credits,
    ...over,
  })
  const setUp = async (t: Test) => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    const lease = (process: string, seq: number, used: number, desiredCredits = 0) =>
      store.requestLease({
        ...{ account: 'acc_1', day, process, seq, minCredits: 0, desiredCredits, limit: 1_000, shareDivisor: 1 },
        counters: seq === 1 ? undefined : { granted: 300, returned: 0, used },
      })
    const report = (process: string, seq: number, counts: readonly UsageCount[], isFinal = false) =>
      store.reportUsage({ process, seq, counts, retentionHours: 90 * 24, isFinal })
    return { clock, store, lease, report }
  }

  t.test('calls are counted by five minutes and by days too; by five minutes for six hours, where they are known', async t => {
    const clock = new TestClock(start + 5 * 60_000)
    const store = await open(t, clock)
    const hour = start / hourMs
    await store.reportUsage({
      process: 'p1',
      seq: 1,
      counts: [count(80, { fiveMinutes: hour * 12 + 1 }), count(30, { hour: hour - 30, fiveMinutes: (hour - 30) * 12 })],
      retentionHours: 48,
    })
    clock.advance(300_000)
    await store.reportUsage({
      process: 'p1',
      seq: 2,
      counts: [
        count(20, { latencies: [1], fiveMinutes: hour * 12 + 2 }),
        count(5, { hour: hour - 1 }),
        count(-30, { calls: -1, fiveMinutes: hour * 12 + 1 }),
        count(30, { fiveMinutes: hour * 12 + 2 }),
      ],
      retentionHours: 48,
    })
    const creditsOf = async (period: UsagePeriod, from: number, to: number) =>
      (await store.usageRows('acc_1', period, from, to)).map(({ start, rows }) => [start, ...rows.map(({ credits }) => credits)])
    t.same(await creditsOf('fiveMinutes', hour * 12, (hour + 1) * 12), [
      [hour * 12 + 1, 50],
      [hour * 12 + 2, 50],
    ])
    t.same(await creditsOf('fiveMinutes', (hour - 31) * 12, hour * 12), [])
    t.same(await creditsOf('hour', hour - 30, hour + 1), [
      [hour - 30, 30],
      [hour - 1, 5],
      [hour, 100],
    ])
    t.same(await creditsOf('day', day - 100, day + 1), [
      [day - 1, 30],
      [day, 105],
    ])
    const [row] = (await store.usageRows('acc_1', 'day', day, day + 1))[0]?.rows ?? []
    t.match(row, { group: { key: 'key_1', method: 'eth_call' }, calls: 3, latencies: [1] })
    t.same(await creditsOf('day', day + 1, day + 9), [])
    clock.advance(7 * hourMs)
    await store.reportUsage({ process: 'p1', seq: 3, counts: [], retentionHours: 48 })
    t.same(await creditsOf('fiveMinutes', hour * 12, (hour + 1) * 12), [])
    t.equal((await creditsOf('day', day - 1, day + 1)).length, 2)
    clock.advance(36 * hourMs)
    await store.reportUsage({ process: 'p1', seq: 4, counts: [], retentionHours: 48 })
    t.same(await creditsOf('day', day - 1, day + 1), [[day, 105]], 'a day is dropped with its last hour')
  })

  t.test('the use of many accounts is read together: the credits of a day, and the calls of hours', async t => {
    const { store, report } = await setUp(t)
    const hour = start / hourMs
    await report('p1', 1, [count(80), count(765, { method: 'eth_getLogs', calls: 3 }), count(80, { account: 'acc_2' })])
    await report('p2', 1, [count(80), count(7, { hour: hour - hoursPerDay, calls: 5 })])
    t.same(await store.accountUse(['acc_2', 'acc_9', 'acc_1'], { day, hours: [hour - hoursPerDay, hour] }), [
      { account: 'acc_2', credits: 80, calls: [0, 1] },
      { account: 'acc_9', credits: 0, calls: [0, 0] },
      { account: 'acc_1', credits: 925, calls: [5, 5] },
    ])
    t.same(await store.accountUse(['acc_1'], { day: day - 1, hours: [] }), [{ account: 'acc_1', credits: 7, calls: [] }])
  })

  t.test('what a key with a limit of its own has used is what its leases have used: its calls are counted for its account', async t => {
    const { clock, store, report } = await setUp(t)
    const lease = { account: 'key_1', day, process: 'p1', minCredits: 0, limit: 1_000, shareDivisor: 1 }
    await store.heartbeat('p1')
    await store.requestLease({ ...lease, seq: 1, counters: undefined, desiredCredits: 300 })
    await report('p1', 1, [count(80)])
    await store.requestLease({ ...lease, seq: 2, counters: { granted: 300, returned: 0, used: 80 }, desiredCredits: 0 })
    t.same(await store.keyUse('key_1'), { day, used: 80, forfeited: 0 })
    clock.advance(10_000)
    t.same(await store.keyUse('key_1'), { day, used: 80, forfeited: 220 }, 'of a process that died')
  })

  t.test('the counts of a range of hours are read for all accounts', async t => {
    const store = await open(t, new TestClock(start))
    const hour = start / hourMs
    const counts = [
      count(80, { hour: hour - 1 }),
      count(160),
      count(240, { account: 'acc_2', hour: hour + 1 }),
      count(5, { hour: hour + 2 }),
    ]
    await store.reportUsage({ process: 'p1', seq: 1, counts, retentionHours: 100 })
    const creditsOf = async (range?: { from: number; to: number }) => {
      const credits: number[] = []
      for await (const each of store.allUsageCounts(range)) credits.push(each.credits)
      return credits
    }
    t.same(await creditsOf(), [80, 160, 240, 5])
    t.same(await creditsOf({ from: hour, to: hour + 2 }), [160, 240])
    t.same(await creditsOf({ from: hour + 3, to: hour + 9 }), [])
  })

  t.test(
    'hours are kept for 14 days before today, days for the retention; the counts of a copy are those of hours, and before of whole days',
    async t => {
      const clock = new TestClock(start)
      const store = await open(t, clock)
      const hour = start / hourMs
      const report = (seq: number, counts: readonly UsageCount[]) =>
        store.reportUsage({ process: 'p1', seq, counts, retentionHours: 90 * 24 })
      await report(1, [count(80), count(5, { hour: hour + 11, latencies: [1] }), count(7, { hour: hour + 12 })])
      const read = async () => {
        const found: unknown[] = []
        for await (const { hour: of, credits, isWholeDay = false } of store.allUsageCounts()) found.push([of - hour, credits, isWholeDay])
        return found
      }
      const hours = [
        [0, 80, false],
        [11, 5, false],
        [12, 7, false],
      ]
      clock.advance(14 * dayMs + 11 * hourMs)
      await report(2, [])
      t.same(await read(), hours)
      clock.advance(hourMs)
      const days = [
        [11, 85, true],
        [12, 7, false],
      ]
      t.same(await read(), days, 'a day that has no hours from now on')
      await report(3, [])
      t.same(await read(), days)
      t.same(
        (await store.usageCounts('acc_1', hour, hour + 13)).map(each => each.hour - hour),
        [12],
      )
      t.same(await store.hourTotals('acc_1', hour, hour + 12), [])
      t.equal((await store.usageRows('acc_1', 'day', day, day + 1))[0]?.rows[0]?.credits, 85)

      const copied = [count(3, { account: 'acc_2', hour: hour + 11, isWholeDay: true }), count(4, { account: 'acc_2', hour: hour + 12 })]
      await report(4, copied)
      t.same(await store.usageCounts('acc_2', 0, hour + 100), copied.slice(1), 'no hour of a whole day')
      t.equal((await store.usageRows('acc_2', 'day', day, day + 1))[0]?.rows[0]?.credits, 3)
    },
  )

  t.test('what is used is what is counted, at every moment; a killed process forfeits the rest', async t => {
    const { clock, store, lease, report } = await setUp(t)
    await report('p1', 1, [])
    await store.heartbeat('p1')
    await lease('p1', 1, 0, 300)
    t.match(await store.dayTotals('acc_1'), { leased: 300, used: 0, held: 300, counted: 0, isExact: true })
    await lease('p1', 2, 200)
    t.match(await store.dayTotals('acc_1'), { leased: 300, used: 0, held: 300, counted: 0, isExact: true }, 'charged, and not counted yet')
    const counts = [
      count(80),
      count(60, { method: 'eth_getLogs' }),
      count(20, { hour: start / hourMs - 3 }),
      count(500, { account: 'acc_2' }),
    ]
    await report('p1', 2, counts)
    await report('p1', 2, counts)
    t.match(await store.dayTotals('acc_1'), { leased: 300, used: 160, held: 140, counted: 160 }, 'a duplicate changes nothing')
    await report('p1', 3, [count(-60, { method: 'eth_getLogs', calls: -1 })])
    t.match(await store.dayTotals('acc_1'), { used: 100, held: 200, counted: 100 }, 'a refund')
    clock.advance(6_000)
    t.match(await store.dayTotals('acc_1'), { leased: 300, used: 100, held: 0, forfeited: 200, counted: 100, isExact: true })
  })

  t.test('the days of many accounts that are read together are those that are read one by one', async t => {
    const { store, lease, report } = await setUp(t)
    await store.heartbeat('p1')
    await lease('p1', 1, 0, 300)
    await lease('p1', 2, 200)
    await lease('p2', 1, 0, 300)
    const counts = [
      count(120),
      count(500, { account: 'acc_2' }),
      ...Array.from({ length: 40 }, (_, i) => count(i, { account: `acc_a${i}` })),
    ]
    await report('p1', 1, counts)
    await report('p2', 1, [], true)
    const accounts = ['acc_3', 'acc_2', 'acc_1', ...Array.from({ length: 50 }, (_, i) => `acc_a${i}`)]
    const together = await store.dayTotalsOf(accounts)
    t.same(together, await Promise.all(accounts.map(account => store.dayTotals(account))))
    t.match(together.slice(0, 3), [
      { leased: 0, counted: 0 },
      { leased: 0, counted: 500 },
      { leased: 600, used: 120, held: 180, forfeited: 300, counted: 120 },
    ])
    t.same(await store.dayTotalsOf([]), [])
  })

  t.test('calls that a process has not counted when it ends in order are a difference', async t => {
    const { store, lease, report } = await setUp(t)
    await report('p1', 1, [])
    await lease('p1', 1, 0, 300)
    await report('p1', 2, [count(220)], true)
    await lease('p1', 2, 300)
    t.match(await store.dayTotals('acc_1'), { leased: 300, used: 300, held: 0, forfeited: 0, counted: 220, isExact: true })
  })

  t.test('a process of an older Tollgate reports its use with its leases', async t => {
    const { store, lease, report } = await setUp(t)
    await lease('p1', 1, 0, 300)
    await lease('p1', 2, 200)
    await report('another name', 1, [count(120)])
    t.match(await store.dayTotals('acc_1'), { leased: 300, used: 200, forfeited: 100, counted: 120, isExact: false })
  })
}
