import { kill, pid } from 'node:process'
import type { Clock } from '../../services/clock.ts'
import { applyLeaseRequest, emptyLeaseRecord } from '../lease-accounting.ts'
import { ledgerRetentionDays, processTimeoutMs } from '../store.ts'
import type { LedgerStore, StoreDay, DayTotals } from '../store.ts'
import { maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables, ProcessHeartbeat } from './lmdb-tables.ts'
import type { Transactions } from './transactions.ts'
import { dayMs } from '../../util/dates.ts'

export const lmdbLedgerStore = (tables: LmdbTables, transactions: Transactions, clock: Clock): LedgerStore => {
  const { leased, leaseRecords, heartbeats } = tables
  const { currentDay, advanceDay } = openDayClock(tables, clock)

  return {
    horizonMs: 1_000,
    requestLease: request =>
      transactions.run(() => {
        const storeDay = advanceDay()
        const { day, account, process, limit } = request
        const record = leaseRecords.get([day, account, process]) ?? emptyLeaseRecord
        const result = applyLeaseRequest(leased.get([day, account]) ?? 0, record, request, storeDay.today)
        if (result.record !== record) {
          leased.put([day, account], result.leased)
          leaseRecords.put([day, account, process], result.record)
        }
        return { ...storeDay, counters: result.record, remaining: limit - result.leased }
      }),
    heartbeat: process =>
      transactions.run(() => {
        const storeDay = advanceDay()
        dropOldRows(tables, storeDay.today, clock.now())
        heartbeats.put(process, { pid, seen: clock.now() })
        return { ...storeDay, liveProcesses: heartbeats.getKeysCount() }
      }),
    deregister: process =>
      transactions.run(() => {
        heartbeats.remove(process)
      }),
    dayTotals(account, day) {
      const storeDay = currentDay()
      return { ...storeDay, ...sumTotals(tables, account, day ?? storeDay.today, clock.now()) }
    },
  }
}

/** The day of the system clock, except that it never goes back: credits that were granted on a day stay granted. */
const openDayClock = ({ meta }: LmdbTables, clock: Clock) => {
  const currentDay = (): StoreDay => {
    const now = clock.now()
    const today = Math.max(Math.floor(now / dayMs), meta.get('day') ?? 0)
    return { today, endsInMs: (today + 1) * dayMs - now }
  }
  const advanceDay = (): StoreDay => {
    const storeDay = currentDay()
    if (meta.get('day') !== storeDay.today) meta.put('day', storeDay.today)
    return storeDay
  }
  return { currentDay, advanceDay }
}

/** Rows are dropped in one transaction, during which other processes cannot write. */
const maxRowsPerSweep = 500

const dropOldRows = ({ leased, leaseRecords, heartbeats }: LmdbTables, today: number, now: number): void => {
  const old = { end: [today - ledgerRetentionDays + 1], limit: maxRowsPerSweep }
  for (const key of [...leased.getKeys(old)]) leased.remove(key)
  for (const key of [...leaseRecords.getKeys(old)]) leaseRecords.remove(key)
  for (const { key, value } of [...heartbeats.getRange()]) {
    if (!isProcessAlive(value, now)) heartbeats.remove(key)
  }
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
export const accountDayRange = (day: number, account: string) => ({ start: [day, account], end: [day, account, maxKeySuffix] })

const sumTotals = (
  { leased, leaseRecords, heartbeats }: LmdbTables,
  account: string,
  day: number,
  now: number,
): Omit<DayTotals, keyof StoreDay> => {
  const totals = { used: 0, held: 0, forfeited: 0 }
  for (const { key, value } of leaseRecords.getRange(accountDayRange(day, account))) {
    totals.used += value.used
    totals[isProcessAlive(heartbeats.get(key[2]), now) ? 'held' : 'forfeited'] += value.granted - value.returned - value.used
  }
  return { day, leased: leased.get([day, account]) ?? 0, ...totals }
}
