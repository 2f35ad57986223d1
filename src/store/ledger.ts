import { createSemaphore, singleFlight } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import { readTable, retryCommit } from './engine.ts'
import type { Engine } from './engine.ts'
import { applyLeaseRequest, emptyLeaseRecord, mostLeasedFor, sumDay } from './lease-accounting.ts'
import type { DayRecords, LeaseRecord, LeaseRequest } from './lease-accounting.ts'
import { scanLedgerIds } from './accounts.ts'
import { ledgerRetentionDays, storeTimeoutMs } from './store.ts'
import type { BalanceStore, ClockRepair, DayTotals, LeaseResponse, LedgerStore, StoreDetails } from './store.ts'
import { repeatableMs } from './lost-writes.ts'
import type { LostWrites } from './lost-writes.ts'
import type { StoreDays } from './store-days.ts'
import { dropReportedUse, readReportedUse } from './usage.ts'
import type { ReportedDay } from './usage.ts'

// The ledger of an account, or of a key with a limit of its own, has the id as its tag.

/** `leased`, and the record of each process. */
const dayTable = (day: number): string => `day:${day}`
const leased = 'leased'
const recordPrefix = 'process:'
/** The days of the account that have a table. No clock expires them: the latest ones are retained, by their number. */
const daysTable = 'days'

const formatRecord = ({ granted, returned, used, seq }: LeaseRecord): string => `${granted} ${returned} ${used} ${seq}`

const parseRecord = (text: string | undefined): LeaseRecord => {
  if (text === undefined) return emptyLeaseRecord
  const [granted = 0, returned = 0, used = 0, seq = 0] = text.split(' ').map(Number)
  return { granted, returned, used, seq }
}

/** A record that was written here. */
interface WrittenRecord {
  readonly text: string
  readonly writtenAt: number
}

/** Whose record it is. */
type RecordOwner = Pick<LeaseRequest, 'account' | 'day' | 'process'>

interface WrittenRecordsOfDay extends Pick<RecordOwner, 'day' | 'process'> {
  /** Oldest first. */
  readonly byAccount: Map<string, WrittenRecord>
}

/** Of a day, the records of as many accounts are known. */
const maxKnownRecords = 100_000
/** The first request of an account that has been idle for longer takes two round trips. */
const knownForMs = 3_600_000

/** The records that were written here: the next request needs not read them. */
class WrittenRecords {
  readonly #days = new Map<string, WrittenRecordsOfDay>()

  get({ account, day, process }: RecordOwner): WrittenRecord | undefined {
    return this.#days.get(`${day} ${process}`)?.byAccount.get(account)
  }

