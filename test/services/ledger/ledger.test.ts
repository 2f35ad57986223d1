import t from '../../support/tap.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { readBalance } from '../../../src/services/account-reports.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { tempStore } from '../../store/temp-store.ts'
import { TestCluster, accountWith, drainEventLoop, isPending, kindsOf } from './ledger-test-cluster.ts'

t.test('only the first call of an idle account waits; the lease is renewed before it is used up', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(100_000_000)
  let [waited, served] = [0, 0]
  for (let i = 0; i < 20_000; i += 1) {
    const result = ledger.charge(account, 80)
    if (isPending(result)) waited += 1
    if ((await result).kind === 'charged') served += 1
    if (i % 20 === 0) await cluster.advance(1)
  }
  t.same({ waited, served }, { waited: 1, served: 20_000 })
  t.ok(cluster.network.requests.length <= 40, `${cluster.network.requests.length} requests for 20,000 calls`)
})

t.test('a batch is charged in order of position', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(200)
  const batch = [80, 255, 80, 80, 40].map(cost => ledger.charge(account, cost))
  t.same(await kindsOf(batch), ['charged', 'exhausted', 'charged', 'exhausted', 'charged'])
})

t.test('a call is charged after the calls that wait, even if the lease has enough credits for it', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(10_000)
  await ledger.charge(account, 80)
  await drainEventLoop()
  t.match(cluster.network.dayTotals('acc_1'), { held: 100 })
  const batch = [ledger.charge(account, 255), ledger.charge(account, 80)]
  t.ok(batch.every(isPending))
  t.same(await kindsOf(batch), ['charged', 'charged'])
})

t.test('a batch without a lease costs one request', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(1_000_000)
  await kindsOf(Array.from({ length: 100 }, () => ledger.charge(account, 80)))
  t.ok(cluster.network.requests.length <= 2, `${cluster.network.requests.length} requests`)
})

t.test('the last credits of the lease and of the store are charged together', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(160)
  await ledger.charge(account, 80)
  await drainEventLoop()
  t.match(cluster.network.dayTotals('acc_1'), { held: 40, leased: 120 })
  t.equal((await ledger.charge(account, 80)).kind, 'charged')
})

t.test('a thousand callers in four processes share the balance of one call: one is served', async t => {
  const cluster = new TestCluster()
  const processes = await Promise.all(Array.from({ length: 4 }, () => cluster.start()))
  const account = accountWith(80)
  const calls = processes.flatMap(({ ledger }) => Array.from({ length: 250 }, () => ledger.charge(account, 80)))
  const kinds = await kindsOf(calls)
  t.equal(kinds.filter(kind => kind === 'charged').length, 1)
  t.equal(kinds.filter(kind => kind === 'exhausted').length, 999)
})

t.test('the embedded store shares a balance in the same way', async t => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  const ledgers = Array.from({ length: 4 }, () => openLedger(store, clock, { log: new TestLog() }))
  for (const ledger of ledgers) await ledger.start()
  const calls = ledgers.flatMap(ledger => Array.from({ length: 250 }, () => ledger.charge(accountWith(80), 80)))
  t.equal((await kindsOf(calls)).filter(kind => kind === 'charged').length, 1)
  for (const ledger of ledgers) await ledger.stop()
  t.match(await readBalance(store, 'acc_1', 80), {
    day: '2026-01-15',
    limit: 80,
    used: 80,
    held: 0,
    forfeited: 0,
    left: 0,
    resetAt: '2026-01-16T00:00:00.000Z',
  })
})

t.test('an exhausted result tells the limit, the used credits and the time of the reset', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(100)
  await ledger.charge(account, 80)
  t.match(await ledger.charge(account, 80), { kind: 'exhausted', limit: 100, used: 80, resetAt: Date.UTC(2026, 0, 16) })
})

t.test('a cost above the remaining credits is refused for 250 ms without a request; a lower cost is charged', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(100)
  await ledger.charge(account, 80)
  await drainEventLoop()
  await ledger.charge(account, 80)
  const before = cluster.network.requests.length
  for (let i = 0; i < 100; i += 1) t.match(ledger.charge(account, 80), { kind: 'exhausted' })
  t.match(ledger.charge(account, 5), { kind: 'charged' })
  await drainEventLoop()
  t.equal(cluster.network.requests.length, before)
  await cluster.advance(250)
  t.ok(isPending(ledger.charge(account, 80)))
})

