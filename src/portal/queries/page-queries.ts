import { setImmediate } from 'node:timers/promises'
import { addUpUsage, groupUsage } from '../../services/account-reports.ts'
import type { GroupedUsage, Grouping } from '../../services/account-reports.ts'
import { accountState } from '../../services/accounts/account-state.ts'
import { accountIdPrefix } from '../../services/accounts/api-key.ts'
import type { AccountState } from '../../services/accounts/account-state.ts'
import { changeForOwners, readChanges } from '../../services/accounts/change-history.ts'
import type { Change, ChangeAction } from '../../services/accounts/change-history.ts'
import { summarizeEvidence } from '../../services/evidence.ts'
import type { EvidenceSummary } from '../../services/evidence.ts'
import type { FoundRequest, LatestRequests } from '../../store/request-log-store.ts'
import type { AccountRow, KeyRow, Store } from '../../store/store.ts'
import { hourRetentionDays, successOutcome } from '../../store/usage-store.ts'
import type { Clock } from '../../services/clock.ts'
import { dayMs, hoursPerDay, isoDate } from '../../util/dates.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { AccountUseCache } from './account-overview.ts'
import type { AccountOverview, AccountOverviewOptions, OverviewStore, UsedAccount } from './account-overview.ts'
import { readLatestRequests, readRequests } from './request-queries.ts'
import type { LatestRequestsQuery, RequestPage, RequestPageOptions } from './request-queries.ts'
import { openTrafficOverTime } from './traffic-over-time.ts'
import type { PeriodTraffic, TrafficRange } from './traffic-over-time.ts'

/** What operations read of accounts, calls and changes. */
export interface PageQueries {
  /** Accounts whose name or label has the text, or whose id begins with it, and those that are named; of one state, where that is named. */
  accountPage(options: AccountPageOptions): Promise<AccountPage>
  /** Which accounts need the operator, and why. */
  accountOverview(options: AccountOverviewOptions): Promise<AccountOverview>
  /** Keys of all accounts whose text ends so. */
  keysWithHint(options: { readonly hint: string }): Promise<readonly KeyRow[]>
  /** The logged requests of an account. */
  requests(options: RequestPageOptions): Promise<RequestPage>
  /** Changes of some days, with the text in one of their members. */
  changePage(options: ChangePageOptions): Promise<ChangePage>
  /** Wrong results of nodes that are kept: up to 200, each of some KiB. */
  evidence(filter: Parameters<typeof summarizeEvidence>[1]): Promise<readonly EvidenceSummary[]>
  /** Of all accounts, since a time in ms since 1970; the newest first. */
  requestsById(options: { readonly requestId: string; readonly since: number }): Promise<readonly FoundRequest[]>
  /** Of all accounts, or of one. */
  latestRequests(options: LatestRequestsQuery): Promise<LatestRequests>
  /** The calls of an account of today and the days before. */
  callCounts(options: { readonly account: string; readonly by: Grouping; readonly days: number }): Promise<CallCounts>
  /** All calls, and the failed ones by network and outcome. */
  failures(query: FailureQuery): Promise<FailureReport>
  /** All accounts together, by account or by a dimension; the most credits first. */
  totals(query: TotalsQuery): Promise<GroupedUsage>
  /** All accounts together, by time. */
  trafficOverTime(range: TrafficRange): Promise<readonly PeriodTraffic[]>
}

interface FailureQuery {
  /** Hours since 1970, UTC: from `from` up to, not including, `to`; whole days where hours are not kept any more. */
  readonly from: number
  readonly to: number
  /** By its id; undefined: all of them. */
  readonly account: string | undefined
  readonly network: string | undefined
}

interface FailureReport {
  /** Failed or not. */
  readonly calls: number
  readonly groups: readonly FailureGroup[]
}

/** The calls of one network that failed with one outcome. */
interface FailureGroup {
  readonly network: string
  readonly outcome: string
  readonly calls: number
  /** All calls of the network, of the same accounts. */
  readonly callsOfNetwork: number
  /** How many accounts made them. */
  readonly accounts: number
  /** The hours of the first and the last of them, since 1970, UTC; of hours that are not kept any more, the first hour of the day. */
  readonly hours: { readonly first: number; readonly last: number }
  /** The account with the most of them. */
  readonly most: { readonly account: string; readonly calls: number }
  /** The methods with the most of them, `maxMethods` at most, and how many methods there are. */
  readonly methods: readonly { readonly method: string; readonly calls: number }[]
  readonly methodCount: number
}

interface TotalsQuery {
  /** Hours since 1970, UTC: from `from` up to, not including, `to`. */
  readonly from: number
  readonly to: number
  readonly by: Grouping | 'account'
}

interface AccountPageOptions {
  readonly search: string
  /** Ids of accounts that the text finds otherwise. */
  readonly also: readonly string[]
  readonly state?: AccountState | undefined
  readonly sort: 'name' | 'used'
  /** `next` of the part before; empty for the first. */
  readonly after: string
  readonly limit: number
}

