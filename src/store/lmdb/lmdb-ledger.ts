import { kill, pid } from 'node:process'
import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import { applyLeaseRequest, emptyLeaseRecord } from '../lease-accounting.ts'
import type { LeaseRecord } from '../lease-accounting.ts'
import { processTimeoutMs } from '../store.ts'
import type { LedgerStore, StoreDay, DayTotals } from '../store.ts'
import type { Transactions } from './transactions.ts'
import { dayMs } from '../../util/dates.ts'

/** What is leased, by day and account; entries by day, account and process; and the processes that live. */
interface LedgerTables {
  readonly leased: Database<number, [number, string]>
  readonly records: Database<LeaseRecord, [number, string, string]>
  readonly heartbeats: Database<ProcessHeartbeat, string>
}

export interface ProcessHeartbeat {
  readonly pid: number
  /** Milliseconds since 1970. */
  readonly seen: number
}

export const lmdbLedgerStore = (root: RootDatabase, transactions: Transactions, clock: Clock): LedgerStore => {
  const leasedTable: LedgerTables['leased'] = root.openDB({ name: 'sums' })
  const records: LedgerTables['records'] = root.openDB({ name: 'entries' })
  const heartbeats: LedgerTables['heartbeats'] = root.openDB({ name: 'processes' })
  const { moment: currentDay, turn: advanceDay } = openDayClock(root.openDB({ name: 'meta' }), clock)

  return {
    horizonMs: 1_000,
    requestLease: request =>
      transactions.run(() => {
        const now = advanceDay()
        const leased = leasedTable.get([request.day, request.account]) ?? 0
        const record = records.get([request.day, request.account, request.process]) ?? emptyLeaseRecord
        const result = applyLeaseRequest(leased, record, request, now.today)
        if (result.record !== record) {
          leasedTable.put([request.day, request.account], result.leased)
          records.put([request.day, request.account, request.process], result.record)
        }
        return { ...now, counters: result.record, remaining: request.limit - result.leased }
      }),
    heartbeat: process =>
      transactions.run(() => {
        const now = advanceDay()
        dropOldRows({ leased: leasedTable, records, heartbeats }, now.today, clock.now())
        heartbeats.put(process, { pid, seen: clock.now() })
        return { ...now, liveProcesses: heartbeats.getKeysCount() }
      }),
    deregister: process =>
      transactions.run(() => {
        heartbeats.remove(process)
      }),
    dayTotals(account, day) {
      const now = currentDay()
      return { ...now, ...sumTotals({ leased: leasedTable, records, heartbeats }, account, day ?? now.today, clock.now()) }
    },
  }
}

/** The day of the machine's clock, except that it never goes back: what a day has given out stays given out. */
const openDayClock = (meta: Database<number, string>, clock: Clock) => {
  const currentDay = (): StoreDay => {
    const now = clock.now()
    const today = Math.max(Math.floor(now / dayMs), meta.get('day') ?? 0)
    return { today, endsInMs: (today + 1) * dayMs - now }
  }
  const advanceDay = (): StoreDay => {
    const now = currentDay()
    if (meta.get('day') !== now.today) meta.put('day', now.today)
    return now
  }
  return { moment: currentDay, turn: advanceDay }
}

const retentionDays = 3
/** Rows dropped in one step, during which nobody else can write. */
const maxRowsPerSweep = 500

const dropOldRows = ({ leased, records, heartbeats }: LedgerTables, today: number, now: number): void => {
  const old = { end: [today - retentionDays + 1], limit: maxRowsPerSweep }
  for (const key of [...leased.getKeys(old)]) leased.remove(key)
  for (const key of [...records.getKeys(old)]) records.remove(key)
  for (const { key, value } of [...heartbeats.getRange()]) {
    if (!isProcessAlive(value, now)) heartbeats.remove(key)
  }
}

/** A clock that jumps makes all look dead until their next beat; nothing is taken from them for that. */
export const isProcessAlive = (heartbeat: ProcessHeartbeat | undefined, now: number): boolean => {
  if (heartbeat === undefined || Math.abs(now - heartbeat.seen) > processTimeoutMs) return false
  try {
    return kill(heartbeat.pid, 0)
  } catch (error) {
    // Another user's process: it cannot be signalled, but it is there.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

const sumTotals = (
  { leased, records, heartbeats }: LedgerTables,
  account: string,
  day: number,
  now: number,
): Omit<DayTotals, keyof StoreDay> => {
  const totals = { used: 0, held: 0, forfeited: 0 }
  for (const { key, value } of records.getRange({ start: [day, account], end: [day, account, '\uffff'] })) {
    totals.used += value.used
    totals[isProcessAlive(heartbeats.get(key[2]), now) ? 'held' : 'forfeited'] += value.granted - value.returned - value.used
  }
  return { day, leased: leased.get([day, account]) ?? 0, ...totals }
}
