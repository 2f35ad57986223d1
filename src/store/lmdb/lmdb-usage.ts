import type { Clock } from '../../services/clock.ts'
import type { UsageCount, UsageStore } from '../store.ts'
import { maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables, UsageRowKey, UsageRowValue } from './lmdb-tables.ts'
import type { Transactions } from './transactions.ts'
import { hourMs } from '../../util/dates.ts'

export const lmdbUsageStore = ({ usage, lastReports }: LmdbTables, transactions: Transactions, clock: Clock): UsageStore => ({
  reportUsage: ({ process, seq, counts, retentionHours }) =>
    transactions.run(() => {
      const lastReport = lastReports.get(process)
      const previousSeq = lastReport?.seq ?? 0
      if (seq <= previousSeq) return previousSeq
      const hour = Math.floor(clock.now() / hourMs)
      for (const count of counts) addCount(usage, count)
      dropOldCounts(usage, hour - retentionHours)
      if (lastReport?.hour !== hour) dropOldReports(lastReports, hour - retentionHours)
      lastReports.put(process, { seq, hour })
      return previousSeq
    }),
  usageCounts: (account, from, to) => {
    const found: UsageCount[] = []
    for (let hour = firstHour(usage, from); hour < to; hour = firstHour(usage, hour + 1)) {
      const range = usage.getRange({ start: [hour, account] as never, end: [hour, account, maxKeySuffix] as never })
      for (const { key, value } of range) found.push(toUsageCount(key, value))
    }
    return found
  },
})

/** The first hour with counts, from this hour on. */
const firstHour = (usage: LmdbTables['usage'], from: number): number =>
  [...usage.getKeys({ start: [from] as never, limit: 1 })][0]?.[0] ?? Infinity

const addCount = (usage: LmdbTables['usage'], { calls, credits, ...of }: UsageCount): void => {
  const row: UsageRowKey = [of.hour, of.account, of.key, of.network, of.method, of.outcome, of.forwarded ? 1 : 0]
  const [knownCalls, knownCredits] = usage.get(row) ?? [0, 0]
  usage.put(row, [knownCalls + calls, knownCredits + credits])
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

const dropOldCounts = (usage: LmdbTables['usage'], before: number): void => {
  for (const row of [...usage.getKeys({ end: [before] as never, limit: maxRowsPerDrop })]) usage.remove(row)
}

/** A report that is older than the retention cannot be repeated any more. */
const dropOldReports = (lastReports: LmdbTables['lastReports'], before: number): void => {
  for (const { key, value } of [...lastReports.getRange()]) if (value.hour < before) lastReports.remove(key)
}