t.test('a quota tells the remaining credits as this process knows them, never more than there are', async t => {
  const cluster = new TestCluster()
  const [one, other] = [await cluster.start(), await cluster.start()]
  const account = accountWith(10_000)
  const result = await one.ledger.charge(account, 80)
  if (result.kind !== 'charged') throw new Error('the call was not charged')
  const { quota } = result
  t.match(quota, { limit: 10_000, remaining: 9_920, resetsInMs: Number })
  t.ok(quota.resetsInMs <= 43_200_000 && quota.resetsInMs > 43_190_000)
  await other.ledger.charge(account, 255)
  t.equal(quota.remaining, 9_920)
  await cluster.advance(3_000)
  const { remaining } = quota
  t.ok(remaining <= 9_665 && remaining > 9_000)
  result.refund()
  result.refund()
  t.equal(quota.remaining, remaining + 80)
  const smaller = await one.ledger.charge(accountWith(100), 0)
  t.match(smaller, { quota: { limit: 100, remaining: 0 } })
})

t.test('a cost that is no integer of 0 or more is a bug, and is not recorded', async t => {
  const { ledger } = await new TestCluster().start()
  for (const cost of [0.5, -1, NaN, Infinity]) t.throws(() => ledger.charge(accountWith(100), cost), RangeError)
})

t.test('a plan that changes between two calls counts from the next call', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  t.match(await ledger.charge(accountWith(100), 80), { kind: 'charged' })
  t.match(await ledger.charge(accountWith(100), 80), { kind: 'exhausted' })
  t.match(await ledger.charge(accountWith(200), 80), { kind: 'charged' }, 'raised')
  t.match(await ledger.charge(accountWith(100), 80), { kind: 'exhausted', limit: 100 }, 'lowered')
})

t.test('of what processes hold when a plan is lowered, no more is served than the lower limit', async t => {
  for (const dailyCredits of [10_000, 100_000]) {
    const cluster = new TestCluster()
    const [a, b] = [await cluster.start(), await cluster.start()]
    for (const { ledger } of [a, b]) t.match(await ledger.charge(accountWith(dailyCredits), 80), { kind: 'charged' })
    await drainEventLoop()
    t.ok(cluster.network.dayTotals('acc_1').leased > 240)
    const lowered = accountWith(240)
    for (let i = 0; i < 8; i += 1) {
      await kindsOf([a, b].map(({ ledger }) => ledger.charge(lowered, 80)))
      await cluster.advance(300)
    }
    t.match(cluster.network.dayTotals('acc_1'), { used: 240, held: 0, leased: 240 })
  }
})

t.test('what is granted by the limit of before, after a plan was lowered, is not served', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  cluster.network.holdsMessages = true
  const first = ledger.charge(accountWith(100_000), 80)
  await drainEventLoop()
  const lowered = Array.from({ length: 4 }, () => ledger.charge(accountWith(160), 80))
  await cluster.network.deliver()
  t.same(await kindsOf([first, ...lowered]), ['charged', 'charged', 'exhausted', 'exhausted', 'exhausted'])
})

t.test('credits that a lower limit takes away while the last request of a stop is in flight are returned', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  t.match(await ledger.charge(accountWith(100_000), 80), { kind: 'charged' })
  await drainEventLoop()
  cluster.network.holdsMessages = true
  const waiting = ledger.charge(accountWith(100_000), 10_000)
  await drainEventLoop()
  t.equal(cluster.network.messages.length, 1)
  const stopped = ledger.stop()
  const calls = [waiting, ledger.charge(accountWith(80), 0)]
  await cluster.network.deliver()
  t.same(await kindsOf(calls), ['storeUnavailable', 'charged'])
  await stopped
  t.match(cluster.network.dayTotals('acc_1'), { used: 80, leased: 80 })
})

t.test('while the store cannot be asked, what is leased is served by a lower limit too', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  t.match(await ledger.charge(accountWith(10_000), 80), { kind: 'charged' })
  await drainEventLoop()
  cluster.network.isDown = true
  await cluster.advance(1_100)
  t.match(await ledger.charge(accountWith(80), 80), { kind: 'charged' })
})
