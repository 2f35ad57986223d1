import t from '../../support/tap.ts'
import type { Account } from '../../../src/plugin/call.ts'
import type { ChargeResult, LedgerService } from '../../../src/services/ledger/index.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { dayMs, hourMs } from '../../../src/util/dates.ts'
import { SeededRandom } from '../../simulation/seeded-random.ts'
import { TestLog } from '../../support/fakes.ts'
import { TestCluster, accountWith, drainEventLoop, isPending, kindsOf } from './ledger-test-cluster.ts'

t.test('the credits of an idle process are returned after two seconds, and other processes can use them', async t => {
  const cluster = new TestCluster()
  const [a, b] = [await cluster.start(), await cluster.start()]
  const account = accountWith(160)
  await a.ledger.charge(account, 40)
  await drainEventLoop()
  t.ok(cluster.network.dayTotals('acc_1').held > 0)
  t.equal((await b.ledger.charge(account, 120)).kind, 'exhausted')
  await cluster.advance(3_100)
  t.match(cluster.network.dayTotals('acc_1'), { used: 40, held: 0, leased: 40 })
  t.equal((await b.ledger.charge(account, 120)).kind, 'charged')
})

t.test(
  'a call that needs what another worker of the gateway holds is served at once; of other gateways it waits for the return',
  async t => {
    const cluster = new TestCluster(undefined, { isGateway: true })
    const [a, b] = [await cluster.start(), await cluster.start()]
    const account = accountWith(160)
    await a.ledger.charge(account, 40)
    await drainEventLoop()
    t.ok(cluster.network.dayTotals('acc_1').held > 0)
    t.equal((await b.ledger.charge(account, 120)).kind, 'charged')
    const before = cluster.network.requests.length
    t.equal((await a.ledger.charge(account, 40)).kind, 'exhausted')
    t.equal(cluster.network.requests.length, before + 2, 'the store is asked again, and b has nothing to return')
    await cluster.advance(300)
    t.same(
      await kindsOf([a.ledger.charge(account, 40), b.ledger.charge(account, 40)]),
      ['exhausted', 'exhausted'],
      'neither waits for the other',
    )
    t.match(cluster.network.dayTotals('acc_1'), { used: 160, held: 0 })
  },
)

t.test('of two workers that hold parts of what is left, one serves the call that needs all of it', async t => {
  for (let delayMs = 0; delayMs < 30; delayMs += 3) {
    const cluster = new TestCluster(undefined, { isGateway: true })
    const [a, b] = [await cluster.start(), await cluster.start()]
    const account = accountWith(320)
    for (const { ledger } of [a, b]) await ledger.charge(account, 80)
    await drainEventLoop()
    t.ok(cluster.network.dayTotals('acc_1').held > 0)
    cluster.network.roundTripMs = 10
    const first = a.ledger.charge(account, 160)
    await cluster.advance(delayMs, 1)
    const second = b.ledger.charge(account, 160)
    await cluster.advance(100, 1)
    t.same((await kindsOf([first, second])).toSorted(), ['charged', 'exhausted'], `${delayMs} ms later`)
  }
})

t.test('of calls that race for the last credits, workers of a gateway refuse none for which enough is left at the end', async t => {
  let wrong = 0
  for (let seed = 1; seed <= 300; seed += 1) {
    const random = new SeededRandom(seed)
    const cluster = new TestCluster(undefined, { isGateway: true })
    const workers: LedgerService[] = []
    for (let i = 0; i < 3; i += 1) workers.push((await cluster.start()).ledger)
    const account = accountWith(random.integer(80, 1_200))
    cluster.network.roundTripMs = random.integer(1, 10)
    let used = 0
    const refusedCosts: number[] = []
    for (let i = 0; i < 30; i += 1) {
      const cost = random.pick([40, 80, 255])
      void Promise.resolve(workers[random.integer(0, 2)]?.charge(account, cost)).then(result => {
        if (result?.kind === 'charged') used += cost
        else refusedCosts.push(cost)
      })
      if (random.chance(0.5)) await cluster.advance(random.integer(1, 8), 1)
    }
    await cluster.advance(200, 5)
    t.ok(used <= account.plan.dailyCredits)
    if (refusedCosts.some(cost => cost <= account.plan.dailyCredits - used)) wrong += 1
  }
  t.equal(wrong, 0)
})

