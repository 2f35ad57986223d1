import { boundedCache } from '../util/bounded-cache.ts'
import { dayMs, hourMs, hoursPerDay } from '../util/dates.ts'
import { getOrCreate } from '../util/memoize.ts'
import { parseVector, readTable, retryCommit } from './engine.ts'
import type { Commit, Engine, TableRead } from './engine.ts'
import type { ReportedUse } from './lease-accounting.ts'
import { repeatableMs } from './lost-writes.ts'
import type { LostWrites } from './lost-writes.ts'
import { ledgerRetentionDays } from './store.ts'
import type { StoreDetails } from './store.ts'
import type { StoreDays } from './store-days.ts'
import {
  creditsByDay,
  fiveMinuteRetentionHours,
  fiveMinutesPerHour,
  hourRetentionDays,
  totalsByHour,
  usageGroupKey,
} from './usage-store.ts'
import type {
  AccountUse,
  UsageAcknowledgment,
  UsageCount,
  UsageGroup,
  UsagePeriod,
  UsagePeriods,
  UsageReport,
  UsageRow,
  UsageStore,
} from './usage-store.ts'

// Usage of an account is in the tag that the engine chooses for it: a report has the counts of many accounts, and is written in parts, one for each tag.

/** A period as tables name it: `h490000` is an hour, by its number since 1970. */
const periodPrefixes = { fiveMinutes: 'm', hour: 'h', day: 'd' } as const satisfies Readonly<Record<UsagePeriod, string>>

const periodName = (period: UsagePeriod, start: number): string => `${periodPrefixes[period]}${start}`

/** One account's calls in a period: a row for each group, with calls, credits and the buckets of latencies. */
const callsOf = (account: string, period: string): string => `calls:${account}:${period}`
/** A row for each hour of one account: calls, credits and failed calls, the sums of its rows. */
const hourTotalsOf = (account: string): string => `hourTotals:${account}`
/** Periods with calls. */
const periods = 'periods'
/** Accounts with calls in one period. */
const accountsIn = (period: string): string => `accounts:${period}`
/** Credits of counted calls of one account's day, by process. */
const reportedUseOf = (account: string, day: number): string => `reportedUse:${account}:${day}`
/** The last report of each process with something for this tag: its number, the hour in which it came, and `final` when it has ended in order. */
const lastReports = 'lastReports'
/** The hour in which old counts were dropped last. */
const swept = { table: 'swept', field: 'hour' }

/** The tags of an engine that have a row of usage: engines spread accounts differently. All have what is of no account. */
export const usageTagsOfRow = (engine: Engine, table: string, field: string): readonly string[] => {
  const [name, account = ''] = table.split(':')
  if (name === 'calls' || name === 'hourTotals' || name === 'reportedUse') return [engine.usageTagOf(account)]
  return name === 'accounts' ? [engine.usageTagOf(field)] : engine.usageTags
}

interface LastReport {
  readonly seq: number
  readonly hour: number
  readonly isFinal: boolean
}

const parseLastReport = (text: string): LastReport => {
  const [seq, hour, final] = text.split(' ')
  return { seq: Number(seq), hour: Number(hour), isFinal: final === 'final' }
}

const seqOf = (text: string | undefined): number => (text === undefined ? 0 : parseLastReport(text).seq)

