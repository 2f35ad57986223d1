import { estimateStoreLoad, requestCosts } from '../../src/cli/store-load.ts'
import type { PlannedLoad } from '../../src/cli/store-load.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { TestClock } from '../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { ReportSkipped } from './measure.ts'
import type { BenchServers } from './servers.ts'
import { addAccountsWithKey, forEach, readRedisUse, runTraffic, useSince } from './store-traffic.ts'
import type { TrafficUse } from './store-traffic.ts'

const accountCounts = [1_000, 10_000, 100_000, 1_000_000] as const
const gatewayCounts = [1, 2, 4] as const
const callsPerSecond = 500
const groups = 3
const measuredKeyReads = 20_000

/** Of estimate / measured. */
const maxError = 1.5

interface Measured {
  readonly accounts: number
  readonly gateways: number
  readonly leases: TrafficUse
  readonly usage: TrafficUse
}

/** What gateways of one process ask of a Redis, by the number of gateways and accounts, beside what `tollgate plan` says of it. */
export const storeScale = async ({ settings }: BenchServers, reportSkipped: ReportSkipped): Promise<CaseResult> => {
  if (skipWithoutRedis !== false) {
    reportSkipped(`skipped: ${skipWithoutRedis}`)
    return { rows: [], figures: [] }
  }
  const redis = await startRedisServer('--appendonly', 'yes')
  const clock = new TestClock()
  const measured: Measured[] = []
  const [bytesPerAccount, keyReads]: [number[], TrafficUse[]] = [[], []]
  try {
    for (const accounts of accountCounts.filter(count => count <= settings.maxStoreAccounts)) {
      await redis.send('FLUSHALL')
      const store = await openRedisStore(redis.address, systemClock, clock)
      const empty = await readRedisUse(redis)
      const hashes = await addAccountsWithKey(store, accounts)
      bytesPerAccount.push(useSince(empty, await readRedisUse(redis)).memoryBytes / accounts)
      keyReads.push(await measureKeyReads(redis, store, hashes))
      await store.close()
      for (const gateways of gatewayCounts) {
        const traffic = { accounts, callsPerSecond, processes: gateways, groups }
        const leases = await runTraffic(redis, { ...traffic, parts: ['leases'] }, clock)
        const usage = await runTraffic(redis, { ...traffic, parts: ['usage'] }, clock)
        measured.push({ accounts, gateways, leases, usage })
      }
    }
  } finally {
    await redis.remove()
  }
  return {
    rows: [],
    table: [tableHead, ...measured.map(toTableRow)],
    figures: [
      ...errorFigures(measured),
      createFigure('memory of an account with a key', 'KB', spreadOf(bytesPerAccount.map(bytes => bytes / 1_024))),
      createFigure('CPU of a lease', 'µs', spreadOf(measured.map(({ leases }) => leases.cpuUs / leases.requests))),
      createFigure('CPU of a row of usage', 'µs', spreadOf(measured.map(({ usage }) => usage.cpuUs / usage.rows))),
      createFigure('CPU of a key that is read', 'µs', spreadOf(keyReads.map(({ cpuUs, rows }) => cpuUs / rows))),
      createFigure('network of a lease', 'KB', spreadOf(measured.map(({ leases }) => leases.bytes / leases.requests / 1_024))),
      createFigure('network of a row of usage', 'KB', spreadOf(measured.map(({ usage }) => usage.bytes / usage.rows / 1_024))),
      createFigure('network of a key that is read', 'KB', spreadOf(keyReads.map(({ bytes, rows }) => bytes / rows / 1_024))),
    ],
  }
}

const measureKeyReads = async (redis: RedisServer, store: Store, hashes: readonly string[]): Promise<TrafficUse> => {
  const before = await readRedisUse(redis)
  await forEach(measuredKeyReads, async i => store.findKey(hashes[(i * 7_919) % hashes.length] ?? ''))
  const { requests, bytes, cpuUs } = useSince(before, await readRedisUse(redis))
  return { requests, bytes, cpuUs, leases: 0, reports: 0, rows: measuredKeyReads }
}

const plannedOf = ({ accounts, gateways }: Measured): PlannedLoad => ({
  ...{ accounts, activeAccounts: accounts, callsPerSecond, gateways, gatewaysOfAccount: gateways, workers: 1, groups },
  ...{ changesPerHour: 0, hoursPerDay: 8, retentionDays: 90 },
})

const tableHead = [
  ...['accounts', 'gateways', 'leases/s', 'planned', 'rows/s', 'planned', 'scripts/s', 'planned'],
  ...['CPU ms/s', 'planned', 'kB/s', 'planned'],
]

/** Keys are read apart. */
const estimateOf = (measured: Measured) => {
  const {
    keyReadsPerSecond: reads,
    requestsPerSecond,
    bytesPerSecond,
    ledgerCores,
    usageCores,
    keyCores,
    ...others
  } = estimateStoreLoad(plannedOf(measured))
  const cores = ledgerCores + usageCores + keyCores - (reads * requestCosts.keyRead.cpuUs) / 1e6
  return { ...others, cores, requests: requestsPerSecond - reads, bytes: bytesPerSecond - reads * requestCosts.keyRead.bytes }
}

/** The heartbeats of both parts are among it, once each. */
const toTableRow = (each: Measured): readonly string[] => {
  const { accounts, gateways, leases, usage } = each
  const planned = estimateOf(each)
  const values = [
    ...[leases.leases, planned.leasesPerSecond, usage.rows, planned.usageRowsPerSecond],
    ...[leases.requests + usage.requests, planned.requests],
    ...[(leases.cpuUs + usage.cpuUs) / 1_000, 1_000 * planned.cores],
    ...[(leases.bytes + usage.bytes) / 1_024, planned.bytes / 1_024],
  ]
  return [accounts, gateways, ...values].map(value => Math.round(value).toLocaleString('en'))
}

const errorFigures = (measured: readonly Measured[]) => {
  const figure = (title: string, planned: (of: ReturnType<typeof estimateOf>) => number, is: (each: Measured) => number) => {
    const ratios = measured.map(each => planned(estimateOf(each)) / is(each))
    return createFigure(`planned / measured: ${title}`, '×', spreadOf(ratios.map(ratio => Math.max(ratio, 1 / ratio))), maxError)
  }
  return [
    figure(
      'leases',
      load => load.leasesPerSecond,
      ({ leases }) => leases.leases,
    ),
    figure(
      'rows of usage',
      load => load.usageRowsPerSecond,
      ({ usage }) => usage.rows,
    ),
    figure(
      'CPU of Redis',
      load => load.cores,
      ({ leases, usage }) => (leases.cpuUs + usage.cpuUs) / 1e6,
    ),
    figure(
      'network',
      load => load.bytes,
      ({ leases, usage }) => leases.bytes + usage.bytes,
    ),
  ]
}
