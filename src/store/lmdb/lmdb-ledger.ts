import { kill, pid } from 'node:process'
import type { Clock } from '../../services/clock.ts'
import { dayMs, hoursPerDay } from '../../util/dates.ts'
import { applyLeaseRequest, emptyLeaseRecord, sumDay } from '../lease-accounting.ts'
import type { DayRecords, LeaseRecord, ReportedUse } from '../lease-accounting.ts'
import { ledgerRetentionDays, processTimeoutMs } from '../store.ts'
import type { BalanceStore, ClockRepair, DayBalance, LedgerStore, StoreDay } from '../store.ts'
import { StoreClock } from '../store-clock.ts'
import type { StoreTime } from '../store-clock.ts'
import { maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables, ProcessHeartbeat } from './lmdb-tables.ts'
import { readCounts } from './lmdb-usage.ts'
import type { Transactions } from './transactions.ts'

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
export const openLmdbDayClock = ({ meta, heartbeats }: LmdbTables, clock: Clock): LmdbDayClock => {
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
