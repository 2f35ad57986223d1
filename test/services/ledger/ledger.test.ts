import t from 'tap'
import type { Account } from '../../../src/plugin/call.ts'
import type { OutageGrace, LedgerService, ChargeResult } from '../../../src/services/ledger/index.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { readBalance } from '../../../src/services/ledger/balance.ts'
import { dayMs } from '../../../src/util/dates.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { tempStore } from '../../store/temp-store.ts'
import { TestCluster, accountWith, kindsOf, drainEventLoop } from './ledger-test-cluster.ts'

const isPending = (verdict: ChargeResult | Promise<ChargeResult>): verdict is Promise<ChargeResult> => verdict instanceof Promise

t.test('only the first call of an idle account waits; the lease is renewed ahead of need', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(100_000_000)
  let [waited, served] = [0, 0]
  for (let i = 0; i < 20_000; i += 1) {
    const verdict = ledger.charge(account, 80)
    if (isPending(verdict)) waited += 1
    if ((await verdict).kind === 'charged') served += 1
    if (i % 20 === 0) await world.advance(1)
  }
  t.same({ waited, served }, { waited: 1, served: 20_000 })
  t.ok(world.network.requests.length <= 40, `${world.network.requests.length} asks for 20,000 calls`)
})

t.test('a batch is charged in order of position', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(200)
  const batch = [80, 255, 80, 80, 40].map(cost => ledger.charge(account, cost))
  t.same(await kindsOf(batch), ['charged', 'exhausted', 'charged', 'exhausted', 'charged'])
})

t.test('nobody is charged before those who wait already, though the lease in hand would do', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(10_000)
  await ledger.charge(account, 80)
  await drainEventLoop()
  t.match(world.network.dayTotals('acc_1'), { held: 100 })
  const batch = [ledger.charge(account, 255), ledger.charge(account, 80)]
  t.ok(batch.every(isPending))
  t.same(await kindsOf(batch), ['charged', 'charged'])
})

t.test('a batch that finds no lease costs one ask', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(1_000_000)
  await kindsOf(Array.from({ length: 100 }, () => ledger.charge(account, 80)))
  t.ok(world.network.requests.length <= 2, `${world.network.requests.length} asks`)
})

t.test('when thousands of accounts come at once the store is asked in turn, and nobody takes that for an outage', async t => {
  const world = new TestCluster()
  const { ledger, log } = await world.start()
  world.network.holdsMessages = true
  const accounts = Array.from({ length: 2_000 }, (_, i) => accountWith(1_000, `acc_${i}`))
  const calls = accounts.map(account => ledger.charge(account, 80))
  for (let turns = 0; turns < 4; turns += 1) {
    await drainEventLoop()
    t.equal(world.network.messages.length, 500)
    await world.advance(900)
    // The questions arrive, and then their answers.
    for (const arrive of world.network.messages.splice(0)) arrive()
    await drainEventLoop()
    for (const arrive of world.network.messages.splice(0, 500)) arrive()
  }
  t.same(new Set(await kindsOf(calls)), new Set(['charged']))
  world.network.holdsMessages = false
  await world.network.deliver()
  await ledger.stop()
  t.ok(
    accounts.every(({ id }) => world.network.dayTotals(id).leased === 80),
    'and a stop gives all of it back',
  )
  t.same(log.lines, [])
})

t.test('who stands in line when the store goes away hears so with those who have asked', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  world.network.holdsMessages = true
  const calls = Array.from({ length: 2_000 }, (_, i) => ledger.charge(accountWith(1_000, `acc_${i}`), 80))
  await world.advance(1_000)
  t.same(new Set(await kindsOf(calls)), new Set(['storeUnavailable']))
  t.equal(world.network.requests.length, 500)
})

t.test('the last credits are put together: what is in hand and what the store still has', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(160)
  await ledger.charge(account, 80)
  await drainEventLoop()
  t.match(world.network.dayTotals('acc_1'), { held: 40, leased: 120 })
  t.equal((await ledger.charge(account, 80)).kind, 'charged')
})

t.test('a thousand callers in four processes share the balance of one call: one is served', async t => {
  const world = new TestCluster()
  const processes = await Promise.all(Array.from({ length: 4 }, () => world.start()))
  const account = accountWith(80)
  const calls = processes.flatMap(({ ledger }) => Array.from({ length: 250 }, () => ledger.charge(account, 80)))
  const said = await kindsOf(calls)
  t.equal(said.filter(kind => kind === 'charged').length, 1)
  t.equal(said.filter(kind => kind === 'exhausted').length, 999)
})

