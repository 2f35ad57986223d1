import { setImmediate } from 'node:timers/promises'
import t from '../support/tap.ts'
import { planCommand } from '../../src/cli/plan.ts'
import { estimateStoreLoad } from '../../src/cli/store-load.ts'
import type { PlannedLoad, StoreLoad } from '../../src/cli/store-load.ts'
import type { Account } from '../../src/plugin/call.ts'
import { generateApiKey, hashApiKey, keyHint } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { openUsage } from '../../src/services/usage/index.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { LedgerStore, Store } from '../../src/store/store.ts'
import type { UsageStore } from '../../src/store/usage-store.ts'
import { InMemoryLedgerStore, InMemoryUsageStore } from '../../src/testing/in-memory-store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { runCommand } from './run-command.ts'

const planned = (over: Partial<PlannedLoad>): PlannedLoad => ({
  accounts: 1_000,
  activeAccounts: 1_000,
  callsPerSecond: 500,
  gateways: 2,
  workers: 1,
  groups: 2,
  hoursPerDay: 8,
  retentionDays: 90,
  ...over,
})

const plan = async (...args: readonly string[]): Promise<string> => {
  const { code, out, err } = await runCommand(planCommand, args)
  return [...out, ...err, `exit code ${code}`].join('\n')
}

t.test('tollgate plan says what Redis must be able to do, and when one is too few', async t => {
  const small = await plan('--accounts', '2000', '--calls', '300/s')
  t.match(small, /exit code 0$/)
  t.match(small, /leases a second +\d+\n/)
  t.match(small, /^One Redis is enough\.$/m)
  const large = await plan('--accounts', '1e6', '--calls', '50000/s', '--gateways', '100')
  t.match(large, /^A cluster is needed\.$/m)
  const { nodes, connections } = JSON.parse(
    (await runCommand(planCommand, ['--accounts', '1e6', '--calls', '5e4', '--json'])).out.join('\n'),
  ) as StoreLoad & { readonly nodes: number }
  t.ok(nodes >= 2, `${nodes} nodes`)
  t.equal(connections, 30, 'two gateways with two workers and a primary each')
})

