import { setImmediate } from 'node:timers/promises'
import { toUsageRows } from '../../services/usage/usage-export.ts'
import type { UsageExportRow } from '../../services/usage/usage-export.ts'
import type { Store } from '../../store/store.ts'
import { storeTimeOf } from '../../store/store-clock.ts'
import { hourMs, hoursPerDay } from '../../util/dates.ts'

type DayStore = Pick<Store, 'accounts' | 'usageAccounts' | 'usageRows' | 'dayTotals'>

/** A row of `usage export`, with the name of its account; the id of one that has been removed. */
interface NamedUsageRow extends UsageExportRow {
  readonly account: string
}

/** The last row of a page. */
export interface UsageRowCursor {
  readonly account: string
  readonly id: string
}

export interface UsagePageOptions {
  /** Days since 1970, UTC. */
  readonly day: number
  /** Undefined: from the beginning. */
  readonly after: UsageRowCursor | undefined
  readonly limit: number
}

export interface UsagePage {
  readonly rows: readonly NamedUsageRow[]
  /** Undefined at the end. */
  readonly next: UsageRowCursor | undefined
}

/** A part of the rows of a day, by the ids of accounts, then by those of rows. */
export const readUsagePage = async (store: DayStore, { day, after, limit }: UsagePageOptions): Promise<UsagePage> => {
  const rows: NamedUsageRow[] = []
  const names = new Map((await store.accounts()).map(({ id, name }) => [id, name]))
  const ids = (await store.usageAccounts('day', day)).filter(id => after === undefined || id >= after.account)
  for (const id of ids.sort()) {
    const [found] = await store.usageRows(id, 'day', day, day + 1)
    const counts = (found?.rows ?? []).map(({ group, ...sums }) => ({ ...group, hour: day * hoursPerDay, ...sums }))
    const accountRows = toUsageRows(counts).filter(row => id !== after?.account || row.id > after.id)
    rows.push(...accountRows.map(row => ({ ...row, account: names.get(id) ?? id })))
    const last = rows[limit - 1]
    if (rows.length > limit && last !== undefined) return { rows: rows.slice(0, limit), next: { account: last.accountId, id: last.id } }
    await setImmediate()
  }
  return { rows, next: undefined }
}

/** What the ledger has of a day. */
export interface LedgerDayState {
  readonly used: number
  /**
   * True when the usage of all calls has been reported: no process holds credits of the day, none that held some fell silent in the last 6 hours, and used
   * and counted credits agree.
   */
  readonly isSettled: boolean
}

/** A gateway that could not reach the store for longer reports later than its day is sent. */
export const maxSettlingMs = 6 * hourMs

/** Requests to a store over the network that wait together. */
const accountsPerRead = 50

/** All accounts together. */
export const readLedgerDay = async (store: DayStore, { day }: { readonly day: number }): Promise<LedgerDayState> => {
  let used = 0
  let isSettled = true
  const accounts = await store.accounts()
  for (let from = 0; from < accounts.length; from += accountsPerRead) {
    const part = accounts.slice(from, from + accountsPerRead)
    for (const totals of await Promise.all(part.map(({ id }) => store.dayTotals(id, day)))) {
      used += totals.used
      const silentMs = storeTimeOf(totals) - (totals.silentHour ?? -Infinity) * hourMs
      isSettled &&= totals.held === 0 && totals.used === totals.counted && silentMs >= maxSettlingMs
    }
    await setImmediate()
  }
  return { used, isSettled }
}