t.test('the same with the embedded store', async t => {
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

t.test('a refusal says how much there was, how much is gone, and when there will be more', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(100)
  await ledger.charge(account, 80)
  t.match(await ledger.charge(account, 80), { kind: 'exhausted', limit: 100, used: 80, resetAt: Date.UTC(2026, 0, 16) })
})

t.test('a cost that cannot be met is refused for 250 ms without asking; one that can is charged', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(100)
  await ledger.charge(account, 80)
  await drainEventLoop()
  await ledger.charge(account, 80)
  const before = world.network.requests.length
  for (let i = 0; i < 100; i += 1) t.match(ledger.charge(account, 80), { kind: 'exhausted' })
  t.match(ledger.charge(account, 5), { kind: 'charged' })
  await drainEventLoop()
  t.equal(world.network.requests.length, before)
  await world.advance(250)
  t.ok(isPending(ledger.charge(account, 80)))
})

t.test('what an idle process holds is back in the store after two seconds, for others to use', async t => {
  const world = new TestCluster()
  const [a, b] = [await world.start(), await world.start()]
  const account = accountWith(160)
  await a.ledger.charge(account, 40)
  await drainEventLoop()
  t.ok(world.network.dayTotals('acc_1').held > 0)
  t.equal((await b.ledger.charge(account, 120)).kind, 'exhausted')
  await world.advance(3_100)
  t.match(world.network.dayTotals('acc_1'), { used: 40, held: 0, leased: 40 })
  t.equal((await b.ledger.charge(account, 120)).kind, 'charged')
})

t.test('refused calls do not keep a lease from going back', async t => {
  const world = new TestCluster()
  const [a, b] = [await world.start(), await world.start()]
  const account = accountWith(120)
  await a.ledger.charge(account, 40)
  await b.ledger.charge(account, 40)
  for (let i = 0; i < 30; i += 1) {
    a.ledger.charge(account, 90)
    await world.advance(100)
  }
  t.match(world.network.dayTotals('acc_1'), { used: 80, held: 0 })
})

t.test('what is used is in the store within a second, and at every moment all credits are accounted for', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(1_000_000)
  for (let second = 1; second <= 5; second += 1) {
    for (let i = 0; i < 10; i += 1) {
      await ledger.charge(account, 80)
      await world.advance(100)
      const { leased, used, held, forfeited } = world.network.dayTotals('acc_1')
      t.equal(leased, used + held + forfeited)
    }
    t.ok(world.network.dayTotals('acc_1').used >= 800 * (second - 1), `second ${second}`)
  }
})

t.test('nobody takes more than 1 % of the day, or one call', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(1_000_000)
  for (let i = 0; i < 5_000; i += 1) await ledger.charge(account, 80)
  world.network.requests.forEach(({ desiredCredits }) => t.ok(desiredCredits <= 10_000, `${desiredCredits}`))
  t.ok(world.network.requests.some(({ desiredCredits }) => desiredCredits > 5_000))
})

t.test('refunds', async t => {
  const setUp = async (limit: number) => {
    const world = new TestCluster(Date.UTC(2026, 0, 15, 23, 59, 55))
    const { ledger } = await world.start()
    return { world, ledger, account: accountWith(limit) }
  }
  const refund = (verdict: ChargeResult) => {
    if (verdict.kind === 'charged') verdict.refund()
  }

  t.test('a refund gives the credits back, once', async t => {
    const { world, ledger, account } = await setUp(100)
    const verdict = await ledger.charge(account, 80)
    refund(verdict)
    refund(verdict)
    t.match(ledger.charge(account, 80), { kind: 'charged' })
    t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
    await world.advance(1_100)
    t.match(world.network.dayTotals('acc_1'), { used: 80 })
  })

  t.test('a refund after the lease went back goes to the store too', async t => {
    const { world, ledger, account } = await setUp(100)
    const verdict = await ledger.charge(account, 80)
    await world.advance(3_000)
    t.match(world.network.dayTotals('acc_1'), { leased: 80, used: 80, held: 0 })
    refund(verdict)
    await world.advance(1_100)
    t.match(world.network.dayTotals('acc_1'), { leased: 0, used: 0, held: 0 })
  })

  t.test('a refund after midnight does nothing: the credits were of another day', async t => {
    const { world, ledger, account } = await setUp(100)
    const verdict = await ledger.charge(account, 80)
    await world.advance(6_000)
    const next = await ledger.charge(account, 80)
    refund(verdict)
    t.equal(next.kind, 'charged')
    t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
  })

  t.test('steady refunds do not keep usage from being reported', async t => {
    const { world, ledger, account } = await setUp(1_000_000)
    for (let i = 0; i < 3_000; i += 1) await ledger.charge(account, 80)
    await drainEventLoop()
    const asks = world.network.requests.length
    for (let i = 0; i < 30; i += 1) {
      await ledger.charge(account, 80)
      refund(await ledger.charge(account, 80))
      await world.advance(100)
    }
    t.ok(world.network.requests.length >= asks + 3)
    t.ok(world.network.dayTotals('acc_1').used >= 80 * 3_019)
  })
})