/** A part of the accounts. */
interface AccountPage {
  readonly accounts: readonly UsedAccount[]
  /** Where the next part begins: after the name, or so many accounts by use; undefined at the end. */
  readonly next: string | undefined
}

interface ChangePageOptions {
  /** First and last day, YYYY-MM-DD. */
  readonly from: string
  readonly to: string
  readonly search: string
  /** A part of the kind or the name of the author. */
  readonly by: string
  /** Undefined: of every kind. */
  readonly action?: ChangeAction | undefined
  /** Name or id; undefined: of all accounts. */
  readonly account?: string | undefined
  /** As owners of the account see them, by its id. */
  readonly forOwners?: boolean
  readonly order: 'newest' | 'oldest'
  readonly offset: number
  readonly limit: number
}

/** A part of the log of changes. */
export interface ChangePage {
  readonly changes: readonly Change[]
  /** All that were found. */
  readonly changeCount: number
}

export interface CallCounts extends GroupedUsage {
  /** First and last day, YYYY-MM-DD. */
  readonly from: string
  readonly to: string
}

type PageStore = OverviewStore &
  Pick<
    Store,
    | 'dayTotals'
    | 'usageCounts'
    | 'usageRows'
    | 'usageAccounts'
    | 'allUsageCounts'
    | 'findRequests'
    | 'latestRequests'
    | 'requests'
    | 'keysWithHint'
  >

export const createPageQueries = (store: PageStore, clock: Pick<Clock, 'now' | 'monotonic'>): PageQueries => {
  const accountUse = new AccountUseCache(store, clock)
  return {
    accountPage: ({ sort, ...options }) =>
      sort === 'used' ? readPageByUse(accountUse, options) : readPageByName(store, accountUse, options),
    accountOverview: options => accountUse.overview(options),
    keysWithHint: ({ hint }) => store.keysWithHint(hint),
    requests: options => readRequests(store, options),
    changePage: options => readChangePage(store, options),
    evidence: filter => summarizeEvidence(store, filter),
    requestsById: async ({ requestId, since }) => (await store.findRequests(requestId)).filter(({ time }) => time >= since),
    latestRequests: options => readLatestRequests(store, options),
    callCounts: options => readCallCounts(store, options),
    failures: query => readFailures(store, query),
    trafficOverTime: openTrafficOverTime(store, clock),
    totals: ({ from, to, by }) => groupUsage(store.allUsageCounts({ from, to }), by),
  }
}

type PageReader = Omit<AccountPageOptions, 'sort'>

const isFound = (row: AccountRow, { search, also, state }: Pick<PageReader, 'search' | 'also' | 'state'>): boolean => {
  const { id, name, formerNames = [], label = '' } = row
  const text = search.toLowerCase()
  const isMeant =
    [name, label, ...formerNames].some(each => each.toLowerCase().includes(text)) ||
    (search.startsWith(accountIdPrefix) && id.startsWith(search)) ||
    also.includes(id)
  return isMeant && (state === undefined || state === accountState(row))
}

const readPageByName = async (store: PageStore, use: AccountUseCache, { after, limit, ...asked }: PageReader): Promise<AccountPage> => {
  const found = (await store.accounts()).filter(row => row.name > after && isFound(row, asked))
  const rows = found.slice(0, limit)
  return { accounts: await use.of(rows), next: found.length > limit ? rows.at(-1)?.name : undefined }
}

const readPageByUse = async (use: AccountUseCache, { after, limit, ...asked }: PageReader): Promise<AccountPage> => {
  const found = (await use.byUse()).filter(({ row }) => isFound(row, asked))
  const end = Number(after) + limit
  return { accounts: found.slice(Number(after), end), next: found.length > end ? String(end) : undefined }
}

const readChangePage = async (store: Pick<Store, 'records'>, options: ChangePageOptions): Promise<ChangePage> => {
  const { from, to, search, by, action, account, forOwners = false, order, offset, limit } = options
  const [text, author] = [search.toLowerCase(), by.toLowerCase()]
  // The name of an account may be that of one which no longer exists.
  const isOfAccount = ({ account: of }: Change): boolean =>
    account === undefined || of?.id === account || (!forOwners && of?.name === account)
  const isFound = (change: Change): boolean =>
    change.time >= from &&
    change.time.slice(0, 10) <= to &&
    (action === undefined || change.action === action) &&
    `${change.by.kind} ${change.by.name}`.toLowerCase().includes(author) &&
    textOfChange(change).includes(text)
  const found: Change[] = []
  for (const month of monthsBetween(from, to)) {
    const changes = (await readChanges(store, month)).filter(isOfAccount)
    // What owners do not see cannot be found either.
    const shown = forOwners ? changes.flatMap(change => changeForOwners(change) ?? []) : changes
    found.push(...shown.filter(isFound))
    await setImmediate()
  }
  const ordered = order === 'newest' ? found.reverse() : found
  return { changes: ordered.slice(offset, offset + limit), changeCount: found.length }
}

