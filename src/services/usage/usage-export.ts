import { hash } from 'node:crypto'
import { usageGroupKey } from '../../store/usage-store.ts'
import type { UsageCount } from '../../store/usage-store.ts'
import type { StoreDetails } from '../../store/store.ts'
import { dayMs, hourMs, hoursPerDay, isoDate } from '../../util/dates.ts'

/** The calls of one group on one day, as a billing system reads them. The members are those of `usage export --json`. */
export interface UsageExportRow {
  /** The same in every export: a system that has read the row replaces it. */
  readonly id: string
  /** YYYY-MM-DD, UTC. */
  readonly day: string
  readonly accountId: string
  readonly key: string
  readonly network: string
  readonly method: string
  readonly outcome: string
  readonly forwarded: boolean
  readonly calls: number
  readonly credits: number
}

/** Milliseconds since 1970: from `from` up to, not including, `to`. */
export interface Month {
  readonly from: number
  readonly to: number
}

/** Undefined when the text is not YYYY-MM. */
export const parseMonth = (text: string): Month | undefined => {
  const [, year = '', month = ''] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text) ?? []
  return year === '' ? undefined : { from: Date.UTC(Number(year), Number(month) - 1), to: Date.UTC(Number(year), Number(month)) }
}

/** All calls of a month, by day and then by account; one day is in memory at a time. */
export const exportUsage = async function* (
  store: Pick<StoreDetails, 'allUsageCounts'>,
  { from, to }: Month,
): AsyncGenerator<UsageExportRow> {
  for (let day = from / dayMs; day < to / dayMs; day += 1) {
    const rows = new Map<string, UsageExportRow>()
    for await (const count of store.allUsageCounts({ from: day * hoursPerDay, to: (day + 1) * hoursPerDay })) addToDay(rows, count)
    yield* sortedRows(rows)
  }
}

/** The rows of these counts, which are of one day. */
export const toUsageRows = (counts: readonly UsageCount[]): readonly UsageExportRow[] => {
  const rows = new Map<string, UsageExportRow>()
  for (const count of counts) addToDay(rows, count)
  return sortedRows(rows)
}

const sortedRows = (rows: ReadonlyMap<string, UsageExportRow>): readonly UsageExportRow[] =>
  [...rows.values()].filter(({ calls }) => calls !== 0).sort(compareRows)

const addToDay = (rows: Map<string, UsageExportRow>, { account, hour, calls, credits, ...group }: UsageCount): void => {
  const groupKey = `${account} ${usageGroupKey({ account, ...group })}`
  const day = isoDate(hour * hourMs)
  const known = rows.get(groupKey)
  rows.set(groupKey, {
    id: known?.id ?? hash('sha256', `${day} ${groupKey}`, 'hex').slice(0, idChars),
    day,
    accountId: account,
    ...group,
    calls: (known?.calls ?? 0) + calls,
    credits: (known?.credits ?? 0) + credits,
  })
}

/** 128 bits. */
const idChars = 32

const compareRows = (a: UsageExportRow, b: UsageExportRow): number =>
  a.accountId === b.accountId ? (a.id < b.id ? -1 : 1) : a.accountId < b.accountId ? -1 : 1
