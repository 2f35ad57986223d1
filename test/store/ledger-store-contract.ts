import type { Test } from 'tap'
import type { LeaseRequest } from '../../src/store/lease-accounting.ts'
import type { BalanceStore, LedgerStore, Store } from '../../src/store/store.ts'
import { dayMs } from '../../src/util/dates.ts'
import { TestClock } from '../support/fakes.ts'

type TestedStore = LedgerStore & Pick<BalanceStore, 'dayTotals'>

type OpenStore = (t: Test, clock: TestClock) => TestedStore | Promise<TestedStore>

/** Every engine keeps leases in this way. */
export const ledgerStoreContract = async (t: Test, open: OpenStore): Promise<void> => {
  const start = Date.UTC(2026, 0, 15, 12)
  const today = Math.floor(start / dayMs)
  const request = (over: Partial<LeaseRequest>): LeaseRequest => ({
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

  t.test('a request is granted, and its counters are recorded', async t => {
    const store = await open(t, new TestClock(start))
    t.match(await store.requestLease(request({ desiredCredits: 300 })), {
      today,
      endsInMs: dayMs / 2,
      counters: counters(300, 0, 0),
      remaining: 700,
    })
    t.match(await store.requestLease(request({ seq: 2, counters: counters(300, 100, 150), desiredCredits: 200 })), {
      counters: counters(500, 100, 150),
      remaining: 600,
    })
    t.match(await store.dayTotals('acc_1'), { day: today, leased: 400, used: 150 })
  })

  t.test('a request that is duplicate, or older than the last request, changes nothing', async t => {
    const store = await open(t, new TestClock(start))
    const first = request({ desiredCredits: 1_000 })
    const denied = request({ process: 'p2', minCredits: 80, desiredCredits: 80 })
    const last = request({ seq: 2, counters: counters(1_000, 500, 500) })
    for (const each of [first, first, denied, last, first, denied, request({ seq: 1, counters: counters(1_000, 0, 10) }), last]) {
      await store.requestLease(each)
    }
    t.match(await store.requestLease(first), { counters: counters(1_000, 500, 500), remaining: 500 })
    t.match(await store.dayTotals('acc_1'), { leased: 500, used: 500 })
  })

  t.test('processes, accounts and days are independent', async t => {
    const store = await open(t, new TestClock(start))
    await store.requestLease(request({ desiredCredits: 300 }))
    t.match(await store.requestLease(request({ process: 'p2', desiredCredits: 300 })), { counters: counters(300, 0, 0), remaining: 400 })
    t.match(await store.requestLease(request({ account: 'acc_10', desiredCredits: 300 })), {
      counters: counters(300, 0, 0),
      remaining: 700,
    })
    t.match(await store.dayTotals('acc_1'), { leased: 600 })
    t.match(await store.dayTotals('acc_10'), { leased: 300 })
    t.match(await store.dayTotals('acc_1', today - 1), { day: today - 1, leased: 0 })
  })

  t.test('many processes at once are never granted more than the limit', async t => {
    const store = await open(t, new TestClock(start))
    const responses = await Promise.all(
      Array.from({ length: 100 }, (_, i) => store.requestLease(request({ process: `p${i}`, minCredits: 30, desiredCredits: 30 }))),
    )
    t.equal(responses.filter(({ counters: { granted } }) => granted === 30).length, 33)
    t.match(await store.dayTotals('acc_1'), { leased: 990 })
  })

  t.test('the day is that of the store: for another day it records returned credits, and grants nothing', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.requestLease(request({ desiredCredits: 300 }))
    clock.advance(dayMs / 2)
    const late = await store.requestLease(request({ seq: 2, counters: counters(300, 100, 200), desiredCredits: 300 }))
    t.match(late, { today: today + 1, endsInMs: dayMs, counters: counters(300, 100, 200) })
    t.match(await store.dayTotals('acc_1', today), { leased: 200, used: 200 })
    t.match(await store.requestLease(request({ day: today + 2, seq: 3, desiredCredits: 300 })), {
      today: today + 1,
      counters: counters(0, 0, 0),
    })
    t.match(await store.requestLease(request({ day: today + 1, seq: 4, desiredCredits: 300 })), {
      counters: counters(300, 0, 0),
      remaining: 700,
    })
  })

  t.test('a day whose end the store sees before the gateway grants nothing more', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.requestLease(request({ desiredCredits: 300 }))
    clock.shiftWallClock(dayMs / 2)
    t.match(await store.requestLease(request({ seq: 2, counters: counters(300, 0, 100), desiredCredits: 300 })), {
      today: today + 1,
      counters: counters(300, 0, 100),
    })
    t.match(await store.dayTotals('acc_1', today), { leased: 300, used: 100 })
  })

  t.test('the day never goes back, even if the clock does', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    clock.shiftWallClock(dayMs)
    await store.requestLease(request({ day: today + 1, desiredCredits: 300 }))
    clock.shiftWallClock(-dayMs)
    t.match(await store.requestLease(request({ seq: 2, desiredCredits: 300 })), {
      today: today + 1,
      endsInMs: 1.5 * dayMs,
      counters: counters(0, 0, 0),
    })
    t.match(await store.heartbeat('p1'), { today: today + 1 })
  })

  t.test('a clock that jumps by more than a day is not followed, and can be put right', async t => {
    for (const jumpMs of [3_650 * dayMs, -3_650 * dayMs]) {
      const clock = new TestClock(start)
      const store = await open(t, clock)
      await store.requestLease(request({ desiredCredits: 300 }))
      t.match(await store.heartbeat('p1'), { today, ignoredJumpMs: 0 })
      clock.shiftWallClock(jumpMs)
      t.match(await store.requestLease(request({ seq: 2, counters: counters(300, 0, 100), desiredCredits: 300 })), {
        today,
        counters: counters(600, 0, 100),
      })
      clock.advance(1_000)
      t.match(await store.heartbeat('p1'), { today, endsInMs: dayMs / 2 - 1_000, ignoredJumpMs: jumpMs, liveProcesses: 1 })
      clock.advance(dayMs / 2)
      t.match(await store.heartbeat('p1'), { today: today + 1 }, 'days go on')
      clock.shiftWallClock(-jumpMs)
      clock.advance(dayMs)
      t.match(await store.heartbeat('p1'), { today: today + 2, endsInMs: dayMs - 1_000, ignoredJumpMs: 0 })
      t.match(await store.dayTotals('acc_1', today), { leased: 600, used: 100 }, 'what was recorded is kept')
    }
  })

  t.test('unused credits of a live process are held, and those of a dead process are forfeited', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    t.match(await store.heartbeat('p1'), { today, liveProcesses: 1 })
    t.match(await store.heartbeat('p2'), { today, liveProcesses: 2 })
    await store.requestLease(request({ desiredCredits: 300 }))
    await store.requestLease(request({ process: 'p2', desiredCredits: 200 }))
    await store.requestLease(request({ process: 'p2', seq: 2, counters: counters(200, 0, 50) }))
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

  t.test('a day is retained for three days, and dropped after three later days with calls', async t => {
    const clock = new TestClock(start)
    const store = await open(t, clock)
    await store.requestLease(request({ desiredCredits: 300 }))
    for (const seq of [2, 3, 4]) {
      t.match(await store.dayTotals('acc_1', today), { leased: 300, forfeited: 300 })
      clock.advance(dayMs)
      await store.heartbeat('p2')
      await store.requestLease(request({ day: today + seq - 1, seq, desiredCredits: 300 }))
    }
    await store.heartbeat('p2')
    t.match(await store.dayTotals('acc_1', today), { leased: 0, forfeited: 0 })
  })
}

