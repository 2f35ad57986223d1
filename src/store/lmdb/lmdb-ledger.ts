import { kill, pid } from 'node:process'
import type { Database, Key } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import { applyLeaseRequest, creditsByDay, emptyLeaseRecord, sumDay, totalsByHour } from '../lease-accounting.ts'
import type { CountedCalls, DayRecords, LeaseRecord, ReportedUse } from '../lease-accounting.ts'
import { StoreClock } from '../store-clock.ts'
import type { StoreTime } from '../store-clock.ts'
import { ledgerRetentionDays, processTimeoutMs } from '../store.ts'
import type { BalanceStore, ClockRepair, DayBalance, LedgerStore, StoreDay } from '../store.ts'
import type { UsageCount, UsageStore } from '../usage-store.ts'
import { maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables, ProcessHeartbeat, UsageRowKey, UsageRowValue } from './lmdb-tables.ts'
import type { Transactions } from './transactions.ts'
import { dayMs, hourMs, hoursPerDay } from '../../util/dates.ts'

export const lmdbLedgerStore = (
  tables: LmdbTables,
  transactions: Transactions,
  clock: Clock,
  { advanceDay, currentDay }: LmdbDayClock,
): LedgerStore & BalanceStore & ClockRepair => {
  const { meta, leased, leaseRecords, heartbeats } = tables
  return {
    horizonMs: 1_000,
    requestLease: request =>
      transactions.run(() => {
        const { today, endsInMs } = advanceDay()
        const { day, account, process, limit } = request
        const record = leaseRecords.get([day, account, process]) ?? emptyLeaseRecord
        const result = applyLeaseRequest(leased.get([day, account]) ?? 0, record, request, today)
        if (result.record !== record) {
          leased.put([day, account], result.leased)
          leaseRecords.put([day, account, process], result.record)
        }
        return { today, endsInMs, counters: result.record, remaining: limit - result.leased }
      }),
    heartbeat: process =>
      transactions.run(() => {
        const { now, ignoredJumpMs, ...storeDay } = advanceDay()
        dropOldRows(tables, clock.now())
        meta.put('time', now)
        heartbeats.put(process, { pid, seen: clock.now() })
        return { ...storeDay, ignoredJumpMs, liveProcesses: heartbeats.getKeysCount() }
      }),
    deregister: process =>
      transactions.run(() => {
        heartbeats.remove(process)
      }),
    dayBalance(account, day) {
      const { today, endsInMs } = currentDay()
      return { today, endsInMs, ...readDayBalance(tables, account, day ?? today, clock.now()) }
    },
    dayTotals(account, day) {
      const { today, endsInMs } = currentDay()
      const balance = readDayBalance(tables, account, day ?? today, clock.now())
      const counts = readCounts(tables, account, balance.day * hoursPerDay, (balance.day + 1) * hoursPerDay)
      return { today, endsInMs, ...balance, counted: counts.reduce((sum, { credits }) => sum + credits, 0) }
    },
    resetDay: () => transactions.run(() => resetDay(tables, currentDay().today, clock.now())),
  }
}

/** As ClockRepair.resetDay(), inside a transaction. */
const resetDay = ({ meta, leased, leaseRecords, reportedUse, heartbeats }: LmdbTables, from: number, now: number) => {
  const to = Math.floor(now / dayMs)
  const later = { start: [to + 1] as never }
  for (const key of [...leased.getKeys(later)]) leased.remove(key)
  for (const table of [leaseRecords, reportedUse]) for (const key of [...table.getKeys(later)]) table.remove(key)
  for (const key of [...heartbeats.getKeys()]) heartbeats.remove(key)
  meta.put('day', to)
  meta.put('time', now)
  return { from, to }
}

interface LmdbDayClock {
  currentDay(): StoreDay & StoreTime
  /** currentDay(), recorded. */
  advanceDay(): StoreDay & StoreTime
}

/** The day of the store's time, except that it never goes back: credits that were granted on a day stay granted. */
export const openDayClock = ({ meta, heartbeats }: LmdbTables, clock: Clock): LmdbDayClock => {
  const storeClock = new StoreClock(clock)
  const isInUse = () => [...heartbeats.getRange()].some(({ value }) => isProcessAlive(value, clock.now()))
  const currentDay = () => {
    const latestDay = meta.get('day')
    const storeTime = storeClock.read(clock.now(), meta.get('time') ?? (latestDay && latestDay * dayMs), isInUse)
    const today = Math.max(Math.floor(storeTime.now / dayMs), latestDay ?? 0)
    return { ...storeTime, today, endsInMs: (today + 1) * dayMs - storeTime.now }
  }
  const advanceDay = () => {
    const storeDay = currentDay()
    if (meta.get('day') !== storeDay.today) meta.put('day', storeDay.today)
    return storeDay
  }
  return { currentDay, advanceDay }
}

