import t from '../support/tap.ts'
import { planCommand } from '../../src/cli/plan.ts'
import { estimateStoreLoad, requestCosts } from '../../src/cli/store-load.ts'
import type { PlannedLoad, StoreLoad } from '../../src/cli/store-load.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { accountId, addAccountsWithKey, forEach, runTraffic } from '../bench/store-traffic.ts'
import { TestClock } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { runCommand } from './run-command.ts'

const planned = (over: Partial<PlannedLoad>): PlannedLoad => ({
  accounts: 1_000,
  activeAccounts: 1_000,
  callsPerSecond: 500,
  gateways: 2,
  workers: 1,
  gatewaysOfAccount: 2,
  groups: 2,
  changesPerHour: 0,
  hoursPerDay: 8,
  retentionDays: 90,
  ...over,
})

const plan = async (...args: readonly string[]): Promise<string> => {
  const { code, out, err } = await runCommand(planCommand, args)
  return [...out, ...err, `exit code ${code}`].join('\n')
}

t.test('tollgate plan says what Redis must be able to do, when one is too few, and what to turn', async t => {
  const small = await plan('--accounts', '200', '--calls', '300/s')
  t.match(small, /exit code 0$/)
  t.match(small, /leases a second +\d+\n/)
  t.match(small, /^One Redis is enough\.$/m)
  t.match(small, /calls that wait for a lease +\d+\.\d %\n/)
  const million = ['--accounts', '1e6', '--calls', '50000/s', '--gateways', '100'] as const
  const large = await plan(...million)
  t.match(large, /^A cluster is needed\.$/m)
  t.match(large, /^One node has all accounts and keys: it is too busy\.\n(.*\n)*A load balancer that hashes the API key/m)
  const json = async (...args: readonly string[]) =>
    JSON.parse((await runCommand(planCommand, [...million, ...args, '--json'])).out.join('\n')) as StoreLoad & { readonly shards: number }
  const [spread, hashed] = [await json(), await json('--spread', '1')]
  t.ok(spread.shards > hashed.shards && hashed.shards >= 2, `${spread.shards} and ${hashed.shards} shards`)
  t.ok(spread.keyCores > 1.5 * hashed.keyCores, `${spread.keyCores} and ${hashed.keyCores} cores`)
  t.ok(spread.leasesPerSecond > hashed.leasesPerSecond)
  t.equal(spread.connections, 1_500, 'a hundred gateways with two workers and a primary each')
})

t.test('tollgate plan names what is missing, what is no number, and what is out of range', async t => {
  t.match(await plan('--calls', '5'), /missing --accounts\nexit code 64$/)
  t.match(await plan('--accounts', '1000'), /missing --calls\nexit code 64$/)
  const whole = (range: string) => `must be a whole number from ${range}, such as`
  const anyCalls = 'must be a number from 0.001 to 1,000,000,000,000, such as 50000/s or 0.5/s,'
  for (const [option, value, message] of [
    ['accounts', 'many', whole('1 to 1,000,000,000,000')],
    ['accounts', '0', whole('1 to 1,000,000,000,000')],
    ['accounts', '10.5', whole('1 to 1,000,000,000,000')],
    ['accounts', '1k', whole('1 to 1,000,000,000,000')],
    ['accounts', '0x10', whole('1 to 1,000,000,000,000')],
    ['calls', '0/s', anyCalls],
    ['calls', '300/min', anyCalls],
    ['gateways', '2.5', whole('1 to 100,000')],
    ['workers', 'auto', whole('1 to 100,000')],
    ['active', '1001', whole('1 to 1,000')],
    ['spread', '3', whole('1 to 2')],
    ['hours', '30', 'must be a number from 1 to 24, such as 8,'],
    ['retention', '2w', whole('1 to 100,000')],
  ] as const) {
    const given = { accounts: '1000', calls: '5/s', [option]: value }
    const text = await plan(...Object.entries(given).flatMap(([name, each]) => [`--${name}`, each]))
    t.match(text, new RegExp(`--${option} ${message}.* not "${value}"\nexit code 64$`), text)
  }
})

t.test('tollgate plan takes decimals of calls, days with their unit, no changes, and any size', async t => {
  t.match(await plan('--accounts', '10', '--calls', '0.5/s', '--retention', '30d', '--changes', '0'), /after 30 days\n(.*\n)*exit code 0$/)
  t.match(
    await plan('--accounts', '1e9', '--calls', '1e6/s', '--gateways', '1000'),
    /CPU of Redis for leases +[\d,]+\.\d cores\n(.*\n)*exit code 0$/,
  )
})

t.test('what is planned is within a third of what ledger and usage counts ask of a Redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const clock = new TestClock()
  const loads = [
    { ...planned({ activeAccounts: 600, callsPerSecond: 100 }), warmUpSeconds: 75 },
    { ...planned({ activeAccounts: 100, callsPerSecond: 200, groups: 1 }), warmUpSeconds: 15 },
  ]
  const cpu: { readonly lease: number; readonly row: number }[] = []
  for (const load of loads) {
    await redis.send('FLUSHALL')
    const expected = estimateStoreLoad(load)
    const { activeAccounts, callsPerSecond, gateways, groups, warmUpSeconds } = load
    const traffic = { accounts: activeAccounts, callsPerSecond, processes: gateways, groups, warmUpSeconds, measuredSeconds: 20 }
    const leases = await runTraffic(redis, { ...traffic, parts: ['leases'] }, clock)
    const usage = await runTraffic(redis, { ...traffic, parts: ['usage'] }, clock)
    cpu.push({ lease: leases.cpuUs / leases.leases, row: usage.cpuUs / usage.rows })
    const name = `${activeAccounts} accounts, ${callsPerSecond} calls/s:`
    const hold = (what: string, is: number, estimate: number) =>
      t.ok(isWithinThird(is, estimate), `${name} ${is.toFixed(0)} ${what}, planned ${estimate.toFixed(0)}`)
    hold('leases/s', leases.leases, expected.leasesPerSecond)
    hold('rows/s', usage.rows, expected.usageRowsPerSecond)
    hold('scripts/s', leases.requests + usage.requests, expected.requestsPerSecond)
    hold('bytes/s', leases.bytes + usage.bytes, expected.bytesPerSecond)
  }
  // The CPU of this machine is another one; how much more a row costs than a lease is the same on each.
  const ratio = median(cpu.map(({ lease, row }) => row / lease))
  const { lease, usageRow, usageCommit } = requestCosts
  t.ok(ratio > usageRow.cpuUs / lease.cpuUs / 2 && ratio < (2 * (usageRow.cpuUs + usageCommit.cpuUs)) / lease.cpuUs, `${ratio}`)
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
  await addAccountsWithKey(store, count)
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

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
