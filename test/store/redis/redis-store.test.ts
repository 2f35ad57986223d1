import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { applyLeaseRequest, emptyLeaseRecord } from '../../../src/store/lease-accounting.ts'
import type { LeaseRequest, LeaseRecord } from '../../../src/store/lease-accounting.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { openRedisStore } from '../../../src/store/redis/redis-store.ts'
import { RedisConnection } from '../../../src/store/redis/redis-connection.ts'
import type { Store } from '../../../src/store/store.ts'
import { TestClock } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { accountStoreContract, ledgerStoreContract, usageStoreContract } from '../store-contract.ts'
import { dayMs } from '../../../src/util/dates.ts'

const alice = { id: 'acc_1', name: 'alice', plan: 'core', created: 1 }

t.test('redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  // Only this process's timers: the time of the store is the test's.
  const openFresh =
    (at: RedisServer) =>
    async (t: Test, clock: Clock): Promise<Store> => {
      await at.send('FLUSHALL')
      const store = await openRedisStore(at.address, systemClock, clock.now)
      t.teardown(() => store.close())
      return store
    }
  const openOne = openFresh(redis)

  t.test('keeps accounts as every store does', t => accountStoreContract(t, openOne))
  t.test('keeps the ledger as every store does', t => ledgerStoreContract(t, openOne))
  t.test('keeps counts of calls as every store does', t => usageStoreContract(t, openOne))

  t.test('does so on a cluster too, where one step may only touch what lies together', async t => {
    const cluster = await startRedisServer('--cluster-enabled', 'yes')
    t.teardown(() => cluster.remove())
    await cluster.send('CLUSTER', 'ADDSLOTS', ...Array.from({ length: 16_384 }, (_, slot) => `${slot}`))
    while (!String(await cluster.send('CLUSTER', 'INFO')).includes('cluster_state:ok')) await delay(20)
    await accountStoreContract(t, openFresh(cluster))
    await ledgerStoreContract(t, openFresh(cluster))
    await usageStoreContract(t, openFresh(cluster))
  })

  t.test('books each ask as the function of all engines does', async t => {
    const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
    const today = Math.floor(clock.now() / dayMs)
    const store = await openOne(t, clock)
    let runs = 0
    await fc.assert(
      fc.asyncProperty(leaseRequests, async drawn => {
        const account = `acc_${(runs += 1)}`
        const entries = new Map<string, LeaseRecord>()
        let leased = 0
        for (const [index, { offset, isStale, ...over }] of drawn.entries()) {
          const ask: LeaseRequest = { ...over, account, day: today + offset, seq: isStale ? 1 : index + 1 }
          // One day's books are compared; asks for others must leave them alone, as the last line sees.
          if (offset === 0) {
            const booking = applyLeaseRequest(leased, entries.get(ask.process) ?? emptyLeaseRecord, ask, today)
            leased = booking.leased
            entries.set(ask.process, booking.record)
            const { granted, returned, used } = booking.record
            const { counters: tally, remaining: left } = await store.requestLease(ask)
            if (left !== ask.limit - leased) throw new Error(`left ${left}, not ${ask.limit - leased}`)
            if (tally.granted !== granted || tally.returned !== returned || tally.used !== used) {
              throw new Error(`${JSON.stringify(tally)}, not ${JSON.stringify(booking.record)}`)
            }
          } else {
            await store.requestLease(ask)
          }
        }
        const totals = await store.dayTotals(account)
        if (totals.leased !== leased) throw new Error(`leased ${totals.leased}, not ${leased}`)
      }),
      { numRuns: 500 },
    )
    t.pass(`${runs} sequences`)
  })

  t.test('counts to the last credit of the largest balance there can be', async t => {
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

  t.test('names the day itself, and drops a day three days after it began', async t => {
    await redis.send('FLUSHALL')
    const wrong = new TestClock(Date.UTC(2001, 0, 1))
    const store = await openStore(redis.address, wrong)
    t.teardown(() => store.close())
    const { today, endsInMs: endsIn } = await store.heartbeat('p1')
    const off = today * dayMs + dayMs - endsIn - systemClock.now()
    t.ok(Math.abs(off) < 5_000, `${off} ms`)
    const ask = { account: 'acc_1', day: today, process: 'p1', minCredits: 0, limit: 9, shareDivisor: 1 }
    await store.requestLease({ ...ask, seq: 1, counters: undefined, desiredCredits: 5 })
    const ttl = (await redis.send('PTTL', `tollgate:{acc_1}:day:${today}`)) as number
    t.ok(Math.abs(ttl - endsIn - 2 * dayMs) < 5_000, `${ttl} ms`)
  })

  t.test('answers in turn when thousands ask at once', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    const found = await Promise.all(Array.from({ length: 12_000 }, () => store.account('alice')))
    t.ok(found.every(account => account?.id === 'acc_1'))
  })

  t.test('is told its scripts again when it has forgotten them', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    await redis.send('SCRIPT', 'FLUSH')
    t.equal(await store.addAccount(alice), false)
    t.match(await store.heartbeat('p1'), { liveProcesses: 1 })
  })

  t.test('passes on changes: every process that watches hears those of the others', async t => {
    const one = await openOne(t, new TestClock())
    const two = await openRedisStore(redis.address, systemClock)
    t.teardown(() => two.close())
    const told = new Promise<void>(resolve => {
      t.teardown(two.subscribe(resolve))
    })
    while (!String(await redis.send('PUBSUB', 'CHANNELS')).includes('tollgate:news')) await delay(5)
    await one.addAccount(alice)
    await told
    t.match(await two.account('alice'), alice)
  })

  t.test('two changes of one row at once are both kept', async t => {
    const store = await openOne(t, new TestClock())
    await store.addAccount(alice)
    await store.addKey('hash', { id: 'key_1', account: 'acc_1', created: 5, hint: 'wxyz' })
    const plans = Array.from({ length: 20 }, (_, i) => store.changeAccount('acc_1', { plan: `plan-${i}` }))
    const lists = Array.from({ length: 20 }, (_, i) => store.changeKey('key_1', { networks: [`network-${i}`] }))
    const times = await Promise.all(Array.from({ length: 20 }, (_, i) => store.revokeKey('key_1', 100 + i)))
    t.ok((await Promise.all([...plans, ...lists])).every(Boolean))
    t.equal(new Set(times.map(row => row?.revoked)).size, 1, 'all hear of the one time')
    t.match(await store.keys('acc_1'), [{ revoked: times[0]?.revoked, networks: [/^network-/] }])
  })

  t.test('refuses rows of another version', async t => {
    await redis.send('FLUSHALL')
    await redis.send('SET', 'tollgate:version', '2')
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message:
        `the store in redis at 127.0.0.1:${redis.port} has version 2, and this Tollgate reads version 1: ` +
        'run the Tollgate that wrote it, or let `store` in gateway.yaml name another database',
    })
    await redis.send('FLUSHALL')
  })

  t.test('is refused when it would drop balances to make room', async t => {
    await redis.send('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', 'volatile-lru')
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message:
        `redis at 127.0.0.1:${redis.port} would drop balances and keys when its memory is full: ` +
        'set its maxmemory-policy to noeviction (it is volatile-lru)',
    })
    await redis.send('CONFIG', 'SET', 'maxmemory', '0')
    await (await openStore(redis.address, systemClock)).close()
  })

  t.test('takes a user, a password and a database', async t => {
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
      message: `cannot use redis at 127.0.0.1:${redis.port}: WRONGPASS invalid username-password pair or user is disabled.`,
    })
  })

  t.test('refuses work after it was closed, which may be done twice', async t => {
    const store = await openOne(t, new TestClock())
    await store.close()
    await store.close()
    await t.rejects(store.heartbeat('p1'), { name: 'StoreError', message: 'the store is closed' })
    await t.rejects(async () => store.account('alice'), { name: 'StoreError' })
  })
})

