import type { Database, Key } from 'lmdb'
import { hourMs } from '../../util/dates.ts'
import type { StoreTime } from '../store-clock.ts'
import { creditsByDay, totalsByHour } from '../usage-store.ts'
import type { AccountHourTotal, UsageCount, UsageStore } from '../usage-store.ts'
import { maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables, UsageRowKey, UsageRowValue } from './lmdb-tables.ts'
import type { Transactions } from './transactions.ts'

export const lmdbUsageStore = (
  tables: LmdbTables,
  transactions: Transactions,
  { currentDay }: { currentDay(): Pick<StoreTime, 'now'> },
): UsageStore => ({
  reportUsage: ({ process, seq, counts, retentionHours, isFinal = false }) =>
    transactions.run(() => {
      const { usage, hourTotals, lastReports } = tables
      const lastReport = lastReports.get(process)
      const previousSeq = lastReport?.seq ?? 0
      if (seq === previousSeq) return lastReport?.previousSeq ?? previousSeq
      if (seq < previousSeq) return previousSeq
      const hour = Math.floor(currentDay().now / hourMs)
      for (const count of counts) addCount(usage, count)
      for (const total of totalsByHour(counts)) addHourTotal(hourTotals, total)
      addReportedUse(tables, process, counts)
      dropOldCounts(usage, hour - retentionHours)
      dropOldCounts(hourTotals, hour - retentionHours)
      if (lastReport?.hour !== hour) dropOldReports(lastReports, hour - retentionHours)
      lastReports.put(process, { seq, previousSeq, hour, ...(isFinal && { isFinal }) })
      return previousSeq
    }),
  usageCounts: (account, from, to) => readCounts(tables, account, from, to),
  hourTotals: (account, from, to) =>
    Array.from({ length: to - from }, (_, i) => from + i).flatMap(hour => {
      const total = tables.hourTotals.get([hour, account])
      return total === undefined ? [] : [{ hour, calls: total[0], credits: total[1] }]
    }),
})

/** One account's counts from hour `from` up to, not including, hour `to`. */
export const readCounts = ({ usage }: LmdbTables, account: string, from: number, to: number): readonly UsageCount[] => {
  const found: UsageCount[] = []
  for (let hour = firstHour(usage, from); hour < to; hour = firstHour(usage, hour + 1)) {
    const range = usage.getRange({ start: [hour, account] as never, end: [hour, account, maxKeySuffix] as never })
    for (const { key, value } of range) found.push(toUsageCount(key, value))
  }
  return found
}

/** The first hour with counts, from this hour on. */
const firstHour = (usage: LmdbTables['usage'], from: number): number =>
  [...usage.getKeys({ start: [from] as never, limit: 1 })][0]?.[0] ?? Infinity

const addCount = (usage: LmdbTables['usage'], { calls, credits, ...of }: UsageCount): void => {
  const row: UsageRowKey = [of.hour, of.account, of.key, of.network, of.method, of.outcome, of.forwarded ? 1 : 0]
  const [knownCalls, knownCredits] = usage.get(row) ?? [0, 0]
  usage.put(row, [knownCalls + calls, knownCredits + credits])
}

const addHourTotal = (hourTotals: LmdbTables['hourTotals'], { hour, account, calls, credits }: AccountHourTotal): void => {
  const [knownCalls, knownCredits] = hourTotals.get([hour, account]) ?? [0, 0]
  hourTotals.put([hour, account], [knownCalls + calls, knownCredits + credits])
}

const addReportedUse = ({ reportedUse }: LmdbTables, process: string, counts: readonly UsageCount[]): void => {
  for (const { account, day, credits } of creditsByDay(counts)) {
    reportedUse.put([day, account, process], (reportedUse.get([day, account, process]) ?? 0) + credits)
  }
}

export const toUsageCount = (
  [hour, account, key, network, method, outcome, forwarded]: UsageRowKey,
  [calls, credits]: UsageRowValue,
): UsageCount => ({
  hour,
  account,
  key,
  network,
  method,
  outcome,
  forwarded: forwarded === 1,
  calls,
  credits,
})

/** Rows are dropped in one transaction, during which other processes cannot write. */
const maxRowsPerDrop = 500

const dropOldCounts = <RowKey extends Key>(table: Database<UsageRowValue, RowKey>, before: number): void => {
  for (const row of [...table.getKeys({ end: [before] as never, limit: maxRowsPerDrop })]) table.remove(row)
}

/** A report that is older than the retention cannot be repeated any more. */
const dropOldReports = (lastReports: LmdbTables['lastReports'], before: number): void => {
  for (const { key, value } of [...lastReports.getRange()]) if (value.hour < before) lastReports.remove(key)
}