export const openUsageStore = (engine: Engine, days: StoreDays, losses: LostWrites): UsageStore & UsagePeriods => {
  /** What this process has written, by tag and process: the next report needs not read it. */
  const known = new Map<string, string>()
  const sent = new SentReports()
  /** The hour in which each process has reported to all tags. */
  const registered = new Map<string, number>()
  let sweptHour = 0
  /** One process drops the old counts of a tag in an hour. What it leaves behind is found in the next hour. */
  const sweep = async (hour: number, retentionHours: number): Promise<void> => {
    if (hour <= sweptHour) return
    sweptHour = hour
    for (const tag of engine.usageTags) {
      const { isDone } = await engine.commit(tag, { guards: [{ ...swept, atMost: hour - 1 }], puts: [{ ...swept, value: `${hour}` }] })
      if (!isDone) continue
      await dropOldCounts(engine, tag, hour - retentionHours, hour)
      await dropOldReports(engine, tag, hour - lastReportRetentionHours)
    }
  }
  const reportPart = async (tag: string, report: UsageReport, now: number): Promise<LossOutcome> => {
    const { process, seq } = report
    const key = `${tag} ${process}`
    const acknowledgedSeq = seqOf(known.get(key))
    let lostWrites: LossOutcome = 'none'
    await retryCommit(async () => {
      const last = known.get(key)
      // What the store has lost is reported again, before this report.
      const next = sent.after(key, seqOf(last)) ?? report
      const guards = [{ table: lastReports, field: process, is: last }]
      const isNew = seqOf(last) < next.seq
      const { isDone, found } = await engine.commit(tag, { ...(isNew && commitOf(next, now)), guards })
      if (isDone && isNew) known.set(key, lastReportText(next, Math.floor(now / hourMs)))
      if (isDone) return next === report ? { result: undefined } : undefined
      const [stored] = found
      if (stored === undefined) known.delete(key)
      else known.set(key, stored)
      if (seqOf(stored) < acknowledgedSeq) lostWrites = sent.hasAllAfter(key, seqOf(stored)) ? 'repeated' : 'missing'
      return seqOf(stored) >= seq ? { result: undefined } : undefined
    })
    sent.add(key, report, now)
    return lostWrites
  }
  return {
    async reportUsage(report) {
      const { process, counts, retentionHours } = report
      const { now } = await days.current()
      sent.dropOld(now)
      const hour = Math.floor(now / hourMs)
      const parts = new Map<string, UsageCount[]>()
      for (const count of counts) getOrCreate(parts, engine.usageTagOf(count.account), newCounts).push(count)
      // Each tag knows which processes report, and which have ended: then use and counts of all its accounts are exact.
      if (report.isFinal === true || registered.get(process) !== hour)
        for (const tag of engine.usageTags) getOrCreate(parts, tag, newCounts)
      const written = await Promise.all(Array.from(parts, ([tag, part]) => reportPart(tag, { ...report, counts: part }, now)))
      const lostWrites = (['missing', 'repeated'] as const).find(each => written.includes(each)) ?? 'none'
      if (lostWrites === 'none') registered.set(process, hour)
      else {
        registered.delete(process)
        void losses.report()
      }
      // The report is recorded, also where old counts cannot be dropped.
      await sweep(hour, retentionHours).catch(() => undefined)
      return { lostWrites }
    },
    async usageCounts(account, from, to) {
      const counts: UsageCount[] = []
      const hours = [...(await readTable(engine, engine.usageTagOf(account), hourTotalsOf(account))).keys()].map(Number)
      const range = hours.filter(hour => hour >= from && hour < to).sort((a, b) => a - b)
      for (let i = 0; i < range.length; i += periodsPerRead)
        counts.push(...(await readCounts(engine, account, range.slice(i, i + periodsPerRead))))
      return counts
    },
    async usageRows(account, period, from, to) {
      const found: { readonly start: number; readonly rows: readonly UsageRow[] }[] = []
      for (let first = from; first < to; first += periodsPerRead) {
        const starts = Array.from({ length: Math.min(periodsPerRead, to - first) }, (_, i) => first + i)
        const rows = await readRows(engine, account, period, starts)
        found.push(...starts.flatMap((start, i) => (rows[i]?.length ? [{ start, rows: rows[i] }] : [])))
      }
      return found
    },
    async usageAccounts(period, start) {
      const table = accountsIn(periodName(period, start))
      return (await Promise.all(engine.usageTags.map(async tag => [...(await readTable(engine, tag, table)).keys()]))).flat()
    },
    async hourTotals(account, from, to) {
      const range = Array.from({ length: to - from }, (_, i) => `${from + i}`)
      const rows = await readTable(engine, engine.usageTagOf(account), hourTotalsOf(account), range)
      return range.flatMap(hour => {
        const row = rows.get(hour)
        if (row === undefined) return []
        const [calls = 0, credits = 0, failed = 0] = parseVector(row)
        return [{ hour: Number(hour), calls, credits, failed }]
      })
    },
  }
}

type LossOutcome = UsageAcknowledgment['lostWrites']

/** About 2 MB. */
const maxRepeatableCounts = 10_000

/** The last reports that the store has acknowledged, by tag and process. It may lose them: then they are sent again. */
class SentReports {
  readonly #byKey = new Map<string, UsageReport[]>()
  /** Oldest first. */
  readonly #queue: { readonly key: string; readonly report: UsageReport; readonly sentAt: number }[] = []
  #countTotal = 0
  /** The number of the last report that is not kept any more. */
  readonly #droppedSeqs = new Map<string, number>()

