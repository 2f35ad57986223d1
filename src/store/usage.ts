import { dayMs, hourMs, hoursPerDay } from '../util/dates.ts'
import { readTable, retryCommit } from './engine.ts'
import type { Commit, Engine, TableRead } from './engine.ts'
import type { ReportedUse } from './lease-accounting.ts'
import { ledgerRetentionDays } from './store.ts'
import type { Copyable } from './store.ts'
import type { StoreDays } from './store-days.ts'
import { creditsByDay, totalsByHour, usageGroupKey } from './usage-store.ts'
import type { UsageCount, UsageReport, UsageStore } from './usage-store.ts'

/** Usage has one tag: a report has the counts of many accounts. */
const tag = 'usage'

/** `<group> calls` and `<group> credits` of one account and hour. */
const countsOf = (account: string, hour: number): string => `counts:${account}:${hour}`
/** `<hour> calls` and `<hour> credits` of one account: the sums of its counts. */
const hourTotalsOf = (account: string): string => `hourTotals:${account}`
/** Hours with counts. */
const hours = 'hours'
/** Accounts with counts in one hour. */
const accountsIn = (hour: number | string): string => `accounts:${hour}`
/** Credits of counted calls of one account's day, by process. */
const reportedUseOf = (account: string, day: number): string => `reportedUse:${account}:${day}`
/** The last report of each process: its number, the hour in which it came, and `final` when it has ended in order. */
const lastReports = 'lastReports'

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

export const openUsageStore = (engine: Engine, days: StoreDays): UsageStore => {
  /** What this process has written: the next report needs not read it. */
  const known = new Map<string, string>()
  let sweptHour = 0
  const sweep = async (hour: number, retentionHours: number): Promise<void> => {
    if (hour <= sweptHour) return
    await dropOldCounts(engine, hour - retentionHours)
    await dropOldReports(engine, hour - lastReportRetentionHours)
    sweptHour = hour
  }
  return {
    async reportUsage(report) {
      const { process, seq, retentionHours } = report
      const hour = Math.floor((await days.current()).now / hourMs)
      const acknowledgedSeq = seqOf(known.get(process))
      const hasLostWrites = await retryCommit(async () => {
        const guards = [{ table: lastReports, field: process, is: known.get(process) }]
        const isNew = seqOf(known.get(process)) < seq
        const { isDone, found } = await engine.commit(tag, { ...(isNew && commitOf(report, hour)), guards })
        const [last] = found
        if (isDone && isNew) known.set(process, lastReportText(report, hour))
        if (isDone) return { result: seqOf(last) < acknowledgedSeq }
        if (last === undefined) known.delete(process)
        else known.set(process, last)
        return seqOf(last) >= seq ? { result: false } : undefined
      })
      // The report is recorded, also where old counts cannot be dropped: the next one tries again.
      await sweep(hour, retentionHours).catch(() => undefined)
      return { hasLostWrites }
    },
    async usageCounts(account, from, to) {
      const counts: UsageCount[] = []
      const hoursOfAccount = [
        ...new Set([...(await readTable(engine, tag, hourTotalsOf(account))).keys()].map(field => Number.parseInt(field, 10))),
      ]
      const range = hoursOfAccount.filter(hour => hour >= from && hour < to).sort((a, b) => a - b)
      for (let i = 0; i < range.length; i += hoursPerDay)
        counts.push(...(await readCounts(engine, account, range.slice(i, i + hoursPerDay))))
      return counts
    },
    async hourTotals(account, from, to) {
      const range = Array.from({ length: to - from }, (_, i) => from + i)
      const rows = await readTable(
        engine,
        tag,
        hourTotalsOf(account),
        range.flatMap(hour => [`${hour} calls`, `${hour} credits`]),
      )
      return range.flatMap(hour => {
        const calls = rows.get(`${hour} calls`)
        return calls === undefined ? [] : [{ hour, calls: Number(calls), credits: Number(rows.get(`${hour} credits`)) }]
      })
    },
  }
}

const lastReportText = ({ seq, isFinal = false }: UsageReport, hour: number): string => `${seq} ${hour}${isFinal ? ' final' : ''}`

const commitOf = (report: UsageReport, hour: number): Commit => {
  const { process, counts } = report
  const totals = totalsByHour(counts)
  return {
    puts: [
      { table: lastReports, field: process, value: lastReportText(report, hour) },
      ...Array.from(new Set(totals.map(({ hour }) => hour)), hour => ({ table: hours, field: `${hour}`, value: '' })),
      ...totals.map(({ hour, account }) => ({ table: accountsIn(hour), field: account, value: '' })),
    ],
    adds: [
      ...counts.flatMap(count => addsTo(countsOf(count.account, count.hour), usageGroupKey(count), count)),
      ...totals.flatMap(total => addsTo(hourTotalsOf(total.account), `${total.hour}`, total)),
      ...creditsByDay(counts).map(({ account, day, credits }) => ({ table: reportedUseOf(account, day), field: process, by: credits })),
    ],
  }
}

const addsTo = (table: string, name: string, { calls, credits }: { readonly calls: number; readonly credits: number }) => [
  { table, field: `${name} calls`, by: calls },
  { table, field: `${name} credits`, by: credits },
]

