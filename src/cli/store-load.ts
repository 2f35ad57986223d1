// What gateways ask of their Redis, as a model: how often processes report follows from the figures of the ledger and of the usage reporter; what a
// request costs is measured by `npm run bench -- --only scale`, with `appendonly yes`. docs/scale.md has both side by side.

import { maxCachedKeys } from '../services/accounts/key-lookups.ts'
import { leaseIdleTimeoutMs, smallLeaseIdleTimeoutMs } from '../services/ledger/lease-renewal.ts'
import { checksPerSecond, maxCheckIntervalMs, minCheckIntervalMs } from '../services/ledger/renewal-schedule.ts'
import { maxCountsPerReport, maxFlushes } from '../services/usage/usage-reporter.ts'
import { usageTags } from '../store/redis/redis-layout.ts'
import { changeGroupCount, ledgerRetentionDays } from '../store/store.ts'
import { fiveMinuteRetentionHours, fiveMinutesPerHour, hourRetentionDays } from '../store/usage-store.ts'

/** An installation that is planned. */
export interface PlannedLoad {
  readonly accounts: number
  /** Those that the calls come from, each as often as the others. */
  readonly activeAccounts: number
  readonly callsPerSecond: number
  readonly gateways: number
  /** Processes of a gateway that serve calls. */
  readonly workers: number
  /** Gateways that one account calls. */
  readonly gatewaysOfAccount: number
  /** Pairs of key, network, method and outcome that an active account has. */
  readonly groups: number
  /** Changes of accounts and keys in an hour. */
  readonly changesPerHour: number
  /** Hours of a day in which an account calls. */
  readonly hoursPerDay: number
  /** Days for which usage is kept. */
  readonly retentionDays: number
}

/** What that asks of Redis. */
export interface StoreLoad {
  readonly leasesPerSecond: number
  /** Of 1: calls that wait for a lease, a round trip. */
  readonly waitingCalls: number
  readonly usageRowsPerSecond: number
  /** Scripts that write usage: a report has one for each tag that it concerns. */
  readonly usageCommitsPerSecond: number
  /** Keys that are read from the store because a process does not have them, or because accounts of their group have changed. */
  readonly keyReadsPerSecond: number
  readonly requestsPerSecond: number
  /** Cores of all nodes together, which share leases and usage by account. */
  readonly ledgerCores: number
  readonly usageCores: number
  /** Cores of the one node that has accounts and keys. */
  readonly keyCores: number
  readonly bytesPerSecond: number
  readonly connections: number
  readonly ledgerBytes: number
  readonly usageBytes: number
}

/** CPU time of Redis in µs, and bytes to it and from it. */
export const requestCosts = {
  lease: { cpuUs: 22, bytes: 520 },
  usageRow: { cpuUs: 60, bytes: 650 },
  usageCommit: { cpuUs: 60, bytes: 1_000 },
  keyRead: { cpuUs: 15, bytes: 720 },
  /** Of each process, in a second: the heartbeat, and two checks whether accounts or keys have changed. */
  process: { cpuUs: 90, bytes: 2_000 },
} as const

/** Memory of Redis. */
const bytesOf = {
  accountWithKey: 820,
  /** Of a day on which the account calls, and more for each process that it calls. */
  day: 290,
  dayAndProcess: 32,
  /** One group in a period: it has a row for five minutes, one for the hour and one for the day. */
  usageRow: 500,
} as const

/** A call needs one for the store, one for its changes, two for heights, and one for rate limits. */
const connectionsPerProcess = 5
const requestsPerProcess = 4

const secondsPerHour = 3_600
const secondsPerUs = 1e-6

