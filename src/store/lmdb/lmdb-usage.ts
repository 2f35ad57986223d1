import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import type { UsageCount, UsageStore } from '../store.ts'
import type { Transactions } from './transactions.ts'
import { hourMs } from '../../util/dates.ts'

/** Calls and credits by hour and group. The hour comes first, so that old rows lie together. */
export type UsageRowKey = [hour: number, account: string, key: string, network: string, method: string, outcome: string, forwarded: 0 | 1]
export type UsageRowValue = readonly [calls: number, credits: number]

/** The last report of a process. */
interface LastReport {
  readonly seq: number
  readonly hour: number
}

export const lmdbUsageStore = (root: RootDatabase, transactions: Transactions, clock: Clock): UsageStore => {
  const usageTable: Database<UsageRowValue, UsageRowKey> = root.openDB({ name: 'usage' })
  const lastReports: Database<LastReport, string> = root.openDB({ name: 'usage-reports' })
  return {
    reportUsage: ({ process, seq, counts, retentionHours }) =>
      transactions.run(() => {
        const lastReport = lastReports.get(process)
        const previousSeq = lastReport?.seq ?? 0
        if (seq <= previousSeq) return previousSeq
        const hour = Math.floor(clock.now() / hourMs)
        for (const count of counts) addCount(usageTable, count)
        dropOldCounts(usageTable, hour - retentionHours)
        if (lastReport?.hour !== hour) dropOldReports(lastReports, hour - retentionHours)
        lastReports.put(process, { seq, hour })
        return previousSeq
      }),
    usageCounts: (account, from, to) => {
      const found: UsageCount[] = []
      for (let hour = firstHour(usageTable, from); hour < to; hour = firstHour(usageTable, hour + 1)) {
        const range = usageTable.getRange({ start: [hour, account] as never, end: [hour, account, maxKeySuffix] as never })
        for (const { key, value } of range) found.push(toUsageCount(key, value))
      }
      return found
    },
  }
}

/** The first hour from this one on in which anybody called. */
const firstHour = (usageTable: Database<UsageRowValue, UsageRowKey>, from: number): number =>
  [...usageTable.getKeys({ start: [from] as never, limit: 1 })][0]?.[0] ?? Infinity

/** Above every id and name. */
const maxKeySuffix = '\uffff'

const addCount = (usageTable: Database<UsageRowValue, UsageRowKey>, { calls, credits, ...of }: UsageCount): void => {
  const row: UsageRowKey = [of.hour, of.account, of.key, of.network, of.method, of.outcome, of.forwarded ? 1 : 0]
  const [knownCalls, knownCredits] = usageTable.get(row) ?? [0, 0]
  usageTable.put(row, [knownCalls + calls, knownCredits + credits])
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

/** Rows dropped in one step, during which nobody else can write. */
const maxRowsPerDrop = 500

const dropOldCounts = (usageTable: Database<UsageRowValue, UsageRowKey>, before: number): void => {
  for (const row of [...usageTable.getKeys({ end: [before] as never, limit: maxRowsPerDrop })]) usageTable.remove(row)
}

/** A process that is older than all that is kept has nothing left to say twice. */
const dropOldReports = (lastReports: Database<LastReport, string>, before: number): void => {
  for (const { key, value } of [...lastReports.getRange()]) if (value.hour < before) lastReports.remove(key)
}