/** One account's counts of these hours, of one moment. */
const readCounts = async (engine: Engine, account: string, of: readonly number[]): Promise<readonly UsageCount[]> => {
  const { tables } = await engine.read(
    tag,
    of.map(hour => ({ table: countsOf(account, hour) })),
  )
  return of.flatMap((hour, i) => parseCounts(account, hour, tables[i] ?? new Map()))
}

const parseCounts = (account: string, hour: number, rows: ReadonlyMap<string, string>): readonly UsageCount[] =>
  [...rows].flatMap(([field, calls]) => {
    if (!field.endsWith(' calls')) return []
    const group = field.slice(0, -' calls'.length)
    const [key, network, method, outcome, forwarded] = JSON.parse(group) as [string, string, string, string, boolean] // of usageGroupKey()
    return [
      { account, key, network, method, outcome, forwarded, hour, calls: Number(calls), credits: Number(rows.get(`${group} credits`)) },
    ]
  })

/** All counts, or those of a range of hours. */
export const allCounts = async function* (engine: Engine, range: Parameters<Copyable['allUsageCounts']>[0]): AsyncGenerator<UsageCount> {
  const { from, to } = range ?? { from: 0, to: Infinity }
  const found = [...(await readTable(engine, tag, hours)).keys()].map(Number).filter(hour => hour >= from && hour < to)
  for (const hour of found.sort((a, b) => a - b)) {
    for (const account of (await readTable(engine, tag, accountsIn(hour))).keys()) yield* await readCounts(engine, account, [hour])
  }
}

/** What processes have reported of one account's day, and the credits of its counts: of one moment. */
interface ReportedDay {
  readonly reported: ReadonlyMap<string, ReportedUse>
  readonly counted: number
}

/** `countsUsage`: the credits of the day's counts are summed, of which there may be thousands. */
export const readReportedUse = async (engine: Engine, { account, day, processes, countsUsage }: ReportedDayQuery): Promise<ReportedDay> => {
  const reads: TableRead[] = [{ table: lastReports, fields: processes }, { table: reportedUseOf(account, day) }]
  for (let i = 0; countsUsage && i < hoursPerDay; i += 1) reads.push({ table: countsOf(account, day * hoursPerDay + i) })
  const [last = new Map<string, string>(), use = new Map<string, string>(), ...counts] = (await engine.read(tag, reads)).tables
  const reported = new Map<string, ReportedUse>()
  for (const [process, text] of last) {
    reported.set(process, { credits: Number(use.get(process) ?? 0), isFinal: parseLastReport(text).isFinal })
  }
  let counted = 0
  for (const rows of counts) for (const [field, value] of rows) if (field.endsWith(' credits')) counted += Number(value)
  return { reported, counted }
}

interface ReportedDayQuery {
  readonly account: string
  readonly day: number
  readonly processes: readonly string[]
  readonly countsUsage: boolean
}

/** Records what a process has reported to another store. */
export const restoreReportedUse = async (engine: Engine, [account, day, process, use]: Parameters<Copyable['restoreReportedUse']>) => {
  const reported = { table: reportedUseOf(account, day), field: process, value: `${use.credits}` }
  await engine.commit(tag, { puts: [reported] })
  const last = { table: lastReports, field: process }
  const value = lastReportText({ seq: 0, isFinal: use.isFinal, process, counts: [], retentionHours: 0 }, (day + 1) * hoursPerDay)
  await engine.commit(tag, { guards: [{ ...last, is: undefined }], puts: [{ ...last, value }] })
}

export const dropReportedUse = async (engine: Engine, account: string, of: readonly number[]): Promise<void> => {
  await engine.commit(tag, { drops: of.map(day => reportedUseOf(account, day)) })
}

/** A report that is older than the retention of the ledger cannot be repeated any more. */
const lastReportRetentionHours = (ledgerRetentionDays * dayMs) / hourMs

/** Dropped in one step, during which the store answers nobody else. */
const maxAccountsPerCommit = 50

const dropOldCounts = async (engine: Engine, before: number): Promise<void> => {
  const old = [...(await readTable(engine, tag, hours)).keys()].filter(hour => Number(hour) < before)
  for (const hour of old) {
    const accounts = [...(await readTable(engine, tag, accountsIn(hour))).keys()]
    for (let from = 0; from < accounts.length; from += maxAccountsPerCommit) {
      const some = accounts.slice(from, from + maxAccountsPerCommit)
      await engine.commit(tag, {
        drops: some.map(account => countsOf(account, Number(hour))),
        dels: some.flatMap(account => ['calls', 'credits'].map(sum => ({ table: hourTotalsOf(account), field: `${hour} ${sum}` }))),
      })
    }
    await engine.commit(tag, { drops: [accountsIn(hour)], dels: [{ table: hours, field: hour }] })
  }
}

const dropOldReports = async (engine: Engine, before: number): Promise<void> => {
  const old = [...(await readTable(engine, tag, lastReports))].filter(([, text]) => parseLastReport(text).hour < before)
  await engine.commit(tag, { dels: old.map(([field]) => ({ table: lastReports, field })) })
}
