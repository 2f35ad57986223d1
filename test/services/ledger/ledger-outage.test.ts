import t from '../../support/tap.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { StoreError, StoreRemovedError } from '../../../src/store/store.ts'
import type { LedgerStore } from '../../../src/store/store.ts'
import { InMemoryLedgerStore } from '../../../src/testing/in-memory-store.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { TestCluster, accountWith, drainEventLoop, kindsOf } from './ledger-test-cluster.ts'

t.test('thousands of accounts that need a lease at once are queued, which does not look like an outage', async t => {
  const cluster = new TestCluster()
  const { ledger, log } = await cluster.start()
  cluster.network.holdsMessages = true
  const accounts = Array.from({ length: 2_000 }, (_, i) => accountWith(1_000, `acc_${i}`))
  const calls = accounts.map(account => ledger.charge(account, 80))
  for (let turns = 0; turns < 4; turns += 1) {
    await drainEventLoop()
    t.equal(cluster.network.messages.length, 500)
    await cluster.advance(900)
    // The requests arrive, and then their responses.
    for (const arrive of cluster.network.messages.splice(0)) arrive()
    await drainEventLoop()
    for (const arrive of cluster.network.messages.splice(0, 500)) arrive()
  }
  t.same(new Set(await kindsOf(calls)), new Set(['charged']))
  cluster.network.holdsMessages = false
  await cluster.network.deliver()
  await ledger.stop()
  t.ok(
    accounts.every(({ id }) => cluster.network.dayTotals(id).leased === 80),
    'and stop returns all other credits',
  )
  t.same(log.lines, [])
})

t.test('requests that are queued when an outage begins fail with the requests in flight', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  cluster.network.holdsMessages = true
  const calls = Array.from({ length: 2_000 }, (_, i) => ledger.charge(accountWith(1_000, `acc_${i}`), 80))
  await cluster.advance(1_000)
  t.same(new Set(await kindsOf(calls)), new Set(['storeUnavailable']))
  t.equal(cluster.network.requests.length, 500)
})

t.test('before the store has told the day, calls are charged that are free, for no day', async t => {
  const cluster = new TestCluster()
  cluster.network.isDown = true
  const { ledger } = await cluster.start()
  t.match(ledger.charge(accountWith(1_000), 0), { kind: 'charged', day: -1 })
  t.match(await ledger.charge(accountWith(1_000), 1), { kind: 'storeUnavailable' })
})

t.test('an outage is logged once for each of its reasons, and its end is reported', async t => {
  const [clock, log, outages] = [new TestClock(), new TestLog(), [] as unknown[]]
  const store = new InMemoryLedgerStore(clock)
  let failure: Error | undefined
  const failing: LedgerStore = {
    ...{ horizonMs: store.horizonMs, requestLease: store.requestLease, deregister: store.deregister },
    heartbeat: async process => {
      if (failure !== undefined) throw failure
      return store.heartbeat(process)
    },
  }
  const ledger = openLedger(failing, clock, { log, onOutage: reason => outages.push(reason) })
  await ledger.start()
  const beat = async (error: Error | undefined) => {
    failure = error
    clock.advance(1_000)
    await drainEventLoop()
  }
  const [lost, refused, removed] = [new StoreError('connection lost'), new StoreError('NOAUTH'), new StoreRemovedError('removed')]
  for (const error of [lost, lost, refused, lost, removed, lost, undefined, undefined, refused]) await beat(error)
  t.same(outages, ['unreachable', 'removed', 'unreachable', undefined, 'unreachable'])
  const [unreachable, again] = ['store unreachable: calls are charged to credits that are already leased', 'store reachable again']
  t.same(
    log.lines.map(({ message }) => message),
    [unreachable, unreachable, unreachable, again, unreachable],
  )
  await ledger.stop()
})