t.test('refused calls do not keep a lease from being returned', async t => {
  const cluster = new TestCluster()
  const [a, b] = [await cluster.start(), await cluster.start()]
  const account = accountWith(120)
  await a.ledger.charge(account, 40)
  await b.ledger.charge(account, 40)
  for (let i = 0; i < 30; i += 1) {
    a.ledger.charge(account, 90)
    await cluster.advance(100)
  }
  t.match(cluster.network.dayTotals('acc_1'), { used: 80, held: 0 })
})

t.test('use is reported within a second, and at every moment all credits are accounted for', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(1_000_000)
  for (let second = 1; second <= 5; second += 1) {
    for (let i = 0; i < 10; i += 1) {
      await ledger.charge(account, 80)
      await cluster.advance(100)
      const { leased, used, held, forfeited } = cluster.network.dayTotals('acc_1')
      t.equal(leased, used + held + forfeited)
    }
    t.ok(cluster.network.dayTotals('acc_1').used >= 800 * (second - 1), `second ${second}`)
  }
})

t.test('a lease is at most 1 % of the day, or one call', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(1_000_000)
  for (let i = 0; i < 5_000; i += 1) await ledger.charge(account, 80)
  cluster.network.requests.forEach(({ desiredCredits }) => t.ok(desiredCredits <= 10_000, `${desiredCredits}`))
  t.ok(cluster.network.requests.some(({ desiredCredits }) => desiredCredits > 5_000))
})

t.test('refunds', async t => {
  const setUp = async (limit: number) => {
    const cluster = new TestCluster(Date.UTC(2026, 0, 15, 23, 59, 55))
    const { ledger } = await cluster.start()
    return { cluster, ledger, account: accountWith(limit) }
  }
  const refund = (result: ChargeResult) => {
    if (result.kind === 'charged') result.refund()
  }

  t.test('a refund returns the credits, once', async t => {
    const { cluster, ledger, account } = await setUp(100)
    const result = await ledger.charge(account, 80)
    refund(result)
    refund(result)
    t.match(ledger.charge(account, 80), { kind: 'charged' })
    t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
    await cluster.advance(1_100)
    t.match(cluster.network.dayTotals('acc_1'), { used: 80 })
  })

  t.test('a refund after the lease was returned goes to the store too', async t => {
    const { cluster, ledger, account } = await setUp(100)
    const result = await ledger.charge(account, 80)
    await cluster.advance(3_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 80, used: 80, held: 0 })
    refund(result)
    await cluster.advance(1_100)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 0, used: 0, held: 0 })
  })

  t.test('a refund after midnight has no effect: the credits belong to another day', async t => {
    const { cluster, ledger, account } = await setUp(100)
    const result = await ledger.charge(account, 80)
    await cluster.advance(6_000)
    const next = await ledger.charge(account, 80)
    refund(result)
    t.equal(next.kind, 'charged')
    t.match(await ledger.charge(account, 80), { kind: 'exhausted' })
  })

  t.test('a refund after the account was evicted has no effect: nothing would return the credits to the store', async t => {
    const { cluster, ledger, account } = await setUp(1_000)
    await cluster.advance(6_000)
    const result = await ledger.charge(account, 80)
    await cluster.advance(610_000, 1_000)
    t.equal(result.kind === 'charged' && result.refund(), false)
    t.match(result, { quota: { limit: 1_000, remaining: 920 } }, 'the quota of a call that took so long')
    await ledger.charge(account, 80)
    await cluster.advance(4_000)
    t.match(cluster.network.dayTotals('acc_1'), { leased: 160, used: 160, held: 0 })
  })

  t.test('steady refunds do not delay reports', async t => {
    const { cluster, ledger, account } = await setUp(1_000_000)
    for (let i = 0; i < 3_000; i += 1) await ledger.charge(account, 80)
    await drainEventLoop()
    const requestsBefore = cluster.network.requests.length
    for (let i = 0; i < 30; i += 1) {
      await ledger.charge(account, 80)
      refund(await ledger.charge(account, 80))
      await cluster.advance(100)
    }
    t.ok(cluster.network.requests.length >= requestsBefore + 3)
    t.ok(cluster.network.dayTotals('acc_1').used >= 80 * 3_019)
  })
})

