import t from '../../support/tap.ts'
import { dayMs } from '../../../src/util/dates.ts'
import { TestCluster, accountWith, drainEventLoop, isPending, kindsOf } from './ledger-test-cluster.ts'

t.test('midnight', async t => {
  const beforeMidnight = Date.UTC(2026, 0, 15, 23, 59, 59)
  const dayBefore = Math.floor(beforeMidnight / dayMs)

  t.test('a new day has new credits, and the credits of the old day are not valid any more', async t => {
    const cluster = new TestCluster(beforeMidnight)
    const { ledger } = await cluster.start()
    const account = accountWith(1_000_000)
    for (let i = 0; i < 100; i += 1) await ledger.charge(account, 80)
    await cluster.advance(998)
    t.match(ledger.charge(account, 80), { kind: 'charged' })
    await cluster.advance(1)
    t.ok(isPending(ledger.charge(account, 80)), 'the lease of the old day is not charged')
    await cluster.advance(2_000)
    t.match(cluster.network.dayTotals('acc_1'), { used: 80 })
    t.match(cluster.network.dayTotals('acc_1', dayBefore), { used: 8_080, leased: 8_080, held: 0 }, 'the old day is settled')
  })

  t.test('the credits of the old day are returned when the first call of the new day has a lower limit', async t => {
    const cluster = new TestCluster(beforeMidnight)
    const { ledger } = await cluster.start()
    t.match(await ledger.charge(accountWith(1_000_000), 80), { kind: 'charged' })
    await cluster.advance(999)
    const call = ledger.charge(accountWith(1_000), 80)
    await cluster.advance(2_000)
    t.match(await call, { kind: 'charged' })
    t.match(cluster.network.dayTotals('acc_1', dayBefore), { used: 80, leased: 80, held: 0 })
  })

  t.test('accounts in use have credits of the new day in its first tick, 200 at most, so that their calls do not wait', async t => {
    const cluster = new TestCluster(beforeMidnight)
    const { ledger } = await cluster.start()
    const accounts = Array.from({ length: 250 }, (_, i) => accountWith(1_000_000, `acc_${i}`))
    for (const account of accounts) await ledger.charge(account, 80)
    const haveCredits = () => accounts.filter(({ id }) => cluster.network.dayTotals(id, dayBefore + 1).held > 0).length
    await cluster.advance(1_150)
    t.equal(haveCredits(), 200)
    await cluster.advance(2_000)
    t.equal(haveCredits(), 250)
    for (const account of accounts) t.notOk(isPending(ledger.charge(account, 80)))
  })

  t.test('a call that waits over midnight is charged on the new day', async t => {
    const cluster = new TestCluster(beforeMidnight + 400)
    const { ledger } = await cluster.start()
    cluster.network.holdsMessages = true
    const call = ledger.charge(accountWith(80), 80)
    await cluster.advance(300)
    const request = cluster.network.take(0)
    await cluster.advance(300)
    request()
    await drainEventLoop()
    await cluster.network.deliver()
    t.match(await call, { kind: 'charged' })
    cluster.network.holdsMessages = false
    await cluster.advance(1_100)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 80, used: 80 })
    t.match(cluster.network.dayTotals('acc_1', dayBefore), { leased: 0 })
  })

  t.test('a grant of the old day that arrives on the new day is returned', async t => {
    const cluster = new TestCluster(beforeMidnight + 400)
    const { ledger } = await cluster.start()
    cluster.network.holdsMessages = true
    const call = ledger.charge(accountWith(80), 80)
    await cluster.advance(300)
    cluster.network.take(0)()
    await cluster.advance(300)
    await cluster.network.deliver()
    t.match(await call, { kind: 'charged' })
    cluster.network.holdsMessages = false
    await cluster.advance(3_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 80, used: 80 })
    t.match(cluster.network.dayTotals('acc_1', dayBefore), { leased: 0, used: 0 })
  })

  t.test('a refusal of the old day that arrives on the new day refuses no call', async t => {
    const cluster = new TestCluster(beforeMidnight)
    const { ledger } = await cluster.start()
    const account = accountWith(160)
    t.same(await kindsOf([80, 80, 80].map(cost => ledger.charge(account, cost))), ['charged', 'charged', 'exhausted'])
    await cluster.advance(900)
    cluster.network.holdsMessages = true
    const calls = [ledger.charge(account, 80)]
    await drainEventLoop()
    cluster.network.take(0)()
    await cluster.advance(101)
    calls.push(ledger.charge(account, 80))
    cluster.network.holdsMessages = false
    await cluster.network.deliver()
    t.same(await kindsOf(calls), ['charged', 'charged'])
  })

  t.test('a call waits for a store whose day ends a moment later', async t => {
    const cluster = new TestCluster(beforeMidnight + 500)
    const { ledger } = await cluster.start()
    cluster.clock.shiftWallClock(-100)
    await cluster.advance(510)
    const call = ledger.charge(accountWith(80), 80)
    await cluster.advance(100)
    t.match(await call, { kind: 'charged' })
    t.match(cluster.network.dayTotals('acc_1'), { day: dayBefore + 1, leased: 80 })
  })

  t.test('an account is not evicted while a call waits for the day of the store to end', async t => {
    const cluster = new TestCluster(Date.UTC(2026, 0, 15, 23, 50, 0, 100))
    const { ledger } = await cluster.start()
    // Never charged, the account would be evicted ten minutes later: 0.1 s after midnight.
    t.match(await ledger.charge(accountWith(10), 80), { kind: 'exhausted' })
    await cluster.advance(599_000, 1_000)
    await cluster.advance(450)
    // No heartbeat observes the shift before midnight.
    cluster.clock.shiftWallClock(-200)
    await cluster.advance(500)
    const calls = [ledger.charge(accountWith(160), 80)]
    await cluster.advance(20)
    calls.push(ledger.charge(accountWith(160), 80))
    await cluster.advance(500)
    t.same(await kindsOf(calls), ['charged', 'charged'])
  })

  t.test('a day that is over in a process does not come back while the store is still in it', async t => {
    const cluster = new TestCluster(beforeMidnight + 500)
    const { ledger } = await cluster.start()
    const account = accountWith(100_000)
    await ledger.charge(account, 80)
    await drainEventLoop()
    cluster.network.holdsMessages = true
    t.same(await kindsOf([80, 80, 80].map(cost => ledger.charge(account, cost))), ['charged', 'charged', 'charged'])
    cluster.clock.shiftWallClock(-5_000)
    await cluster.advance(510)
    // The report of the use stays in flight: only messages after it arrive.
    const overtake = async (): Promise<void> => {
      for (await drainEventLoop(); cluster.network.messages.length > 1; await drainEventLoop()) cluster.network.take(1)()
    }
    for (let i = 0; i < 3; i += 1) {
      const call = ledger.charge(account, 80)
      await overtake()
      t.match(await call, { kind: 'storeUnavailable' }, 'the credits of the old day are not charged again')
      await cluster.advance(250)
    }
  })

  t.test('a store whose day ends much later counts as unavailable until then', async t => {
    const cluster = new TestCluster(beforeMidnight + 500)
    const { ledger } = await cluster.start()
    cluster.clock.shiftWallClock(-5_000)
    await cluster.advance(510)
    t.match(await ledger.charge(accountWith(80), 80), { kind: 'storeUnavailable' })
    await cluster.advance(5_000)
    t.match(await ledger.charge(accountWith(80), 80), { kind: 'charged' })
  })

  t.test('a clock that goes back does not repeat a day, and is logged', async t => {
    const cluster = new TestCluster(beforeMidnight)
    const { ledger, log } = await cluster.start()
    const account = accountWith(80)
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
    await cluster.advance(2_000)
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
    cluster.clock.shiftWallClock(-3_600_000)
    await cluster.advance(2_000)
    t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
    t.match(log.lines, [{ level: 'warn', message: /system clock is behind/ }])
  })

  t.test('a clock that jumps by years neither stops nor grants credits: days go on, and the jump is logged once', async t => {
    for (const years of [10, -10]) {
      const cluster = new TestCluster(beforeMidnight)
      const { ledger, log } = await cluster.start()
      const account = accountWith(160)
      t.match(await ledger.charge(account, 80), { kind: 'charged' })
      cluster.clock.shiftWallClock(years * 365 * dayMs)
      t.same(await kindsOf([80, 80].map(cost => ledger.charge(account, cost))), ['charged', 'exhausted'])
      await cluster.advance(2_000)
      t.match(await ledger.charge(account, 160), { kind: 'charged' }, 'after midnight')
      t.match(log.lines, [{ level: 'warn', message: /system clock differs by more than a day/ }])
      cluster.clock.shiftWallClock(-years * 365 * dayMs)
      await cluster.advance(2_000)
      t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
    }
  })
})