t.test('stop', async t => {
  t.test('forfeits nothing', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const accounts = Array.from({ length: 20 }, (_, i) => accountWith(100_000, `acc_${i}`))
    for (const account of accounts) await ledger.charge(account, 80)
    await ledger.stop()
    await ledger.stop()
    for (const { id } of accounts) t.match(world.network.dayTotals(id), { leased: 80, used: 80, held: 0, forfeited: 0 })
  })

  t.test('waits for the ask that is on its way, and gives back what that brings', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    world.network.holdsMessages = true
    const calls = [80, 80].map(cost => ledger.charge(accountWith(1_000_000), cost))
    await drainEventLoop()
    const stopped = ledger.stop()
    await world.network.deliver()
    await stopped
    t.same(await kindsOf(calls), ['charged', 'charged'])
    t.match(world.network.dayTotals('acc_1'), { leased: 160, used: 160, held: 0, forfeited: 0 })
  })

  t.test('refuses what comes after it, also for accounts it has not seen', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    await ledger.charge(accountWith(1_000), 80)
    await ledger.stop()
    t.match(ledger.charge(accountWith(1_000), 80), { kind: 'storeUnavailable' })
    t.match(ledger.charge(accountWith(1_000, 'acc_2'), 80), { kind: 'storeUnavailable' })
    t.match(world.network.dayTotals('acc_2'), { leased: 0 })
  })

  t.test('is safe without start', async () => {
    const world = new TestCluster()
    await openLedger(world.network, world.clock, { log: new TestLog() }).stop()
  })

  t.test('says so when the store is away and something is lost', async t => {
    const world = new TestCluster()
    const { ledger, log } = await world.start()
    await ledger.charge(accountWith(1_000_000), 80)
    world.network.isDown = true
    await ledger.stop()
    t.match(log.lines.at(-1), { level: 'warn', fields: { accounts: 1 } })
  })
})

t.test('a process that is killed forfeits its lease and nothing else', async t => {
  const world = new TestCluster()
  const [a, b] = [await world.start(), await world.start()]
  const account = accountWith(1_000_000)
  for (let i = 0; i < 3_000; i += 1) await a.ledger.charge(account, 80)
  await b.ledger.charge(account, 80)
  await world.advance(1_100)
  a.kill()
  await world.advance(8_000)
  const { leased, used, held, forfeited } = world.network.dayTotals('acc_1')
  t.equal(leased, used + held + forfeited)
  t.equal(used, 80 * 3_001)
  t.equal(held, 0)
  t.ok(forfeited > 0 && forfeited <= 10_000, `${forfeited} forfeited`)
})