t.test('while the store is unavailable', async t => {
  t.test('leased credits are spent, then calls are refused, and the outage is logged once', async t => {
    const cluster = new TestCluster()
    const { ledger, log } = await cluster.start()
    const account = accountWith(1_000_000)
    for (let i = 0; i < 500; i += 1) await ledger.charge(account, 80)
    cluster.network.isDown = true
    let served = 0
    while ((await ledger.charge(account, 80)).kind === 'charged') served += 1
    t.ok(served > 10, `${served} served from the lease in hand`)
    t.match(ledger.charge(account, 80), { kind: 'storeUnavailable' })
    await cluster.advance(5_000)
    t.match(await ledger.charge(account, 80), { kind: 'storeUnavailable' })
    t.same(
      log.lines.map(({ level }) => level),
      ['warn', 'warn'],
    )
  })

  t.test('the log says when refusals begin, and how many calls were refused when they end', async t => {
    const cluster = new TestCluster()
    const { ledger, log } = await cluster.start()
    cluster.network.isDown = true
    for (let i = 0; i < 3; i += 1) await ledger.charge(accountWith(1_000), 80)
    cluster.network.isDown = false
    await cluster.advance(5_000)
    t.match(await ledger.charge(accountWith(1_000), 80), { kind: 'charged' })
    t.match(
      log.lines.filter(({ fields }) => 'event' in fields).map(({ level, fields }) => ({ level, ...fields })),
      [
        { level: 'warn', event: 'charges-refused' },
        { level: 'info', event: 'charges-accepted', refused: 3 },
      ],
    )
  })

  t.test('calls are served again when the store is available again', async t => {
    const cluster = new TestCluster()
    const { ledger, log } = await cluster.start()
    cluster.network.isDown = true
    t.match(await ledger.charge(accountWith(1_000), 80), { kind: 'storeUnavailable' })
    cluster.network.isDown = false
    t.match(ledger.charge(accountWith(1_000), 80), { kind: 'storeUnavailable' }, 'the store is not asked again at once')
    await cluster.advance(250)
    t.match(await ledger.charge(accountWith(1_000), 80), { kind: 'charged' })
    t.same(
      log.lines.map(({ level }) => level),
      ['warn', 'warn', 'info', 'info'],
    )
  })

  t.test('that answers nobody for ten seconds, no call waits for it, of whatever account, until it has answered a heartbeat', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    Object.assign(cluster.network, { holdsMessages: true, holdsHeartbeats: true })
    const refused = (account: string) => ledger.charge(accountWith(1_000, account), 80)
    const waiting = refused('acc_1')
    await cluster.advance(1_000)
    t.match(await waiting, { kind: 'storeUnavailable' })
    t.ok(refused('acc_2') instanceof Promise, 'a replica may take over')
    await cluster.advance(10_000)
    for (const account of ['acc_1', 'acc_3', 'acc_4']) t.match(refused(account), { kind: 'storeUnavailable' })
    t.match(
      ledger.charge(accountWith(1_000, 'acc_5'), 80, { maxCredits: 80, maxDurationMs: 60_000 }),
      { kind: 'charged' },
      'within the grace',
    )
    Object.assign(cluster.network, { holdsMessages: false, holdsHeartbeats: false })
    await cluster.advance(2_000)
    t.match(await refused('acc_3'), { kind: 'charged' })
  })

  t.test('a call waits at most a second, and a late response is not lost', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const account = accountWith(1_000)
    cluster.network.holdsMessages = true
    const call = ledger.charge(account, 80)
    await cluster.advance(1_000)
    t.match(await call, { kind: 'storeUnavailable' })
    await cluster.network.deliver()
    t.match(ledger.charge(account, 80), { kind: 'charged' })
  })

  t.test('a busy process does not consider the store unavailable: its responses wait to be read', async t => {
    const cluster = new TestCluster()
    const { ledger, log } = await cluster.start()
    cluster.network.holdsMessages = true
    const calls = Array.from({ length: 100 }, (_, i) => ledger.charge(accountWith(1_000, `acc_${i}`), 80))
    await drainEventLoop()
    for (let i = 0; i < 5; i += 1) {
      cluster.clock.stall(3_000)
      await drainEventLoop()
    }
    await cluster.network.deliver()
    t.same(new Set(await kindsOf(calls)), new Set(['charged']))
    t.same(log.lines, [])
  })

  t.test('a grant whose response was lost is returned in the end', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    cluster.network.holdsMessages = true
    const call = ledger.charge(accountWith(1_000), 80)
    await drainEventLoop()
    cluster.network.take(0)()
    await drainEventLoop()
    cluster.network.take(0)
    await cluster.advance(1_000)
    t.match(await call, { kind: 'storeUnavailable' })
    t.match(cluster.network.dayTotals('acc_1'), { leased: 80, held: 80 })
    cluster.network.holdsMessages = false
    await cluster.advance(4_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 0, used: 0, held: 0 })
  })
})

t.test('duplicate messages change nothing', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  cluster.network.holdsMessages = true
  const call = ledger.charge(accountWith(1_000), 80)
  await drainEventLoop()
  const request = cluster.network.take(0)
  request()
  request()
  await drainEventLoop()
  await cluster.network.deliver()
  t.match(await call, { kind: 'charged' })
  await cluster.network.deliver()
  request()
  await cluster.network.deliver()
  cluster.network.holdsMessages = false
  await cluster.advance(4_000)
  t.match(cluster.network.dayTotals('acc_1'), { leased: 80, used: 80, held: 0 })
})

t.test('a response that arrives after a later response changes nothing', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(1_000)
  cluster.network.holdsMessages = true
  const first = ledger.charge(account, 80)
  await drainEventLoop()
  cluster.network.take(0)()
  await cluster.advance(1_000)
  const late = cluster.network.take(0)
  t.match(await first, { kind: 'storeUnavailable' })
  await cluster.advance(250)
  const second = ledger.charge(account, 80)
  await drainEventLoop()
  await cluster.network.deliver()
  t.match(await second, { kind: 'charged' })
  late()
  cluster.network.holdsMessages = false
  await cluster.advance(4_000)
  t.match(cluster.network.dayTotals('acc_1'), { leased: 80, used: 80, held: 0 })
})
