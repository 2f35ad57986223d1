// What gateways ask of their Redis, as a model: how often processes report is the ledger's and the usage reporter's; what a request costs was
// measured with Redis 7.0 on a core of a shared machine, with 10,000 accounts and `appendonly yes`. docs/scale.md says how far off it is.

import { fiveMinuteRetentionHours, hourRetentionDays } from '../store/usage-store.ts'

/** An installation that is planned. */
export interface PlannedLoad {
  readonly accounts: number
  /** Of them those that call within ten seconds; each as often as the others. */
  readonly activeAccounts: number
  readonly callsPerSecond: number
  readonly gateways: number
  /** Processes of a gateway that serve calls. */
  readonly workers: number
  /** Pairs of key, network, method and outcome that an active account has. */
  readonly groups: number
  /** Hours of a day in which an account calls. */
  readonly hoursPerDay: number
  /** Days for which usage is kept. */
  readonly retentionDays: number
}

/** What that asks of Redis. */
export interface StoreLoad {
  readonly leasesPerSecond: number
  readonly usageRowsPerSecond: number
  /** Cores of all nodes together, which share the accounts. */
  readonly ledgerCores: number
  readonly usageCores: number
  readonly bytesPerSecond: number
  readonly connections: number
  readonly ledgerBytes: number
  readonly usageBytes: number
}

/** CPU time of Redis in µs, and bytes to it and from it. */
const costs = {
  lease: { cpuUs: 20, bytes: 600 },
  usageRow: { cpuUs: 60, bytes: 900 },
  /** Once a second of each process. */
  heartbeat: { cpuUs: 27, bytes: 900 },
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

/** Days of an account that the ledger keeps. */
const ledgerDays = 3
const fiveMinutesPerHour = 12

/** A process checks so many active accounts a second, and each within a second at the earliest and ten at the latest. */
const [checksPerSecond, minCheckSeconds, maxCheckSeconds] = [200, 1, 10]
/** An account whose calls pause gives its lease back, and asks again: with that, simulated accounts send so many requests for each check. */
const requestsPerCheck = 1.5
/** Usage is reported each second in parts of so many rows at least, and each row within so many reports. */
const [rowsPerReport, maxReports] = [200, 10]
/** A call needs one for the store, one each for its changes, two for heights, and one for rate limits. */
const connectionsPerProcess = 5

const secondsPerUs = 1e-6

export const estimateStoreLoad = (load: PlannedLoad): StoreLoad => {
  const { accounts, activeAccounts, callsPerSecond, gateways, workers, groups, hoursPerDay, retentionDays } = load
  const processes = gateways * workers
  const callsOfProcess = callsPerSecond / processes
  const accountsWithin = (seconds: number): number => distinctOf(activeAccounts, callsOfProcess * seconds)
  const groupsWithin = (seconds: number): number => distinctOf(activeAccounts * groups, callsOfProcess * seconds)

  const checkSeconds = Math.min(maxCheckSeconds, Math.max(minCheckSeconds, accountsWithin(maxCheckSeconds) / checksPerSecond))
  const leasesPerSecond = (requestsPerCheck * processes * accountsWithin(checkSeconds)) / checkSeconds
  const rowsOfProcess = Math.min(groupsWithin(1), Math.max(rowsPerReport, groupsWithin(maxReports) / maxReports))
  const usageRowsPerSecond = processes * rowsOfProcess

  // The primary of a gateway with workers is a process of the store too.
  const storeProcesses = processes + (workers > 1 ? gateways : 0)
  const daysWithHours = Math.min(retentionDays, hourRetentionDays + 1)
  const rowsPerGroup = fiveMinuteRetentionHours * fiveMinutesPerHour + daysWithHours * hoursPerDay + retentionDays
  return {
    leasesPerSecond,
    usageRowsPerSecond,
    ledgerCores: leasesPerSecond * costs.lease.cpuUs * secondsPerUs,
    usageCores: (usageRowsPerSecond * costs.usageRow.cpuUs + storeProcesses * costs.heartbeat.cpuUs) * secondsPerUs,
    bytesPerSecond:
      leasesPerSecond * costs.lease.bytes + usageRowsPerSecond * costs.usageRow.bytes + storeProcesses * costs.heartbeat.bytes,
    connections: storeProcesses * connectionsPerProcess,
    ledgerBytes: accounts * bytesOf.accountWithKey + activeAccounts * ledgerDays * (bytesOf.day + processes * bytesOf.dayAndProcess),
    usageBytes: activeAccounts * groups * rowsPerGroup * bytesOf.usageRow,
  }
}

/** How many of so many equally likely things so many draws meet, on average. */
const distinctOf = (things: number, draws: number): number => (things === 0 ? 0 : things * (1 - Math.exp(-draws / things)))