t.test('while the store is away', async t => {
  t.test('leases in hand are spent, then calls are refused as away, and it is logged once', async t => {
    const world = new TestCluster()
    const { ledger, log } = await world.start()
    const account = accountWith(1_000_000)
    for (let i = 0; i < 500; i += 1) await ledger.charge(account, 80)
    world.network.isDown = true
    let served = 0
    while ((await ledger.charge(account, 80)).kind === 'charged') served += 1
    t.ok(served > 10, `${served} served from the lease in hand`)
    t.match(ledger.charge(account, 80), { kind: 'storeUnavailable' })
    await world.advance(5_000)
    t.match(await ledger.charge(account, 80), { kind: 'storeUnavailable' })
    t.same(
      log.lines.map(({ level }) => level),
      ['warn'],
    )
  })

  t.test('calls are served again as soon as it is back', async t => {
    const world = new TestCluster()
    const { ledger, log } = await world.start()
    world.network.isDown = true
    t.match(await ledger.charge(accountWith(1_000), 80), { kind: 'storeUnavailable' })
    world.network.isDown = false
    t.match(ledger.charge(accountWith(1_000), 80), { kind: 'storeUnavailable' }, 'it is not asked at once')
    await world.advance(250)
    t.match(await ledger.charge(accountWith(1_000), 80), { kind: 'charged' })
    t.same(
      log.lines.map(({ level }) => level),
      ['warn', 'info'],
    )
  })

  t.test('nobody waits longer than a second, and a late answer is not lost', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(1_000)
    world.network.holdsMessages = true
    const call = ledger.charge(account, 80)
    await world.advance(1_000)
    t.match(await call, { kind: 'storeUnavailable' })
    await world.network.deliver()
    t.match(ledger.charge(account, 80), { kind: 'charged' })
  })

  t.test('a process that has much to do is not a store that is away: its answers wait to be read', async t => {
    const world = new TestCluster()
    const { ledger, log } = await world.start()
    world.network.holdsMessages = true
    const calls = Array.from({ length: 100 }, (_, i) => ledger.charge(accountWith(1_000, `acc_${i}`), 80))
    await drainEventLoop()
    for (let i = 0; i < 5; i += 1) {
      world.clock.stall(3_000)
      await drainEventLoop()
    }
    await world.network.deliver()
    t.same(new Set(await kindsOf(calls)), new Set(['charged']))
    t.same(log.lines, [])
  })

  t.test('a grant whose answer was lost is given back in the end', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    world.network.holdsMessages = true
    const call = ledger.charge(accountWith(1_000), 80)
    await drainEventLoop()
    world.network.take(0)()
    await drainEventLoop()
    world.network.take(0)
    await world.advance(1_000)
    t.match(await call, { kind: 'storeUnavailable' })
    t.match(world.network.dayTotals('acc_1'), { leased: 80, held: 80 })
    world.network.holdsMessages = false
    await world.advance(4_000)
    t.match(world.network.dayTotals('acc_1'), { leased: 0, used: 0, held: 0 })
  })
})