  add(key: string, report: UsageReport, now: number): void {
    const reports = getOrCreate(this.#byKey, key, newReports)
    // It was acknowledged before, and came twice.
    if ((reports.at(-1)?.seq ?? 0) >= report.seq) return
    reports.push(report)
    this.#queue.push({ key, report, sentAt: now })
    this.#countTotal += report.counts.length
    while (this.#countTotal > maxRepeatableCounts) this.#dropFirst()
  }

  dropOld(now: number): void {
    while (now - (this.#queue[0]?.sentAt ?? Infinity) > repeatableMs) this.#dropFirst()
  }

  /** The first one with a greater number. */
  after(key: string, seq: number): UsageReport | undefined {
    return this.#byKey.get(key)?.find(report => report.seq > seq)
  }

  hasAllAfter(key: string, seq: number): boolean {
    return (this.#droppedSeqs.get(key) ?? 0) <= seq
  }

  #dropFirst(): void {
    const first = this.#queue.shift()
    if (first === undefined) return
    this.#byKey.get(first.key)?.shift()
    this.#countTotal -= first.report.counts.length
    this.#droppedSeqs.set(first.key, first.report.seq)
  }
}

const newReports = (): UsageReport[] => []

/** Read in one step, in which a Redis answers nobody else. */
const periodsPerRead = 24

const lastReportText = ({ seq, isFinal = false }: UsageReport, hour: number): string => `${seq} ${hour}${isFinal ? ' final' : ''}`

const commitOf = (report: UsageReport, now: number): Commit => {
  const { process, counts } = report
  const totals = totalsByHour(counts)
  const hour = Math.floor(now / hourMs)
  const accountsByPeriod = new Map<string, Set<string>>()
  const rows: { readonly table: string; readonly field: string; readonly by: readonly number[] }[] = []
  for (const count of counts) {
    const { account, calls, credits, latencies = [] } = count
    const [field, by] = [usageGroupKey(count), [calls, credits, ...latencies]]
    for (const period of periodsOf(count, now)) {
      getOrCreate(accountsByPeriod, period, newSet).add(account)
      rows.push({ table: callsOf(account, period), field, by })
    }
  }
  return {
    puts: [
      { table: lastReports, field: process, value: lastReportText(report, hour) },
      ...Array.from(accountsByPeriod.keys(), field => ({ table: periods, field, value: '' })),
      ...Array.from(accountsByPeriod, ([period, accounts]) =>
        Array.from(accounts, field => ({ table: accountsIn(period), field, value: '' })),
      ).flat(),
    ],
    adds: creditsByDay(counts).map(({ account, day, credits }) => ({ table: reportedUseOf(account, day), field: process, by: credits })),
    sums: [
      ...rows,
      ...totals.map(total => ({
        table: hourTotalsOf(total.account),
        field: `${total.hour}`,
        by: [total.calls, total.credits, total.failed],
      })),
    ],
  }
}

/** The first that are kept. */
const firstFiveMinutes = (hour: number): number => (hour - fiveMinuteRetentionHours) * fiveMinutesPerHour

const newSet = () => new Set<string>()
const newCounts = (): UsageCount[] => []
const newAccounts = (): string[] => []

const periodsOf = ({ hour, fiveMinutes = 0, isWholeDay }: UsageCount, now: number): readonly string[] => {
  const names = [periodName('day', Math.floor(hour / hoursPerDay))]
  if (isWholeDay === true) return names
  names.push(periodName('hour', hour))
  if (fiveMinutes >= firstFiveMinutes(Math.floor(now / hourMs))) names.push(periodName('fiveMinutes', fiveMinutes))
  return names
}

export const readAccountUse = async (
  engine: Engine,
  accounts: readonly string[],
  { day, hours }: { readonly day: number; readonly hours: readonly number[] },
): Promise<readonly AccountUse[]> => {
  const fields = hours.map(String)
  const byTag = new Map<string, string[]>()
  for (const account of accounts) getOrCreate(byTag, engine.usageTagOf(account), newAccounts).push(account)
  const found = new Map<string, AccountUse>()
  const readTag = async (tag: string, ofTag: readonly string[]): Promise<void> => {
    const reads = ofTag.flatMap(account => [{ table: reportedUseOf(account, day) }, { table: hourTotalsOf(account), fields }])
    const { tables } = await engine.read(tag, reads)
    for (const [i, account] of ofTag.entries()) {
      const [use, totals] = [tables[2 * i], tables[2 * i + 1]]
      let credits = 0
      for (const value of use?.values() ?? []) credits += Number(value)
      found.set(account, { account, credits, calls: fields.map(field => parseVector(totals?.get(field) ?? '0')[0] ?? 0) })
    }
  }
  await Promise.all(Array.from(byTag, ([tag, ofTag]) => readTag(tag, ofTag)))
  return accounts.flatMap(account => found.get(account) ?? [])
}

/** One account's rows in each of these periods, of one moment. */
const readRows = async (engine: Engine, account: string, period: UsagePeriod, starts: readonly number[]) => {
  const { tables } = await engine.read(
    engine.usageTagOf(account),
    starts.map(start => ({ table: callsOf(account, periodName(period, start)) })),
  )
  return tables.map(table => Array.from(table, ([field, row]) => parseRow(account, field, row)).filter(hasCalls))
}

/** False where all calls of the group were taken back, after they had been reported. */
const hasCalls = ({ calls, credits }: UsageRow): boolean => calls !== 0 || credits !== 0

/** Groups by account and field: an account has the same ones in each period. */
const knownGroups = boundedCache<UsageGroup>(20_000)

const parseRow = (account: string, field: string, row: string): UsageRow => {
  const name = `${account} ${field}`
  let group = knownGroups.get(name)
  if (group === undefined) {
    const [key, network, method, outcome, forwarded] = JSON.parse(field) as [string, string, string, string, boolean] // of usageGroupKey()
    group = { account, key, network, method, outcome, forwarded }
    knownGroups.set(name, group)
  }
  const numbers = parseVector(row)
  const [calls = 0, credits = 0] = numbers
  return numbers.length <= 2 ? { group, calls, credits } : { group, calls, credits, latencies: numbers.slice(2) }
}

/** One account's counts of these hours, of one moment. */
const readCounts = async (engine: Engine, account: string, hours: readonly number[]): Promise<readonly UsageCount[]> => {
  const rows = await readRows(engine, account, 'hour', hours)
  return hours.flatMap((hour, i) => (rows[i] ?? []).map(({ group, ...sums }) => ({ ...group, hour, ...sums })))
}

/** The first day of which the hours are kept. */
const firstDayWithHours = (hour: number): number => Math.floor(hour / hoursPerDay) - hourRetentionDays

/** All counts, or those of a range of hours: of each hour, and before the first day with hours of each day. */
export const allCounts = async function* (
  engine: Engine,
  days: StoreDays,
  range: Parameters<StoreDetails['allUsageCounts']>[0],
): AsyncGenerator<UsageCount> {
  const { from, to } = range ?? { from: 0, to: Infinity }
  const read = async (tag: string) => (await readPeriods(engine, tag)).map(each => ({ tag, ...each }))
  const all = (await Promise.all(engine.usageTags.map(read))).flat()
  const firstDay = firstDayWithHours(Math.floor((await days.current()).now / hourMs))
  const found = all.flatMap(({ tag, name, period, start }) => {
    const hour = period === 'day' ? (start + 1) * hoursPerDay - 1 : start
    const isRead = period === 'day' ? start < firstDay : period === 'hour' && start >= firstDay * hoursPerDay
    return isRead && hour >= from && hour < to ? [{ tag, name, period, start, hour }] : []
  })
  for (const { tag, name, period, start, hour } of found.sort((a, b) => a.hour - b.hour)) {
    for (const account of (await readTable(engine, tag, accountsIn(name))).keys()) {
      const [rows = []] = await readRows(engine, account, period, [start])
      for (const { group, ...sums } of rows) yield { ...group, hour, ...(period === 'day' && { isWholeDay: true }), ...sums }
    }
  }
}

const readPeriods = async (engine: Engine, tag: string) => Array.from((await readTable(engine, tag, periods)).keys(), parsePeriod)

const parsePeriod = (name: string) => {
  const [prefix, start] = [name.slice(0, 1), Number(name.slice(1))]
  const period: UsagePeriod = prefix === periodPrefixes.day ? 'day' : prefix === periodPrefixes.hour ? 'hour' : 'fiveMinutes'
  return { name, period, start }
}

/** With the hour of the process's last report, since 1970. */
interface LastReportedUse extends ReportedUse {
  readonly hour: number
}

/** What processes have reported of one account's day, and the credits of its counts: of one moment. */
export interface ReportedDay {
  readonly reported: ReadonlyMap<string, LastReportedUse>
  readonly counted: number
}

/** An account, and the processes with leases of it. */
interface LeasedAccount {
  readonly account: string
  readonly processes: readonly string[]
}

interface ReportedDayQuery {
  readonly day: number
  /** The credits of the day's rows are summed, of which there may be hundreds. */
  readonly countsUsage: boolean
}

/** Of each of the accounts, in their order; those with one tag are read together. */
export const readReportedUse = async (
  engine: Engine,
  accounts: readonly LeasedAccount[],
  query: ReportedDayQuery,
): Promise<readonly ReportedDay[]> => {
  const byTag = new Map<string, LeasedAccount[]>()
  for (const each of accounts) getOrCreate(byTag, engine.usageTagOf(each.account), (): LeasedAccount[] => []).push(each)
  const found = new Map<string, ReportedDay>()
  const readTag = async (tag: string, some: readonly LeasedAccount[]): Promise<void> => {
    for (const [account, day] of await readReportedUseIn(engine, tag, some, query)) found.set(account, day)
  }
  await Promise.all(Array.from(byTag, ([tag, some]) => readTag(tag, some)))
  return accounts.map(({ account }) => found.get(account)!)
}

const readReportedUseIn = async (
  engine: Engine,
  tag: string,
  accounts: readonly LeasedAccount[],
  { day, countsUsage }: ReportedDayQuery,
): Promise<readonly (readonly [account: string, ReportedDay])[]> => {
  const processes = [...new Set(accounts.flatMap(each => each.processes))]
  const reads: TableRead[] = accounts.map(({ account }) => ({ table: reportedUseOf(account, day) }))
  if (countsUsage) reads.push(...accounts.map(({ account }) => ({ table: callsOf(account, periodName('day', day)) })))
  const [last = noRows, ...tables] = (await engine.read(tag, [{ table: lastReports, fields: processes }, ...reads])).tables
  return accounts.map(({ account, processes: ofAccount }, i) => {
    const [use = noRows, calls = noRows] = [tables[i], tables[accounts.length + i]]
    const reported = new Map<string, LastReportedUse>()
    for (const process of ofAccount) {
      const text = last.get(process)
      if (text === undefined) continue
      const { hour, isFinal } = parseLastReport(text)
      reported.set(process, { credits: Number(use.get(process) ?? 0), isFinal, hour })
    }
    let counted = 0
    for (const row of calls.values()) counted += parseVector(row)[1] ?? 0
    return [account, { reported, counted }]
  })
}

const noRows: ReadonlyMap<string, string> = new Map()

export const dropReportedUse = async (engine: Engine, account: string, of: readonly number[]): Promise<void> => {
  await engine.commit(engine.usageTagOf(account), { drops: of.map(day => reportedUseOf(account, day)) })
}

/** A report that is older than the retention of the ledger cannot be repeated any more. */
const lastReportRetentionHours = (ledgerRetentionDays * dayMs) / hourMs

/** Dropped in one step, during which the store answers nobody else. */
const maxAccountsPerCommit = 50

/** Hours before this one, days that end before it, and hours and five minutes that are no longer needed. */
const dropOldCounts = async (engine: Engine, tag: string, before: number, hour: number): Promise<void> => {
  const firstKept: Readonly<Record<UsagePeriod, number>> = {
    fiveMinutes: firstFiveMinutes(hour),
    hour: Math.max(before, firstDayWithHours(hour) * hoursPerDay),
    day: Math.floor(before / hoursPerDay),
  }
  for (const { name, period, start } of (await readPeriods(engine, tag)).filter(({ period, start }) => start < firstKept[period])) {
    const accounts = [...(await readTable(engine, tag, accountsIn(name))).keys()]
    for (let from = 0; from < accounts.length; from += maxAccountsPerCommit) {
      const some = accounts.slice(from, from + maxAccountsPerCommit)
      await engine.commit(tag, {
        drops: some.map(account => callsOf(account, name)),
        ...(period === 'hour' && { dels: some.map(account => ({ table: hourTotalsOf(account), field: `${start}` })) }),
      })
    }
    await engine.commit(tag, { drops: [accountsIn(name)], dels: [{ table: periods, field: name }] })
  }
}

const dropOldReports = async (engine: Engine, tag: string, before: number): Promise<void> => {
  const old = [...(await readTable(engine, tag, lastReports))].filter(([, text]) => parseLastReport(text).hour < before)
  await engine.commit(tag, { dels: old.map(([field]) => ({ table: lastReports, field })) })
}