export const estimateStoreLoad = (load: PlannedLoad): StoreLoad => {
  const { accounts, activeAccounts, callsPerSecond, gateways, workers, hoursPerDay, retentionDays } = load
  const processes = gateways * workers
  const processesOfAccount = Math.min(gateways, load.gatewaysOfAccount) * workers
  const accountsOfProcess = (activeAccounts * processesOfAccount) / processes
  /** Calls a second of one account in one process. */
  const rate = callsPerSecond / (activeAccounts * processesOfAccount)
  const leases = estimateLeases(accountsOfProcess, rate)
  const usage = estimateUsage(accountsOfProcess, rate, load.groups)
  const keyReads = estimateKeyReads(accountsOfProcess, rate, load.changesPerHour)

  // The primary of a gateway with workers is a process of the store too.
  const storeProcesses = processes + (workers > 1 ? gateways : 0)
  const rates = {
    lease: processes * leases.perSecond,
    usageRow: processes * usage.rows,
    usageCommit: processes * usage.commits,
    keyRead: processes * keyReads,
    process: storeProcesses,
  }
  const coresOf = (...names: readonly (keyof typeof rates)[]): number =>
    names.reduce((sum, name) => sum + rates[name] * requestCosts[name].cpuUs * secondsPerUs, 0)
  const daysWithHours = Math.min(retentionDays, hourRetentionDays + 1)
  const rowsPerGroup = fiveMinuteRetentionHours * fiveMinutesPerHour + daysWithHours * hoursPerDay + retentionDays
  return {
    leasesPerSecond: rates.lease,
    waitingCalls: leases.waitingCalls,
    usageRowsPerSecond: rates.usageRow,
    usageCommitsPerSecond: rates.usageCommit,
    keyReadsPerSecond: rates.keyRead,
    requestsPerSecond: rates.lease + rates.usageCommit + rates.keyRead + requestsPerProcess * rates.process,
    ledgerCores: coresOf('lease'),
    usageCores: coresOf('usageRow', 'usageCommit'),
    keyCores: coresOf('keyRead', 'process'),
    bytesPerSecond: Object.entries(rates).reduce((sum, [name, each]) => sum + each * requestCosts[name as keyof typeof rates].bytes, 0), // its own keys
    connections: storeProcesses * connectionsPerProcess,
    ledgerBytes:
      accounts * bytesOf.accountWithKey + activeAccounts * ledgerRetentionDays * (bytesOf.day + processesOfAccount * bytesOf.dayAndProcess),
    usageBytes: activeAccounts * load.groups * rowsPerGroup * bytesOf.usageRow,
  }
}

/**
 * Of one process whose accounts call at random moments. An account that calls after a pause asks for a lease, for which that call waits, and reports
 * its use at each check since which it has called; when it has been idle for long, it gives the lease back.
 */
const estimateLeases = (accounts: number, rate: number) => {
  const activeOfFew = accounts * calledWithin(rate, (leaseIdleTimeoutMs + minCheckIntervalMs) / 1_000)
  const idle = (activeOfFew > checksPerSecond ? smallLeaseIdleTimeoutMs : leaseIdleTimeoutMs) / 1_000
  const active = accounts * calledWithin(rate, idle)
  const checkSeconds = Math.min(maxCheckIntervalMs / 1_000, Math.max(minCheckIntervalMs / 1_000, active / checksPerSecond))
  const waitingCalls = 1 - calledWithin(rate, idle + checkSeconds / 2)
  return { perSecond: accounts * (calledWithin(rate, checkSeconds) / checkSeconds + 2 * rate * waitingCalls), waitingCalls }
}

/** Of one process. All rows of a key are reported together, the keys that have waited for longest first. */
const estimateUsage = (accounts: number, rate: number, groups: number) => {
  const rowsEachSecond = accounts * groups * calledWithin(rate / groups, 1)
  const groupsOf = (calls: number): number => groups * (1 - (1 - 1 / groups) ** calls)
  const maxReports = maxFlushes + 1
  const rowsOfMany = (accounts * groupsOf(1 + rate * maxReports)) / (maxReports + 1 / rate)
  const rows = Math.min(rowsEachSecond, Math.max(maxCountsPerReport, rowsOfMany))
  const reports = Math.max(1, Math.ceil(rows / maxCountsPerReport))
  const rowsOfAccount = Math.max(
    1,
    rows === rowsEachSecond ? rowsEachSecond / (accounts * calledWithin(rate, 1)) : groupsOf(1 + rate * maxReports),
  )
  const accountsOfReport = rows / reports / rowsOfAccount
  return { rows, commits: reports * usageTags.length * (1 - (1 - 1 / usageTags.length) ** accountsOfReport) }
}

/** Of one process. After a change of an account or a key, each key of its group of accounts is read again with its next call. */
const estimateKeyReads = (accounts: number, rate: number, changesPerHour: number): number => {
  const changesPerSecond = changesPerHour / secondsPerHour / changeGroupCount
  const afterChanges = changesPerSecond === 0 ? 0 : accounts * calledWithin(rate, 1 / changesPerSecond) * changesPerSecond
  const notCached = accounts * rate * Math.max(0, 1 - maxCachedKeys / accounts)
  return Math.min(accounts * rate, Math.max(afterChanges, notCached))
}

/** How likely something that happens so often a second happens within so many seconds. */
const calledWithin = (rate: number, seconds: number): number => 1 - Math.exp(-rate * seconds)