/** The oldest first, of those that changes are kept for. */
const monthsBetween = (from: string, to: string): readonly string[] => {
  const months: string[] = []
  for (let month = to.slice(0, 7); month >= from.slice(0, 7) && months.length < maxMonths; month = monthBefore(month)) months.unshift(month)
  return months
}

/** Of 400 days. */
const maxMonths = 15

const monthBefore = (month: string): string => {
  const [year = 0, number = 0] = month.split('-').map(Number)
  return new Date(Date.UTC(year, number - 2)).toISOString().slice(0, 7)
}

const readCallCounts = async (
  store: Pick<Store, 'dayTotals' | 'usageCounts' | 'usageRows'>,
  { account, by, days }: Parameters<PageQueries['callCounts']>[0],
): Promise<CallCounts> => {
  const { day: today } = await store.dayTotals(account)
  const firstDay = today - (by === 'hour' ? Math.min(days - 1, hourRetentionDays) : days - 1)
  const counts =
    by === 'hour'
      ? await store.usageCounts(account, firstDay * hoursPerDay, (today + 1) * hoursPerDay)
      : await readDayCounts(store, account, firstDay, today + 1)
  return { from: isoDate(firstDay * dayMs), to: isoDate(today * dayMs), ...(await groupUsage(counts, by)) }
}

const readFailures = async (store: PageStore, { from, to, account, network: asked }: FailureQuery): Promise<FailureReport> => {
  const counts = account === undefined ? store.allUsageCounts({ from, to }) : await readAccountCounts(store, account, from, to)
  const groups = await addUpUsage(counts, ({ network, outcome, account: id, method }) => {
    if (asked !== undefined && network !== asked) return undefined
    return outcome === successOutcome ? network : `${network} ${outcome} ${id} ${method}`
  })
  const callsOf = new Map<string, number>()
  const failures = new Map<string, ReturnType<typeof newFailure>>()
  for (const { first, sums, hours } of groups.values()) {
    const { network, outcome } = first
    const { calls } = sums
    callsOf.set(network, (callsOf.get(network) ?? 0) + calls)
    // Calls that were taken back leave a group of none.
    if (outcome === successOutcome || calls <= 0) continue
    const failure = getOrCreate(failures, `${network} ${outcome}`, () => newFailure(network, outcome))
    failure.calls += calls
    failure.hours = { first: Math.min(failure.hours.first, hours.first), last: Math.max(failure.hours.last, hours.last) }
    addTo(failure.byAccount, first.account, calls)
    addTo(failure.byMethod, first.method, calls)
  }
  const found = Array.from(failures.values(), ({ byAccount, byMethod, ...failure }) => {
    const [[account, calls] = ['', 0]] = mostFirst(byAccount)
    return {
      ...failure,
      callsOfNetwork: callsOf.get(failure.network) ?? 0,
      accounts: byAccount.size,
      most: { account, calls },
      methods: mostFirst(byMethod)
        .slice(0, maxMethods)
        .map(([method, calls]) => ({ method, calls })),
      methodCount: byMethod.size,
    }
  })
  return { calls: [...callsOf.values()].reduce((sum, calls) => sum + calls, 0), groups: found }
}

/** Of each group of failures. */
const maxMethods = 5

const newFailure = (network: string, outcome: string) => ({
  network,
  outcome,
  calls: 0,
  hours: { first: Infinity, last: -Infinity },
  byAccount: new Map<string, number>(),
  byMethod: new Map<string, number>(),
})

const addTo = (counts: Map<string, number>, name: string, calls: number): void => void counts.set(name, (counts.get(name) ?? 0) + calls)

const mostFirst = (counts: ReadonlyMap<string, number>) => [...counts].sort(([, a], [, b]) => b - a)

const readAccountCounts = async (store: PageStore, account: string, from: number, to: number) => {
  const areHoursKept = from >= to - hourRetentionDays * hoursPerDay
  if (areHoursKept) return store.usageCounts(account, from, to)
  return readDayCounts(store, account, Math.floor(from / hoursPerDay), Math.ceil(to / hoursPerDay))
}

const readDayCounts = async (store: Pick<Store, 'usageRows'>, account: string, from: number, to: number) =>
  (await store.usageRows(account, 'day', Math.max(0, from), to)).flatMap(({ start, rows }) =>
    rows.map(({ group, ...sums }) => ({ ...group, hour: start * hoursPerDay, ...sums })),
  )

/** What `search` looks in, in lower case. */
const textOfChange = ({ time, by, action, account, target = '', before = {}, after = {} }: Change): string =>
  [time, by.kind, by.name, action, account?.name, account?.id, target, ...[before, after].map(members => JSON.stringify(members))]
    .join(' ')
    .toLowerCase()