t.test('a redis that goes away', { skip: skipWithoutRedis }, async t => {
  // With everysec, a busy disk may cost the last write of a Redis that is killed.
  const redis = await startRedisServer('--appendonly', 'yes', '--appendfsync', 'always')
  t.teardown(() => redis.remove())
  const store = await openStore(redis.address, systemClock)
  t.teardown(() => store.close())
  await store.addAccount(alice)
  const answers = () =>
    Promise.resolve(store.account('alice')).then(
      () => true,
      () => false,
    )
  const untilAnswer = async () => {
    const start = systemClock.monotonic()
    while (!(await answers())) await delay(5)
    return systemClock.monotonic() - start
  }

  t.test('fails each call within milliseconds, and names itself without a password', async t => {
    await redis.kill()
    await answers()
    const start = systemClock.monotonic()
    for (let i = 0; i < 100; i += 1) t.equal(await answers(), false)
    const each = (systemClock.monotonic() - start) / 100
    t.ok(each < 5, `${each.toFixed(2)} ms a call`)
    const message = new RegExp(`^cannot use redis at 127\\.0\\.0\\.1:${redis.port}: `)
    await t.rejects(store.heartbeat('p1'), { name: 'StoreError', message })
  })

  t.test('is in use again within a second of its return, with all it had', async t => {
    await redis.restart()
    const took = await untilAnswer()
    t.ok(took < 1_000, `${took} ms`)
    t.match(await store.account('alice'), alice)
  })

  t.test('that hangs is given up after a second: then calls fail at once', async t => {
    redis.pause()
    const start = systemClock.monotonic()
    await t.rejects(store.heartbeat('p1'), { message: /: no answer for 1000 ms$/ })
    const patience = systemClock.monotonic() - start
    t.ok(patience > 900 && patience < 1_500, `${patience} ms`)
    const second = systemClock.monotonic()
    t.equal(await answers(), false)
    t.ok(systemClock.monotonic() - second < 50)
    redis.resume()
    t.ok((await untilAnswer()) < 1_000)
  })

  t.test('cannot be opened while it is away: that is one line', async t => {
    await redis.kill()
    await t.rejects(openStore(redis.address, systemClock), {
      name: 'StoreError',
      message: `cannot use redis at 127.0.0.1:${redis.port}: connect ECONNREFUSED 127.0.0.1:${redis.port}`,
    })
    await redis.restart()
    await untilAnswer()
  })

  t.test('news that were missed in a break are made up for', async t => {
    let told = 0
    t.teardown(
      store.subscribe(() => {
        told += 1
      }),
    )
    while (!String(await redis.send('PUBSUB', 'CHANNELS')).includes('tollgate:news')) await delay(5)
    await redis.kill()
    await redis.restart()
    while (told === 0) await delay(5)
    const before = told
    const other = await openStore(redis.address, systemClock)
    await other.changeAccount('acc_1', { plan: 'growth' })
    await other.close()
    while (told === before) await delay(5)
    t.equal(told, before + 1, 'and each of the next is heard once')
  })
})