t.test('grace, while the store is away', async t => {
  const few = { maxCredits: 200, maxDurationMs: Infinity }
  const open = { maxCredits: Infinity, maxDurationMs: 300_000 }
  const charge = async (ledger: LedgerService, account: Account, count: number, grace: OutageGrace) => {
    const said: string[] = []
    for (let i = 0; i < count; i += 1) said.push((await ledger.charge(account, 80, grace)).kind)
    return said.filter(kind => kind === 'charged').length
  }

  t.test('is kept to the credit, and charged within a second after the store is back', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(10_000)
    await ledger.charge(account, 80)
    await drainEventLoop()
    const { held } = world.network.dayTotals('acc_1')
    world.network.isDown = true
    t.equal(await charge(ledger, account, 50, few), Math.floor((held + 200) / 80))
    t.match(await ledger.charge(account, 1, { ...few, maxCredits: 0 }), {
      kind: (held % 80) + (200 % 80) >= 80 ? 'charged' : 'storeUnavailable',
    })
    world.network.isDown = false
    await world.advance(1_000)
    const { leased, used, held: left } = world.network.dayTotals('acc_1')
    t.equal(leased, used + left)
    t.equal(used, 80 * (1 + Math.floor((held + 200) / 80)))
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
  })

  t.test('begins anew with each outage, and is for each account', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const [alice, bob] = [accountWith(100_000, 'acc_1'), accountWith(100_000, 'acc_2')]
    world.network.isDown = true
    t.same([await charge(ledger, alice, 9, few), await charge(ledger, bob, 9, few)], [2, 2])
    await world.advance(60_000)
    t.equal(await charge(ledger, alice, 9, few), 0)
    world.network.isDown = false
    await world.advance(2_100)
    world.network.isDown = true
    await world.advance(3_000)
    t.ok((await charge(ledger, alice, 9, few)) >= 2)
  })

  t.test('open lends what is asked for, for five minutes, and all of it is charged, also over the limit', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(1_000)
    world.network.isDown = true
    t.equal(await charge(ledger, account, 20, open), 20)
    await world.advance(299_000)
    t.equal(await charge(ledger, account, 1, open), 1)
    await world.advance(1_000)
    t.equal(await charge(ledger, account, 1, open), 0)
    world.network.isDown = false
    await world.advance(1_000)
    t.match(world.network.dayTotals('acc_1'), { leased: 21 * 80, used: 21 * 80, held: 0 })
    t.match(await ledger.charge(account, 80, open), { kind: 'exhausted', quota: { limit: 1_000, remaining: 0 } })
    t.match(await readBalance(world.network, 'acc_1', 1_000), { left: 0 })
  })

  t.test('is for outages only: who has not asked since the store is back asks', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(79)
    await world.advance(500)
    world.network.isDown = true
    t.match(await ledger.charge(account, 80), { kind: 'storeUnavailable' })
    world.network.isDown = false
    // A heartbeat is answered.
    await world.advance(600)
    t.match(await ledger.charge(account, 80, open), { kind: 'exhausted' })
  })

  t.test('nobody waits for a store that hangs once it is known to be away', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    Object.assign(world.network, { holdsMessages: true, holdsHeartbeats: true })
    const first = ledger.charge(accountWith(10_000), 80, open)
    await world.advance(1_000)
    t.match(await first, { kind: 'charged' })
    await world.advance(5_000)
    for (let i = 0; i < 10; i += 1) t.notOk(isPending(ledger.charge(accountWith(10_000), 80, open)))
  })

  t.test('a grant whose answer was lost pays for what was lent', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(1_000)
    Object.assign(world.network, { holdsMessages: true, holdsHeartbeats: true })
    const call = ledger.charge(account, 80, open)
    await drainEventLoop()
    world.network.take(0)()
    await drainEventLoop()
    world.network.take(0)
    await world.advance(1_000)
    t.match(await call, { kind: 'charged' })
    t.equal(await charge(ledger, account, 2, open), 2)
    Object.assign(world.network, { holdsMessages: false, holdsHeartbeats: false })
    await world.network.deliver()
    await world.advance(4_000)
    t.match(world.network.dayTotals('acc_1'), { leased: 240, used: 240, held: 0 })
  })

  t.test('a process that is new to the account owes what it lent on top of what it had used before', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(10_000)
    t.equal(await charge(ledger, account, 3, few), 3)
    await world.advance(700_000, 1_000)
    world.network.isDown = true
    const [verdict] = await Promise.all([ledger.charge(account, 80, few)])
    t.equal(verdict?.kind, 'charged')
    t.ok(verdict?.kind === 'charged' && verdict.refund())
    t.equal(await charge(ledger, account, 9, few), 2)
    world.network.isDown = false
    await world.advance(4_000)
    t.match(world.network.dayTotals('acc_1'), { leased: 400, used: 400, held: 0 })
  })

  t.test('stop charges what was lent when the store is back, and none is given after it', async t => {
    const world = new TestCluster()
    const { ledger } = await world.start()
    const account = accountWith(1_000)
    world.network.isDown = true
    t.equal(await charge(ledger, account, 3, open), 3)
    world.network.isDown = false
    await ledger.stop()
    t.match(world.network.dayTotals('acc_1'), { leased: 240, used: 240 })
    t.match(await ledger.charge(account, 80, open), { kind: 'storeUnavailable' })
  })
})

t.test('a quota says what remains as this process knows it, never more than there is', async t => {
  const world = new TestCluster()
  const [one, other] = [await world.start(), await world.start()]
  const account = accountWith(10_000)
  const verdict = await one.ledger.charge(account, 80)
  if (verdict.kind !== 'charged') throw new Error('it is charged')
  const { quota } = verdict
  t.match(quota, { limit: 10_000, remaining: 9_920, resetsInMs: Number })
  t.ok(quota.resetsInMs <= 43_200_000 && quota.resetsInMs > 43_190_000)
  await other.ledger.charge(account, 255)
  t.equal(quota.remaining, 9_920)
  await world.advance(3_000)
  const { remaining: left } = quota
  t.ok(left <= 9_665 && left > 9_000)
  verdict.refund()
  verdict.refund()
  t.equal(quota.remaining, left + 80)
  const smaller = await one.ledger.charge(accountWith(100), 0)
  t.match(smaller, { quota: { limit: 100, remaining: 0 } })
})

