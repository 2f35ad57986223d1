import t from '../../support/tap.ts'
import type { Account } from '../../../src/plugin/call.ts'
import type { LedgerService, OutageGrace } from '../../../src/services/ledger/index.ts'
import { readBalance } from '../../../src/services/account-reports.ts'
import { TestCluster, accountWith, drainEventLoop, isPending } from './ledger-test-cluster.ts'

t.test('grace, while the store is unavailable', async t => {
  const limited = { maxCredits: 200, maxDurationMs: Infinity }
  const open = { maxCredits: Infinity, maxDurationMs: 300_000 }
  const charge = async (ledger: LedgerService, account: Account, count: number, grace: OutageGrace) => {
    const kinds: string[] = []
    for (let i = 0; i < count; i += 1) kinds.push((await ledger.charge(account, 80, grace)).kind)
    return kinds.filter(kind => kind === 'charged').length
  }

  t.test('is exact to the credit, and is charged within a second after the outage', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(10_000)
    await ledger.charge(account, 80)
    await drainEventLoop()
    const { held } = cluster.network.dayTotals('acc_1')
    cluster.network.isDown = true
    t.equal(await charge(ledger, account, 50, limited), Math.floor((held + 200) / 80))
    t.match(await ledger.charge(account, 1, { ...limited, maxCredits: 0 }), {
      kind: (held % 80) + (200 % 80) >= 80 ? 'charged' : 'storeUnavailable',
    })
    cluster.network.isDown = false
    await cluster.advance(1_000)
    const { leased, used, held: heldAfter } = cluster.network.dayTotals('acc_1')
    t.equal(leased, used + heldAfter)
    t.equal(used, 80 * (1 + Math.floor((held + 200) / 80)))
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
  })

  t.test('starts again with each outage, and counts for each account', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const [alice, bob] = [accountWith(100_000, 'acc_1'), accountWith(100_000, 'acc_2')]
    cluster.network.isDown = true
    t.same([await charge(ledger, alice, 9, limited), await charge(ledger, bob, 9, limited)], [2, 2])
    await cluster.advance(60_000)
    t.equal(await charge(ledger, alice, 9, limited), 0)
    cluster.network.isDown = false
    await cluster.advance(2_100)
    cluster.network.isDown = true
    await cluster.advance(3_000)
    t.ok((await charge(ledger, alice, 9, limited)) >= 2)
  })

  t.test('open overdraws any cost for five minutes, and all of it is charged, even beyond the limit', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(1_000)
    cluster.network.isDown = true
    t.equal(await charge(ledger, account, 20, open), 20)
    await cluster.advance(299_000)
    t.equal(await charge(ledger, account, 1, open), 1)
    await cluster.advance(1_000)
    t.equal(await charge(ledger, account, 1, open), 0)
    cluster.network.isDown = false
    await cluster.advance(1_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 21 * 80, used: 21 * 80, held: 0 })
    t.match(await ledger.charge(account, 80, open), { kind: 'exhausted', quota: { limit: 1_000, remaining: 0 } })
    const store = { dayBalance: (id: string) => cluster.network.dayTotals(id) }
    t.match(await readBalance(store, 'acc_1', 1_000), { left: 0 })
  })

  t.test('is for outages only: an account without a request since the outage sends one', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(79)
    await cluster.advance(500)
    cluster.network.isDown = true
    t.match(await ledger.charge(account, 80), { kind: 'storeUnavailable' })
    cluster.network.isDown = false
    // A heartbeat is answered.
    await cluster.advance(600)
    t.match(await ledger.charge(account, 80, open), { kind: 'exhausted' })
  })

  t.test('no call waits for a store that hangs once it is known to be unavailable', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    Object.assign(cluster.network, { holdsMessages: true, holdsHeartbeats: true })
    const first = ledger.charge(accountWith(10_000), 80, open)
    await cluster.advance(1_000)
    t.match(await first, { kind: 'charged' })
    await cluster.advance(5_000)
    for (let i = 0; i < 10; i += 1) t.notOk(isPending(ledger.charge(accountWith(10_000), 80, open)))
  })

  t.test('a grant whose response was lost covers the overdraft', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(1_000)
    Object.assign(cluster.network, { holdsMessages: true, holdsHeartbeats: true })
    const call = ledger.charge(account, 80, open)
    await drainEventLoop()
    cluster.network.take(0)()
    await drainEventLoop()
    cluster.network.take(0)
    await cluster.advance(1_000)
    t.match(await call, { kind: 'charged' })
    t.equal(await charge(ledger, account, 2, open), 2)
    Object.assign(cluster.network, { holdsMessages: false, holdsHeartbeats: false })
    await cluster.network.deliver()
    await cluster.advance(4_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 240, used: 240, held: 0 })
  })

  t.test('after an eviction the overdraft is added to what the process had used before', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(10_000)
    t.equal(await charge(ledger, account, 3, limited), 3)
    await cluster.advance(700_000, 1_000)
    cluster.network.isDown = true
    const [result] = await Promise.all([ledger.charge(account, 80, limited)])
    t.equal(result?.kind, 'charged')
    t.ok(result?.kind === 'charged' && result.refund())
    t.equal(await charge(ledger, account, 9, limited), 2)
    cluster.network.isDown = false
    await cluster.advance(4_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 400, used: 400, held: 0 })
  })

  t.test('stop charges the overdraft when the store is available again, and no grace follows it', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(1_000)
    cluster.network.isDown = true
    t.equal(await charge(ledger, account, 3, open), 3)
    cluster.network.isDown = false
    await ledger.stop()
    t.match(cluster.network.dayTotals('acc_1'), { leased: 240, used: 240 })
    t.match(await ledger.charge(account, 80, open), { kind: 'storeUnavailable' })
  })
})