t.test('stop', async t => {
  t.test('forfeits nothing', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const accounts = Array.from({ length: 20 }, (_, i) => accountWith(100_000, `acc_${i}`))
    for (const account of accounts) await ledger.charge(account, 80)
    await ledger.stop()
    await ledger.stop()
    for (const { id } of accounts) t.match(cluster.network.dayTotals(id), { leased: 80, used: 80, held: 0, forfeited: 0 })
  })

  t.test('waits for the request in flight, and returns its grant', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    cluster.network.holdsMessages = true
    const calls = [80, 80].map(cost => ledger.charge(accountWith(1_000_000), cost))
    await drainEventLoop()
    const stopped = ledger.stop()
    await cluster.network.deliver()
    await stopped
    t.same(await kindsOf(calls), ['charged', 'charged'])
    t.match(cluster.network.dayTotals('acc_1'), { leased: 160, used: 160, held: 0, forfeited: 0 })
  })

  t.test('refuses later charges, of new accounts too', async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    await ledger.charge(accountWith(1_000), 80)
    await ledger.stop()
    t.match(ledger.charge(accountWith(1_000), 80), { kind: 'storeUnavailable' })
    t.match(ledger.charge(accountWith(1_000, 'acc_2'), 80), { kind: 'storeUnavailable' })
    t.match(cluster.network.dayTotals('acc_2'), { leased: 0 })
  })

  t.test('is safe without start', async () => {
    const cluster = new TestCluster()
    await openLedger(cluster.network, cluster.clock, { log: new TestLog() }).stop()
  })

  t.test('logs how many accounts have unreturned credits when the store is unavailable', async t => {
    const cluster = new TestCluster()
    const { ledger, log } = await cluster.start()
    await ledger.charge(accountWith(1_000_000), 80)
    cluster.network.isDown = true
    await ledger.stop()
    t.match(log.lines.at(-1), { level: 'warn', fields: { accounts: 1 } })
  })
})

t.test('a killed process forfeits its lease and nothing else', async t => {
  const cluster = new TestCluster()
  const [a, b] = [await cluster.start(), await cluster.start()]
  const account = accountWith(1_000_000)
  for (let i = 0; i < 3_000; i += 1) await a.ledger.charge(account, 80)
  await b.ledger.charge(account, 80)
  await cluster.advance(1_100)
  a.kill()
  await cluster.advance(8_000)
  const { leased, used, held, forfeited } = cluster.network.dayTotals('acc_1')
  t.equal(leased, used + held + forfeited)
  t.equal(used, 80 * 3_001)
  t.equal(held, 0)
  t.ok(forfeited > 0 && forfeited <= 10_000, `${forfeited} forfeited`)
})

t.test('an account that is idle for ten minutes is evicted, and restored from the store', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const account = accountWith(1_000)
  await ledger.charge(account, 80)
  await cluster.advance(610_000, 1_000)
  const before = cluster.network.requests.length
  t.match(await ledger.charge(account, 80), { kind: 'charged' })
  t.equal(cluster.network.requests[before]?.counters, undefined)
  await cluster.advance(4_000)
  t.match(cluster.network.dayTotals('acc_1'), { leased: 160, used: 160, held: 0 })
})