t.test('messages that come twice change nothing', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  world.network.holdsMessages = true
  const call = ledger.charge(accountWith(1_000), 80)
  await drainEventLoop()
  const request = world.network.take(0)
  request()
  request()
  await drainEventLoop()
  await world.network.deliver()
  t.match(await call, { kind: 'charged' })
  await world.network.deliver()
  request()
  await world.network.deliver()
  world.network.holdsMessages = false
  await world.advance(4_000)
  t.match(world.network.dayTotals('acc_1'), { leased: 80, used: 80, held: 0 })
})

t.test('an answer that is overtaken by a later one changes nothing', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(1_000)
  world.network.holdsMessages = true
  const first = ledger.charge(account, 80)
  await drainEventLoop()
  world.network.take(0)()
  await world.advance(1_000)
  const late = world.network.take(0)
  t.match(await first, { kind: 'storeUnavailable' })
  await world.advance(250)
  const second = ledger.charge(account, 80)
  await drainEventLoop()
  await world.network.deliver()
  t.match(await second, { kind: 'charged' })
  late()
  world.network.holdsMessages = false
  await world.advance(4_000)
  t.match(world.network.dayTotals('acc_1'), { leased: 80, used: 80, held: 0 })
})

t.test('midnight', async t => {
  const eve = Date.UTC(2026, 0, 15, 23, 59, 59)
  const dayBefore = Math.floor(eve / dayMs)

  t.test('a new day has new credits, and what was left of the old ones buys nothing', async t => {
    const world = new TestCluster(eve)
    const { ledger } = await world.start()
    const account = accountWith(1_000_000)
    for (let i = 0; i < 100; i += 1) await ledger.charge(account, 80)
    await world.advance(998)
    t.match(ledger.charge(account, 80), { kind: 'charged' })
    await world.advance(1)
    t.ok(isPending(ledger.charge(account, 80)), 'the lease of yesterday is not spent')
    await world.advance(2_000)
    t.match(world.network.dayTotals('acc_1'), { used: 80 })
    t.match(world.network.dayTotals('acc_1', dayBefore), { used: 8_080, leased: 8_080, held: 0 }, 'yesterday is closed')
  })

  t.test('who waits over midnight is charged on the new day', async t => {
    const world = new TestCluster(eve + 400)
    const { ledger } = await world.start()
    world.network.holdsMessages = true
    const call = ledger.charge(accountWith(80), 80)
    await world.advance(300)
    const request = world.network.take(0)
    await world.advance(300)
    request()
    await drainEventLoop()
    await world.network.deliver()
    t.match(await call, { kind: 'charged' })
    world.network.holdsMessages = false
    await world.advance(1_100)
    t.match(world.network.dayTotals('acc_1'), { leased: 80, used: 80 })
    t.match(world.network.dayTotals('acc_1', dayBefore), { leased: 0 })
  })

  t.test('a grant of the old day that arrives on the new one goes back', async t => {
    const world = new TestCluster(eve + 400)
    const { ledger } = await world.start()
    world.network.holdsMessages = true
    const call = ledger.charge(accountWith(80), 80)
    await world.advance(300)
    world.network.take(0)()
    await world.advance(300)
    await world.network.deliver()
    t.match(await call, { kind: 'charged' })
    world.network.holdsMessages = false
    await world.advance(3_000)
    t.match(world.network.dayTotals('acc_1'), { leased: 80, used: 80 })
    t.match(world.network.dayTotals('acc_1', dayBefore), { leased: 0, used: 0 })
  })

  t.test('a refusal of the old day that arrives on the new one refuses nobody', async t => {
    const world = new TestCluster(eve)
    const { ledger } = await world.start()
    const account = accountWith(160)
    t.same(await kindsOf([80, 80, 80].map(cost => ledger.charge(account, cost))), ['charged', 'charged', 'exhausted'])
    await world.advance(900)
    world.network.holdsMessages = true
    const calls = [ledger.charge(account, 80)]
    await drainEventLoop()
    world.network.take(0)()
    await world.advance(101)
    calls.push(ledger.charge(account, 80))
    world.network.holdsMessages = false
    await world.network.deliver()
    t.same(await kindsOf(calls), ['charged', 'charged'])
  })

  t.test('a store whose day ends a moment later is waited for', async t => {
    const world = new TestCluster(eve + 500)
    const { ledger } = await world.start()
    world.clock.shiftWallClock(-100)
    await world.advance(510)
    const call = ledger.charge(accountWith(80), 80)
    await world.advance(100)
    t.match(await call, { kind: 'charged' })
    t.match(world.network.dayTotals('acc_1'), { day: dayBefore + 1, leased: 80 })
  })

  t.test('an account is not forgotten while a call waits for the day of the store to end', async t => {
    const world = new TestCluster(Date.UTC(2026, 0, 15, 23, 50, 0, 100))
    const { ledger } = await world.start()
    // Never charged, it would be forgotten ten minutes later: 0.1 s after midnight.
    t.match(await ledger.charge(accountWith(10), 80), { kind: 'exhausted' })
    await world.advance(599_000, 1_000)
    await world.advance(450)
    // No heartbeat hears of it before midnight.
    world.clock.shiftWallClock(-200)
    await world.advance(500)
    const calls = [ledger.charge(accountWith(160), 80)]
    await world.advance(20)
    calls.push(ledger.charge(accountWith(160), 80))
    await world.advance(500)
    t.same(await kindsOf(calls), ['charged', 'charged'])
  })

  t.test('a day that is over here does not come back, though the store is still in it', async t => {
    const world = new TestCluster(eve + 500)
    const { ledger } = await world.start()
    const account = accountWith(100_000)
    await ledger.charge(account, 80)
    await drainEventLoop()
    world.network.holdsMessages = true
    t.same(await kindsOf([80, 80, 80].map(cost => ledger.charge(account, cost))), ['charged', 'charged', 'charged'])
    world.clock.shiftWallClock(-5_000)
    await world.advance(510)
    // What was used is on its way, and stays there: only what comes after it arrives.
    const overtake = async (): Promise<void> => {
      for (await drainEventLoop(); world.network.messages.length > 1; await drainEventLoop()) world.network.take(1)()
    }
    for (let i = 0; i < 3; i += 1) {
      const call = ledger.charge(account, 80)
      await overtake()
      t.match(await call, { kind: 'storeUnavailable' }, 'the credits of the old day are not handed out again')
      await world.advance(250)
    }
  })

  t.test('a store whose day ends much later is away until then', async t => {
    const world = new TestCluster(eve + 500)
    const { ledger } = await world.start()
    world.clock.shiftWallClock(-5_000)
    await world.advance(510)
    t.match(await ledger.charge(accountWith(80), 80), { kind: 'storeUnavailable' })
    await world.advance(5_000)
    t.match(await ledger.charge(accountWith(80), 80), { kind: 'charged' })
  })

  t.test('a clock that goes back gives nobody a second day, and is logged', async t => {
    const world = new TestCluster(eve)
    const { ledger, log } = await world.start()
    const account = accountWith(80)
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
    await world.advance(2_000)
    t.match(await ledger.charge(account, 80), { kind: 'charged' })
    world.clock.shiftWallClock(-3_600_000)
    await world.advance(2_000)
    t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
    t.match(log.lines, [{ level: 'warn', message: /system clock is behind/ }])
  })
})