/** Rows are dropped in one transaction, during which other processes cannot write. */
const maxRowsPerSweep = 500

const dropOldRows = ({ leased, leaseRecords, reportedUse, heartbeats }: LmdbTables, now: number): void => {
  const old = { end: [oldestRetainedDay(leased)], limit: maxRowsPerSweep }
  for (const key of [...leased.getKeys(old)]) leased.remove(key)
  for (const table of [leaseRecords, reportedUse]) for (const key of [...table.getKeys(old)]) table.remove(key)
  for (const { key, value } of [...heartbeats.getRange()]) {
    if (!isProcessAlive(value, now)) heartbeats.remove(key)
  }
}

/** The latest days with rows are retained, by their number: a clock that is wrong for a while drops no balance of a day that is repaired. */
const oldestRetainedDay = (leased: LmdbTables['leased']): number => {
  let day = Infinity
  for (let i = 0; i < ledgerRetentionDays; i += 1) {
    // Reversed, the range begins below all keys of the day.
    const [latest] = leased.getKeys({ ...(day < Infinity && { start: [day] as never }), reverse: true, limit: 1 })
    if (latest === undefined) return -Infinity
    day = latest[0]
  }
  return day
}

/** After a clock jump all processes count as dead until their next heartbeat; they lose no credits by that. */
export const isProcessAlive = (heartbeat: ProcessHeartbeat | undefined, now: number): boolean => {
  if (heartbeat === undefined || Math.abs(now - heartbeat.seen) > processTimeoutMs) return false
  try {
    return kill(heartbeat.pid, 0)
  } catch (error) {
    // A process of another user exists, though it cannot be signaled.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The lease records of one account's day. */
const accountDayRange = (day: number, account: string) => ({ start: [day, account], end: [day, account, maxKeySuffix] })

/** LMDB reads one snapshot within one turn of the event loop. */
export const readDayRecords = ({ leaseRecords, reportedUse, lastReports }: LmdbTables, account: string, day: number): DayRecords => {
  const leases = new Map<string, LeaseRecord>()
  const reported = new Map<string, ReportedUse>()
  for (const { key, value } of leaseRecords.getRange(accountDayRange(day, account))) {
    const [, , process] = key
    leases.set(process, value)
    const lastReport = lastReports.get(process)
    if (lastReport === undefined) continue
    reported.set(process, { credits: reportedUse.get(key) ?? 0, isFinal: lastReport.isFinal === true })
  }
  return { leases, reported }
}

const readDayBalance = (tables: LmdbTables, account: string, day: number, now: number): Omit<DayBalance, keyof StoreDay> => ({
  day,
  leased: tables.leased.get([day, account]) ?? 0,
  ...sumDay(readDayRecords(tables, account, day), process => isProcessAlive(tables.heartbeats.get(process), now)),
})

export const lmdbUsageStore = (tables: LmdbTables, transactions: Transactions, { currentDay }: LmdbDayClock): UsageStore => ({
  reportUsage: ({ process, seq, counts, retentionHours, isFinal = false }) =>
    transactions.run(() => {
      const { usage, hourTotals, lastReports } = tables
      const lastReport = lastReports.get(process)
      const previousSeq = lastReport?.seq ?? 0
      if (seq <= previousSeq) return previousSeq
      const hour = Math.floor(currentDay().now / hourMs)
      for (const count of counts) addCount(usage, count)
      for (const total of totalsByHour(counts)) addHourTotal(hourTotals, total)
      addReportedUse(tables, process, counts)
      dropOldCounts(usage, hour - retentionHours)
      dropOldCounts(hourTotals, hour - retentionHours)
      if (lastReport?.hour !== hour) dropOldReports(lastReports, hour - retentionHours)
      lastReports.put(process, { seq, hour, ...(isFinal && { isFinal }) })
      return previousSeq
    }),
  usageCounts: (account, from, to) => readCounts(tables, account, from, to),
  hourTotals: (account, from, to) =>
    Array.from({ length: to - from }, (_, i) => from + i).flatMap(hour => {
      const total = tables.hourTotals.get([hour, account])
      return total === undefined ? [] : [{ hour, calls: total[0], credits: total[1] }]
    }),
})

const readCounts = ({ usage }: LmdbTables, account: string, from: number, to: number): readonly UsageCount[] => {
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

const addHourTotal = (hourTotals: LmdbTables['hourTotals'], { hour, account, calls, credits }: CountedCalls): void => {
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