t.test('a connection closes at once when redis goes while it owes answers', async t => {
  const ways: Readonly<Record<string, (socket: Socket) => unknown>> = {
    'in good order': socket => socket.end(),
    'with a reset': socket => socket.resetAndDestroy(),
  }
  for (const [way, end] of Object.entries(ways)) {
    const sockets: Socket[] = []
    const owing = createServer(socket => {
      sockets.push(socket)
      // As many answers as commands, to those of the beginning.
      socket.once('data', bytes => void socket.write('+OK\r\n'.repeat(String(bytes).match(/^\*/gm)?.length ?? 0)))
    }).listen(0, '127.0.0.1')
    await once(owing, 'listening')
    const { port } = owing.address() as AddressInfo // a TCP server has no other kind of address
    // A clock that stands still: nothing is waited for.
    const connection = new RedisConnection({ url: new Secret(`redis://127.0.0.1:${port}`) }, new TestClock())
    await connection.open()
    const asked = connection.sendCommand('PING').then(
      () => 'answered',
      ({ name }: Error) => name,
    )
    const closed = connection.close().then(() => 'closed')
    sockets.forEach(end)
    t.equal(await Promise.race([closed, delay(3_000)]), 'closed', way)
    t.equal(await asked, 'StoreError')
    owing.close()
  }
})

const delay = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))

const credits = fc.oneof(fc.nat(30), fc.nat(500), fc.constantFrom(0, 1, 1_000, 1_001, Number.MAX_SAFE_INTEGER))
/** Less than was granted, mostly: the answer to the ask before was lost. */
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