t.test('a cost that is no whole number is a bug, and never reaches the books', async t => {
  const { ledger } = await new TestCluster().start()
  for (const cost of [0.5, -1, NaN, Infinity]) t.throws(() => ledger.charge(accountWith(100), cost), RangeError)
})

t.test('a plan that changes between two calls counts from the next one', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  t.match(await ledger.charge(accountWith(100), 80), { kind: 'charged' })
  t.match(await ledger.charge(accountWith(100), 80), { kind: 'exhausted' })
  t.match(await ledger.charge(accountWith(200), 80), { kind: 'charged' }, 'raised')
  t.match(await ledger.charge(accountWith(100), 80), { kind: 'exhausted', limit: 100 }, 'lowered')
})

t.test('an account that was idle for ten minutes is forgotten, and remembered by the store', async t => {
  const world = new TestCluster()
  const { ledger } = await world.start()
  const account = accountWith(1_000)
  await ledger.charge(account, 80)
  await world.advance(610_000, 1_000)
  const before = world.network.requests.length
  t.match(await ledger.charge(account, 80), { kind: 'charged' })
  t.equal(world.network.requests[before]?.counters, undefined)
  await world.advance(4_000)
  t.match(world.network.dayTotals('acc_1'), { leased: 160, used: 160, held: 0 })
})
