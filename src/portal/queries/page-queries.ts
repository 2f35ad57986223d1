import { groupUsage, totalUsage } from '../../services/account-reports.ts'
import type { Grouping, UsageTotals } from '../../services/account-reports.ts'
import { readChanges } from '../../services/accounts/change-history.ts'
import type { Change } from '../../services/accounts/change-history.ts'
import type { AccountRow, Store } from '../../store/store.ts'
import { dayMs, hoursPerDay, isoDate } from '../../util/dates.ts'

/** What operations read of accounts, calls and changes. */
export interface PageQueries {
  /** Accounts whose name or label has the text, after the name `after`. */
  accountPage(options: { readonly search: string; readonly after: string; readonly limit: number }): Promise<AccountPage>
  /** Changes of a month, YYYY-MM, with the text in one of their members. */
  changePage(options: ChangePageOptions): Promise<ChangePage>
  /** The calls of an account of today and the days before. */
  callCounts(options: { readonly account: string; readonly by: Grouping; readonly days: number }): Promise<CallCounts>
}

/** A part of the accounts, in the order of their names. */
interface AccountPage {
  readonly accounts: readonly AccountRow[]
  /** The name after which the next part begins; undefined at the end. */
  readonly next: string | undefined
}

interface ChangePageOptions {
  readonly month: string
  readonly search: string
  /** Name or id; undefined: of all accounts. */
  readonly account?: string | undefined
  readonly order: 'newest' | 'oldest'
  readonly offset: number
  readonly limit: number
}

/** A part of the log of changes of a month. */
export interface ChangePage {
  readonly changes: readonly Change[]
  /** Of the month, with the text. */
  readonly changeCount: number
}

export interface CallCounts {
  /** First and last day, YYYY-MM-DD. */
  readonly from: string
  readonly to: string
  readonly groups: readonly UsageTotals[]
  readonly total: Omit<UsageTotals, 'name'>
}

export const createPageQueries = (store: Pick<Store, 'accounts' | 'records' | 'dayTotals' | 'usageCounts'>): PageQueries => ({
  async accountPage({ search, after, limit }) {
    const text = search.toLowerCase()
    const found = (await store.accounts()).filter(
      ({ name, label = '' }) => name > after && (name.toLowerCase().includes(text) || label.toLowerCase().includes(text)),
    )
    const accounts = found.slice(0, limit)
    return { accounts, next: found.length > limit ? accounts.at(-1)?.name : undefined }
  },
  async changePage({ month, search, account, order, offset, limit }) {
    const text = search.toLowerCase()
    const found = (await readChanges(store, month)).filter(
      change =>
        (account === undefined || [change.account?.id, change.account?.name].includes(account)) && textOfChange(change).includes(text),
    )
    const ordered = order === 'newest' ? found.reverse() : found
    return { changes: ordered.slice(offset, offset + limit), changeCount: found.length }
  },
  async callCounts({ account, by, days }) {
    const { day: today } = await store.dayTotals(account)
    const firstDay = today - days + 1
    const counts = await store.usageCounts(account, firstDay * hoursPerDay, (today + 1) * hoursPerDay)
    const { name: _, ...total } = totalUsage(counts)
    return { from: isoDate(firstDay * dayMs), to: isoDate(today * dayMs), groups: groupUsage(counts, by), total }
  },
})

/** What `search` looks in, in lower case. */
const textOfChange = ({ time, by, action, account, target = '', before = {}, after = {} }: Change): string =>
  [time, by.kind, by.name, action, account?.name, account?.id, target, ...[before, after].map(members => JSON.stringify(members))]
    .join(' ')
    .toLowerCase()