t.test(
  'among many accounts a small lease is kept for a minute, its use is reported within ten seconds, and then it is returned',
  async t => {
    const cluster = new TestCluster()
    const { ledger } = await cluster.start()
    const accounts = Array.from({ length: 300 }, (_, i) => accountWith(1_000_000, `acc_${i}`))
    const sumOf = (figure: 'used' | 'held' | 'leased') => accounts.reduce((sum, { id }) => sum + cluster.network.dayTotals(id)[figure], 0)
    for (const account of accounts) await ledger.charge(account, 80)
    t.ok(sumOf('leased') <= (300 * 1_000_000) / 1_000, 'at most 0.1 % of the day')
    await cluster.advance(10_000, 100)
    t.equal(sumOf('used'), 300 * 80)
    const { length } = cluster.network.requests
    for (const account of accounts) t.notOk(isPending(ledger.charge(account, 80)))
    await cluster.advance(20_000, 100)
    t.ok(cluster.network.requests.length <= length + 300, 'the next calls cost one report')
    await cluster.advance(45_000, 100)
    t.same([sumOf('used'), sumOf('held')], [300 * 160, 0])
  },
)

t.test('far from the store', async t => {
  const startFar = async (processes: number, start?: number) => {
    const cluster = new TestCluster(start)
    cluster.network.roundTripMs = 20
    const ledgers = []
    for (let i = 0; i < processes; i += 1) {
      const starting = cluster.start()
      await cluster.advance(20)
      ledgers.push((await starting).ledger)
    }
    // Each learns with its heartbeat how many there are.
    await cluster.advance(1_100)
    const chargeFirst = async (ledger: LedgerService, account: Account, cost: number) => {
      const result = ledger.charge(account, cost)
      await cluster.advance(40, 20)
      return result
    }
    const waitAnHour = () => cluster.advance(hourMs, 500)
    return { cluster, ledgers, chargeFirst, waitAnHour }
  }

  t.test('an idle account keeps the credits of some calls: its next call does not wait, and is reported within seconds', async t => {
    const { cluster, ledgers, chargeFirst, waitAnHour } = await startFar(1)
    const account = accountWith(1_000_000)
    for (const ledger of ledgers) {
      await chargeFirst(ledger, account, 80)
      for (let hour = 0; hour < 5; hour += 1) await waitAnHour()
      t.match(cluster.network.dayTotals('acc_1'), { used: 80, held: 640 })
      t.ok(cluster.network.requests.length < 20, 'the store is asked once an hour')
      t.match(ledger.charge(account, 80), { kind: 'charged' })
      await cluster.advance(2_000)
      t.match(cluster.network.dayTotals('acc_1'), { used: 160 })
      await waitAnHour()
      t.match(cluster.network.dayTotals('acc_1'), { used: 160, held: 640 })
      void ledger.stop()
      await cluster.advance(100, 20)
      t.match(cluster.network.dayTotals('acc_1'), { used: 160, held: 0 })
    }
  })

  t.test(
    'each process keeps the credits of whole calls: by its part of what was leased, or of all processes where that is more',
    async t => {
      const { cluster, ledgers, chargeFirst, waitAnHour } = await startFar(20)
      const heldOf = (id: string) => cluster.network.dayTotals(id).held
      for (const [i, ledger] of ledgers.entries()) {
        await chargeFirst(ledger, accountWith(1_000_000, 'acc_everywhere'), 80)
        if (i === 0) await chargeFirst(ledger, accountWith(200_000, 'acc_of_one'), 80)
        // Of 250 credits each, as long as the first process has leased most.
        if (i === 0)
          for (let calls = 0; calls < 1_000; calls += 1) await chargeFirst(ledger, accountWith(1_000_000, 'acc_mostly_of_one'), 80)
        else await chargeFirst(ledger, accountWith(1_000_000, 'acc_mostly_of_one'), 80)
      }
      await waitAnHour()
      t.ok(
        heldOf('acc_everywhere') >= 20 * 240 && heldOf('acc_everywhere') <= 10_000,
        `1 % of what is left at most: ${heldOf('acc_everywhere')}`,
      )
      t.equal(heldOf('acc_of_one'), 320, '0.2 % of what is left')
      t.equal(heldOf('acc_mostly_of_one'), 640 + 19 * 160)
    },
  )

  t.test('what is kept is returned within two hours where the account has used up the rest, and other processes can use it', async t => {
    const { cluster, ledgers, chargeFirst, waitAnHour } = await startFar(2)
    const [idle, busy] = ledgers
    if (idle === undefined || busy === undefined) throw new Error('two ledgers were started')
    const account = accountWith(400_000)
    const useUp = async () => {
      while ((await chargeFirst(busy, account, 80)).kind === 'charged');
      await cluster.advance(2_000)
    }
    await chargeFirst(idle, account, 80)
    await waitAnHour()
    t.equal(cluster.network.dayTotals('acc_1').held, 640)
    await useUp()
    t.match(cluster.network.dayTotals('acc_1'), { used: 400_000 - 640 })
    await waitAnHour()
    await waitAnHour()
    await useUp()
    t.match(cluster.network.dayTotals('acc_1'), { used: 400_000, held: 0 })
  })

  t.test('an account that keeps credits has some of the next day too, and returns those of the day that is over', async t => {
    const { cluster, ledgers, chargeFirst, waitAnHour } = await startFar(1, Date.UTC(2026, 0, 15, 22, 30))
    for (const ledger of ledgers) {
      await chargeFirst(ledger, accountWith(1_000_000), 80)
      await waitAnHour()
      await waitAnHour()
      const [yesterday, today] = [15, 16].map(date => Date.UTC(2026, 0, date) / dayMs)
      t.match(cluster.network.dayTotals('acc_1', yesterday), { used: 80, held: 0 })
      t.match(cluster.network.dayTotals('acc_1', today), { used: 0, held: 640 })
      t.match(ledger.charge(accountWith(1_000_000), 80), { kind: 'charged', day: today })
    }
  })

  t.test(
    'soon after midnight all accounts have credits of the new day, 200 in a second; one that was just in use has them at once',
    async t => {
      const { cluster, ledgers, chargeFirst } = await startFar(1, Date.UTC(2026, 0, 15, 23, 50))
      const accounts = Array.from({ length: 1_200 }, (_, i) => accountWith(1_000_000, `acc_${i}`))
      const [first] = accounts as [Account] // of many
      const yesterday = Date.UTC(2026, 0, 15) / dayMs
      const withCredits = () => accounts.filter(({ id }) => cluster.network.dayTotals(id, yesterday + 1).held > 0).length
      for (const ledger of ledgers) {
        for (const account of accounts) await chargeFirst(ledger, account, 80)
        await cluster.advance(dayMs - (cluster.clock.now() % dayMs) - 500, 100)
        void ledger.charge(first, 80)
        await cluster.advance(2_500, 100)
        t.match(ledger.charge(first, 80), { kind: 'charged', day: yesterday + 1 }, 'without a promise')
        t.ok(withCredits() > 100 && withCredits() < 600, `not all at once: ${withCredits()}`)
        await cluster.advance(5_500, 100)
        t.equal(withCredits(), accounts.length)
        for (const { id } of accounts) t.match(cluster.network.dayTotals(id, yesterday), { held: 0 })
      }
    },
  )

  t.test('whenever an account has called last before midnight, it has credits of the new day a minute after it', async t => {
    for (const secondsBefore of [0.5, 1.5, 1.9, 2, 2.1, 2.5, 3, 5, 10, 15, 19, 20, 21, 25, 30, 59, 60, 61]) {
      const { cluster, ledgers, chargeFirst } = await startFar(1, Date.UTC(2026, 0, 15, 23, 50))
      for (const ledger of ledgers) {
        await chargeFirst(ledger, accountWith(1_000_000), 80)
        await cluster.advance(dayMs - (cluster.clock.now() % dayMs) - secondsBefore * 1_000, 100)
        await chargeFirst(ledger, accountWith(1_000_000), 80)
        await cluster.advance(secondsBefore * 1_000 + 62_000, 100)
        t.match(ledger.charge(accountWith(1_000_000), 80), { kind: 'charged' }, `${secondsBefore} s`)
      }
    }
  })

  t.test(
    'where the store is unreachable at midnight, accounts have credits of the new day within a minute of its return, in use within seconds',
    async t => {
      const atRest = [0.5, 2, 3, 10, 21, 61, 300].map(secondsBefore => ({ secondsBefore, outageSeconds: 20, waitMs: 62_000 }))
      for (const { secondsBefore, outageSeconds, waitMs } of [{ secondsBefore: 0.5, outageSeconds: 2, waitMs: 2_500 }, ...atRest]) {
        const { cluster, ledgers, chargeFirst } = await startFar(1, Date.UTC(2026, 0, 15, 23, 50))
        for (const ledger of ledgers) {
          await chargeFirst(ledger, accountWith(1_000_000), 80)
          await cluster.advance(dayMs - (cluster.clock.now() % dayMs) - secondsBefore * 1_000, 100)
          await chargeFirst(ledger, accountWith(1_000_000), 80)
          cluster.network.isDown = true
          await cluster.advance((secondsBefore + outageSeconds) * 1_000, 100)
          cluster.network.isDown = false
          await cluster.advance(waitMs, 100)
          t.match(ledger.charge(accountWith(1_000_000), 80), { kind: 'charged' }, `${secondsBefore} s`)
        }
      }
    },
  )

  t.test('a day after its last call an account keeps nothing, and is evicted', async t => {
    const { cluster, ledgers, chargeFirst, waitAnHour } = await startFar(1)
    for (const ledger of ledgers) {
      await chargeFirst(ledger, accountWith(1_000_000), 80)
      for (let hour = 0; hour < 25; hour += 1) await waitAnHour()
      t.match(cluster.network.dayTotals('acc_1'), { held: 0 })
      const before = cluster.network.requests.length
      await chargeFirst(ledger, accountWith(1_000_000), 80)
      t.equal(cluster.network.requests[before]?.counters, undefined)
    }
  })

  t.test('while the store is unreachable the credits that are kept can be used, and no request is made for those that are not', async t => {
    const { cluster, ledgers, chargeFirst, waitAnHour } = await startFar(1)
    for (const ledger of ledgers) {
      await chargeFirst(ledger, accountWith(1_000_000), 80)
      await waitAnHour()
      cluster.network.isDown = true
      const before = cluster.network.requests.length
      await waitAnHour()
      await waitAnHour()
      t.equal(cluster.network.requests.length, before)
      for (let i = 0; i < 8; i += 1) t.match(ledger.charge(accountWith(1_000_000), 80), { kind: 'charged' })
      cluster.network.isDown = false
      await cluster.advance(3_000)
      t.match(cluster.network.dayTotals('acc_1'), { used: 9 * 80 })
    }
  })
})

t.test('requests that no call waits for are sent together', async t => {
  const cluster = new TestCluster()
  const { ledger } = await cluster.start()
  const accounts = Array.from({ length: 20 }, (_, i) => accountWith(100_000_000, `acc_${i}`))
  for (const account of accounts) await ledger.charge(account, 80)
  const sentAt = new Set<number>()
  const { length } = cluster.network.requests
  for (let i = 0; i < 40 * accounts.length; i += 1) {
    ledger.charge(accounts[i % accounts.length] ?? accountWith(0), 80)
    if (i % 8 !== 0) continue
    const before = cluster.network.requests.length
    await cluster.advance(1, 1)
    if (cluster.network.requests.length > before) sentAt.add(cluster.clock.now())
  }
  t.ok(cluster.network.requests.length >= length + accounts.length, 'each lease was renewed')
  t.ok(sentAt.size <= 2, `${sentAt.size} times`)
})