t.test('tollgate plan names what is missing, and what is no number', async t => {
  t.match(await plan('--calls', '5'), /missing --accounts\nexit code 64$/)
  t.match(await plan('--accounts', 'many', '--calls', '5'), /--accounts must be a number[^"]*, not "many"\nexit code 64$/)
  t.match(await plan('--accounts', '0', '--calls', '5'), /--accounts must be a number from 1 on/)
})

t.test('the requests that are planned are within a third of what ledger and usage counts ask of a store', async t => {
  const loads = [
    planned({}),
    planned({ activeAccounts: 100, callsPerSecond: 400 }),
    planned({ activeAccounts: 2_500, callsPerSecond: 800, groups: 1 }),
  ]
  for (const load of loads) {
    const expected = estimateStoreLoad(load)
    const { leases, rows } = await simulate(load)
    const name = `${load.activeAccounts} accounts, ${load.callsPerSecond} calls/s`
    t.ok(isWithinThird(leases, expected.leasesPerSecond), `${name}: ${leases} leases/s, planned ${expected.leasesPerSecond.toFixed(0)}`)
    t.ok(isWithinThird(rows, expected.usageRowsPerSecond), `${name}: ${rows} rows/s, planned ${expected.usageRowsPerSecond.toFixed(0)}`)
  }
})

t.test('the memory that is planned is within a third of what a Redis uses', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const store = await openRedisStore(redis.address, systemClock)
  t.teardown(() => store.close())
  const used = async () => Number(/^used_memory:(\d+)/m.exec(String(await redis.send('INFO', 'memory')))?.[1])
  const count = 2_000
  const load = planned({ accounts: count, activeAccounts: count, groups: 1, hoursPerDay: 1, retentionDays: 1 })
  const before = await used()
  await addAccounts(store, count)
  const { today: day } = await store.heartbeat('process0')
  for (const process of ['process0', 'process1']) {
    await forEach(count, i =>
      store.requestLease({
        ...{ account: accountId(i), day, process, seq: 1, counters: undefined },
        ...{ minCredits: 80, desiredCredits: 800, limit: 3_000_000, shareDivisor: 2 },
      }),
    )
  }
  const withAccounts = await used()
  const ledger = withAccounts - before
  const oneDay = { ...load, activeAccounts: count / 3 } // the estimate is that of three days
  t.ok(isWithinThird(ledger, estimateStoreLoad(oneDay).ledgerBytes), `${ledger} B, planned ${estimateStoreLoad(oneDay).ledgerBytes}`)

  const hour = Math.floor(systemClock.now() / hourMs)
  const group = { key: 'key_0123456789abcdef', network: 'ethereum-mainnet', method: 'eth_call', outcome: 'ok', forwarded: false }
  const latencies = Array.from({ length: 20 }, (_, i) => (i > 8 && i < 12 ? 3 : 0))
  for (let from = 0, seq = 1; from < count; from += 200, seq += 1) {
    const counts = Array.from({ length: 200 }, (_, i) => ({
      ...group,
      account: accountId(from + i),
      hour,
      calls: 9,
      credits: 720,
      latencies,
    }))
    await store.reportUsage({ process: 'process0', seq, counts, retentionHours: 24 })
  }
  const usage = (await used()) - withAccounts
  const expected = (3 * estimateStoreLoad(load).usageBytes) / (6 * 12 + 1 + 1) // a row of each period
  t.ok(isWithinThird(usage, expected), `${usage} B, planned ${expected}`)
})

const isWithinThird = (measured: number, expected: number): boolean => measured > expected / 1.5 && measured < expected * 1.5

const accountId = (i: number): string => `acc_${String(i).padStart(16, '0')}`

const forEach = async (count: number, run: (i: number) => Promise<unknown>): Promise<void> => {
  for (let from = 0; from < count; from += 200) await Promise.all(Array.from({ length: 200 }, (_, i) => run(from + i)))
}

const addAccounts = (store: Store, count: number): Promise<void> =>
  forEach(count, async i => {
    const [id, text, created] = [accountId(i), generateApiKey().reveal(), systemClock.now()]
    await store.addAccount({ id, name: `account-${i}`, plan: 'core', created })
    await store.addKey(hashApiKey(text), { id: `key_${String(i).padStart(16, '0')}`, account: id, created, hint: keyHint(text) })
  })

const tickMs = 100
const [warmUpSeconds, seconds] = [15, 15]

/** Requests a second in virtual time, of calls at random moments. */
const simulate = async ({ activeAccounts, callsPerSecond, gateways, groups }: PlannedLoad): Promise<{ leases: number; rows: number }> => {
  const clock = new TestClock()
  const random = new SeededRandom(1)
  const counted = { leases: 0, rows: 0 }
  const ledgerStore = new InMemoryLedgerStore(clock)
  const usageStore = new InMemoryUsageStore(clock)
  const countingLedger: LedgerStore = {
    // As Redis has it.
    horizonMs: 10_000,
    requestLease(request) {
      counted.leases += 1
      return ledgerStore.requestLease(request)
    },
    heartbeat: process => ledgerStore.heartbeat(process),
    deregister: process => ledgerStore.deregister(process),
  }
  const countingUsage: Pick<UsageStore, 'reportUsage'> = {
    reportUsage(report) {
      counted.rows += report.counts.length
      return usageStore.reportUsage(report)
    },
  }
  const opened = Array.from({ length: gateways }, () => ({
    ledger: openLedger(countingLedger, clock, { log: new TestLog() }),
    usage: openUsage(Object.assign(Object.create(usageStore) as UsageStore, countingUsage), clock, {
      log: new TestLog(),
      retentionMs: hourMs,
    }),
  }))
  for (const { ledger, usage } of opened) {
    await ledger.start()
    await usage.start()
  }
  // There is at least one of each.
  const processes = opened as [(typeof opened)[0]]
  const accounts = Array.from({ length: activeAccounts }, (_, i) => ({
    ...{ id: accountId(i), name: accountId(i), plan: { name: 'core', dailyCredits: 3_000_000, forwarding: false } },
  })) as [Account]
  for (let ms = 0; ms < (warmUpSeconds + seconds) * 1_000; ms += tickMs) {
    if (ms === warmUpSeconds * 1_000) counted.leases = counted.rows = 0
    for (let i = 0; i < (callsPerSecond * tickMs) / 1_000; i += 1) {
      const account = random.pick(accounts)
      const process = random.pick(processes)
      await process.ledger.charge(account, 80)
      const method = `method${random.integer(0, groups - 1)}`
      process.usage.count({
        ...{ account: account.id, key: `key of ${account.id}`, network: 'testnet', method, outcome: 'ok', forwarded: false },
        ...{ day: undefined, calls: 1, credits: 80, durationMs: 1 },
      })
    }
    clock.advance(tickMs)
    await setImmediate()
  }
  await Promise.all(processes.flatMap(({ ledger, usage }) => [ledger.stop(), usage.stop()]))
  return { leases: counted.leases / seconds, rows: counted.rows / seconds }
}