  set({ account, day, process }: RecordOwner, record: WrittenRecord): void {
    const { byAccount } = getOrCreate(this.#days, `${day} ${process}`, () => ({ day, process, byAccount: new Map() }))
    byAccount.delete(account)
    byAccount.set(account, record)
    this.#dropOldest(record.writtenAt)
  }

  *writtenSince(time: number): Generator<RecordOwner & WrittenRecord> {
    for (const { day, process, byAccount } of this.#days.values())
      for (const [account, record] of byAccount) if (record.writtenAt >= time) yield { account, day, process, ...record }
  }

  /** At most one of each day: not more than are written. */
  #dropOldest(now: number): void {
    for (const [name, { byAccount }] of this.#days) {
      const [oldest] = byAccount
      if (oldest === undefined) this.#days.delete(name)
      else if (byAccount.size > maxKnownRecords || now - oldest[1].writtenAt > knownForMs) byAccount.delete(oldest[0])
    }
  }
}

/** Records that are written again at once. */
const maxConcurrentRepeats = 50
/** So long after a loss was found, the primary that is replaced may still acknowledge writes, and lose them. */
const lateAcknowledgementMs = 5_000

type StoredLedger = LedgerStore & BalanceStore & ClockRepair & Pick<StoreDetails, 'dayTotalsOf'>

/** `losses` calls back when the store has lost its last writes. */
export const openLedgerStore = (engine: Engine, days: StoreDays, losses: LostWrites): StoredLedger => {
  const known = new WrittenRecords()
  const semaphore = createSemaphore(maxConcurrentRepeats)
  /** In ms since 1970; records that were written before it are not repeated. */
  let repeatFrom = Infinity
  let repeatUntil = -Infinity
  const repeat = ({ account, day, process, text }: RecordOwner & WrittenRecord) => {
    const { seq, ...counters } = parseRecord(text)
    return requestLease(engine, days, { account, day, process, seq, counters, ...noCredits }, undefined)
  }
  /** Also those of leases that have been returned and are reported no more. A record that the store has stays as it is. */
  const repeatRecords = singleFlight(async () => {
    const { now } = await days.current()
    const records = known.writtenSince(Math.max(repeatFrom, now - repeatableMs))
    const repeated = await Promise.allSettled(Array.from(records, record => semaphore(() => repeat(record))))
    if (repeated.every(({ status }) => status === 'fulfilled')) repeatFrom = now >= repeatUntil ? Infinity : now - 2 * storeTimeoutMs
  })
  losses.subscribe(async () => {
    const { now } = await days.current()
    repeatFrom = now - repeatableMs
    repeatUntil = now + lateAcknowledgementMs
    await repeatRecords()
  })
  return {
    horizonMs: engine.horizonMs,
    async requestLease(request) {
      const { text, isFirst, isRecordLost, writtenAt, ...response } = await requestLease(engine, days, request, known.get(request)?.text)
      known.set(request, { text, writtenAt })
      if (isRecordLost) void losses.report()
      if (isFirst) void retainLatestDays(engine, request.account).catch(() => undefined)
      return response
    },
    async heartbeat(process) {
      const response = await days.heartbeat(process)
      if (repeatFrom < Infinity) void repeatRecords().catch(() => undefined)
      return response
    },
    deregister: process => days.deregister(process),
    async dayBalance(account, day) {
      const [totals] = await readDayTotals(engine, days, { accounts: [account], day, countsUsage: false })
      const { counted: _, silentHour: __, ...balance } = totals!
      return balance
    },
    async keyUse(key) {
      const { today: day, processes } = await days.live()
      const { used, forfeited } = sumDay({ ...(await readLeases(engine, key, day)), reported: new Map() }, each => processes.has(each))
      return { day, used, forfeited }
    },
    async dayTotals(account, day) {
      const [totals] = await readDayTotals(engine, days, { accounts: [account], day, countsUsage: true })
      return totals!
    },
    dayTotalsOf: accounts => readDayTotals(engine, days, { accounts, day: undefined, countsUsage: true }),
    async resetDay() {
      const reset = await days.reset()
      const ids: string[] = []
      for await (const id of scanLedgerIds(engine)) ids.push(id)
      for (const id of ids) await dropLedger(engine, id, reset.to)
      return reset
    },
  }
}

const noCredits = { minCredits: 0, desiredCredits: 0, limit: 0, shareDivisor: 1 }

interface WrittenLease extends LeaseResponse, Pick<WrittenRecord, 'text' | 'writtenAt'> {
  readonly isFirst: boolean
  /** The store had an older record than the one that was expected, or none. */
  readonly isRecordLost: boolean
}

/**
 * One step for all processes, and one round trip unless others are in the way: the process knows its own record, and while enough is left the
 * grant is the same whatever others lease meanwhile. `expected` is that record.
 */
const requestLease = async (
  engine: Engine,
  days: StoreDays,
  request: LeaseRequest,
  expected: string | undefined,
): Promise<WrittenLease> => {
  const table = dayTable(request.day)
  const recordCell = { table, field: recordPrefix + request.process }
  const leasedCell = { table, field: leased }
  let recordText = expected
  let isRecordLost = false
  /** What is leased over all processes, where the grant depends on it. */
  let leasedText: { readonly is: string | undefined } | undefined
  return retryCommit(async () => {
    const { today, during, now } = await days.current()
    const record = parseRecord(recordText)
    const atMost = mostLeasedFor(record, request, today)
    // Where nothing is granted, what is leased makes no difference.
    const before = leasedText !== undefined ? Number(leasedText.is ?? 0) : atMost < Infinity ? atMost : 0
    const result = applyLeaseRequest(before, record, request, today)
    const text = formatRecord(result.record)
    const committed = await engine.commit(request.account, {
      during,
      guards: [
        { ...recordCell, is: recordText },
        { ...leasedCell, ...(leasedText ?? { atMost }) },
      ],
      ...(result.record !== record && {
        puts: [
          { ...recordCell, value: text },
          ...(recordText === undefined ? [{ table: daysTable, field: `${request.day}`, value: '' }] : []),
        ],
        adds: [{ ...leasedCell, by: result.leased - before }],
      }),
    })
    const observed = days.observe(committed.clockNow)
    const [foundRecord, foundLeased] = committed.found
    if (committed.isDone) {
      const { granted, returned, used } = result.record
      // In this order no sum is above 2^53, where integers are not exact.
      const remaining = request.limit - (Number(foundLeased ?? 0) + (result.leased - before))
      const { today: day, endsInMs } = observed
      const isFirst = recordText === undefined
      const counters = { granted, returned, used }
      return { result: { today: day, endsInMs, counters, remaining, text, isFirst, isRecordLost, writtenAt: now } }
    }
    isRecordLost ||= parseRecord(foundRecord).seq < parseRecord(expected).seq
    recordText = foundRecord
    leasedText =
      Number(foundLeased ?? 0) > mostLeasedFor(parseRecord(foundRecord), request, observed.today) ? { is: foundLeased } : undefined
    return undefined
  })
}

/** Drops the days before the latest ones. */
const retainLatestDays = async (engine: Engine, account: string): Promise<void> => {
  const found = [...(await readTable(engine, account, daysTable)).keys()].map(Number).sort((a, b) => b - a)
  await dropDays(engine, account, found.slice(ledgerRetentionDays))
}

/** Drops what the ledger has of one account's days after `after`; of all days unless given. */
export const dropLedger = async (engine: Engine, account: string, after = -1): Promise<void> => {
  const found = [...(await readTable(engine, account, daysTable)).keys()].map(Number)
  await dropDays(
    engine,
    account,
    found.filter(day => day > after),
  )
}

/** What the ledger has of one account. */
export const ledgerTables = async (engine: Engine, account: string): Promise<readonly string[]> => {
  const days = [...(await readTable(engine, account, daysTable)).keys()].map(Number)
  return [daysTable, ...days.map(dayTable)]
}

/** The list of days last: what is cut off is done again. */
const dropDays = async (engine: Engine, account: string, old: readonly number[]): Promise<void> => {
  if (old.length === 0) return
  await dropReportedUse(engine, account, old)
  await engine.commit(account, { drops: old.map(dayTable), dels: old.map(day => ({ table: daysTable, field: `${day}` })) })
}

interface DayQuery {
  readonly accounts: readonly string[]
  readonly day: number | undefined
  readonly countsUsage: boolean
}

/** In the order of the accounts. */
const readDayTotals = async (
  engine: Engine,
  days: StoreDays,
  { accounts, day: requestedDay, countsUsage }: DayQuery,
): Promise<readonly DayTotals[]> => {
  const { today, endsInMs, processes } = await days.live()
  const day = requestedDay ?? today
  const isRetained = day > today - ledgerRetentionDays
  const found = isRetained ? await readDays(engine, accounts, day, countsUsage) : accounts.map(() => emptyDay)
  const isLive = (process: string): boolean => processes.has(process)
  return found.map(each => {
    const silentHour = silentHourOf(each, isLive)
    const totals = { today, endsInMs, day, leased: each.leased, counted: each.counted, ...sumDay(each, isLive) }
    return { ...totals, ...(silentHour !== undefined && { silentHour }) }
  })
}

/** One account's day: what is leased over all processes, the records by process, and the credits of the usage counts. */
interface LedgerDay extends Pick<DayRecords, 'leases'>, ReportedDay {
  readonly leased: number
}

/** As in DayTotals. */
const silentHourOf = ({ leases, reported }: LedgerDay, isLive: (process: string) => boolean): number | undefined => {
  const hours = Array.from(leases, ([process, { granted, returned }]) => {
    const { credits = 0, isFinal = true, hour = 0 } = reported.get(process) ?? {}
    return !isFinal && !isLive(process) && granted - returned > credits ? hour : 0
  })
  return Math.max(0, ...hours) || undefined
}

const emptyDay: LedgerDay = { leased: 0, counted: 0, leases: new Map(), reported: new Map() }

/**
 * What processes have reported is read before their leases: a lease covers what was reported before. Their names are read first; an account without
 * any that has no counts is read once.
 */
const readDays = async (engine: Engine, accounts: readonly string[], day: number, countsUsage: boolean): Promise<readonly LedgerDay[]> => {
  const found = await Promise.all(accounts.map(async account => ({ account, ...(await readLeases(engine, account, day)) })))
  const of = found.map(({ account, leases }) => ({ account, processes: [...leases.keys()] }))
  const use = await readReportedUse(engine, of, { day, countsUsage })
  return Promise.all(
    found.map(async ({ account, leased, leases }, i) => {
      const reported = use[i]!
      const isUnused = leases.size === 0 && reported.counted === 0
      return { ...reported, ...(isUnused ? { leased, leases } : await readLeases(engine, account, day)) }
    }),
  )
}

const readLeases = async (engine: Engine, account: string, day: number): Promise<Pick<LedgerDay, 'leased' | 'leases'>> => {
  const rows = await readTable(engine, account, dayTable(day))
  const leases = new Map<string, LeaseRecord>()
  for (const [field, text] of rows) if (field !== leased) leases.set(field.slice(recordPrefix.length), parseRecord(text))
  return { leased: Number(rows.get(leased) ?? 0), leases }
}