/** What every engine does with a clock that is wrong when a store is opened. `open` opens one store again and again. */
export const storeClockContract = async (t: Test, open: (t: Test, clock: TestClock) => Promise<Store>): Promise<void> => {
  const start = Date.UTC(2026, 0, 15, 12)
  const today = Math.floor(start / dayMs)
  const lease = { account: 'acc_1', process: 'p1', seq: 1, counters: undefined, minCredits: 0, limit: 1_000, shareDivisor: 1 }
  const use = async (clock: TestClock) => {
    const store = await open(t, clock)
    const day = await store.heartbeat('p1')
    await store.deregister('p1')
    await store.close()
    return day
  }

  const account = { id: 'acc_1', name: 'alice', plan: 'core', created: 1 }
  const beforeJump = await open(t, new TestClock(start))
  await beforeJump.addAccount(account)
  await beforeJump.requestLease({ ...lease, day: today, desiredCredits: 700 })
  const monthAhead = await open(t, new TestClock(start + 30 * dayMs))
  t.equal((await monthAhead.heartbeat('p1')).today, today + 30)
  await monthAhead.requestLease({ ...lease, day: today + 30, seq: 2, desiredCredits: 300 })
  await monthAhead.heartbeat('p1')
  await monthAhead.deregister('p1')
  const rightAgain = await open(t, new TestClock(start))
  t.same(await rightAgain.resetDay(), { from: today + 30, to: today })
  const afterRepair = await open(t, new TestClock(start))
  t.match(await afterRepair.dayTotals('acc_1'), { day: today, leased: 700 }, 'what was leased of the day is not granted again')

  t.equal((await use(new TestClock(start))).today, today)
  const monthLater = await use(new TestClock(start + 30 * dayMs))
  t.match(monthLater, { today: today + 30, ignoredJumpMs: 0 }, 'a store may be unused for a month')

  const farAhead = new TestClock(start + 3_650 * dayMs)
  const misled = await open(t, farAhead)
  t.match(await misled.dayTotals('acc_1'), { today: today + 30 }, 'and not for years: the clock is wrong')
  t.match(await misled.heartbeat('p1'), { today: today + 30, endsInMs: dayMs / 2, ignoredJumpMs: 3_620 * dayMs })
  await misled.deregister('p1')

  // A wrong clock that is not far ahead is followed, and then the day stays.
  const ahead = await open(t, new TestClock(start + 33 * dayMs))
  t.match(await ahead.heartbeat('p1'), { today: today + 33, ignoredJumpMs: 0 })
  await ahead.requestLease({ ...lease, day: today + 33, desiredCredits: 300 })
  await ahead.addKey('hash', { id: 'key_1', account: 'acc_1', created: 1, hint: 'abcd', dailyCredits: 500 })
  await ahead.requestLease({ ...lease, account: 'key_1', seq: 2, day: today + 33, desiredCredits: 300 })
  await ahead.deregister('p1')
  t.match(await use(new TestClock(start + 31 * dayMs)), { today: today + 33 })
  const repaired = await open(t, new TestClock(start + 31 * dayMs))
  await repaired.requestLease({ ...lease, day: today + 31, desiredCredits: 200 })
  const { counted: _, ...balance } = await repaired.dayTotals('acc_1')
  t.match(balance, { leased: 300 })
  t.same(await repaired.dayBalance('acc_1'), { ...balance, endsInMs: (await repaired.dayBalance('acc_1')).endsInMs })
  t.same(await repaired.resetDay(), { from: today + 33, to: today + 31 })

  const [suspendedClock, otherClock] = [new TestClock(start + 28 * dayMs), new TestClock(start + 28 * dayMs)]
  const [suspended, other] = [await open(t, suspendedClock), await open(t, otherClock)]
  for (const store of [suspended, other]) await store.heartbeat('p4')
  suspendedClock.shiftWallClock(3 * dayMs)
  otherClock.advance(3 * dayMs)
  await other.heartbeat('p4')
  const resumed = { today: today + 31, endsInMs: dayMs / 2, ignoredJumpMs: 0 }
  t.match(
    await suspended.heartbeat('p4'),
    resumed,
    'a machine that was suspended for days follows the clock where others have lived through it',
  )
  await other.deregister('p4')

  const running = new TestClock(start + 31 * dayMs)
  const user = await open(t, running)
  t.match(await user.heartbeat('p2'), { today: today + 31, endsInMs: dayMs / 2 })
  t.match(await user.dayTotals('acc_1', today + 33), { leased: 0 }, 'later leases are dropped')
  t.match(await user.dayTotals('key_1', today + 33), { leased: 0 }, 'those of keys with a daily limit too')
  running.shiftWallClock(60 * dayMs)
  running.advance(1_000)
  t.match(await user.heartbeat('p2'), { today: today + 31, ignoredJumpMs: 60 * dayMs })
  const joining = await open(t, new TestClock(running.now()))
  t.match(await joining.heartbeat('p3'), { today: today + 31, ignoredJumpMs: 60 * dayMs }, 'who joins a store in use follows its time')
}
