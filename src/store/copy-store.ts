import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { changeMonths } from '../services/accounts/change-history.ts'
import { dayMs, hoursPerDay } from '../util/dates.ts'
import type { RecordKind } from './record-store.ts'
import { StoreError } from './store.ts'
import type { AccountRow, HashedKey, KeyRow, Store } from './store.ts'
import { usageGroupKey } from './usage-store.ts'
import type { UsageCount } from './usage-store.ts'

/** How much was copied. The members are those of `store copy --json`. */
interface CopySummary {
  readonly accounts: number
  readonly keys: number
  /** Balances of accounts that called today. */
  readonly balances: number
  /** Rows of usage. */
  readonly counts: number
}

/** Called for each account, and then for counts, whose number is not known beforehand. */
export interface CopyProgress {
  accounts(done: number, total: number): void
  counts(done: number): void
}

/**
 * Copies accounts, keys, today's ledger, usage, people, tokens, alerts and the log of changes, then compares all but the last four. Rows
 * of the target stay, so that a copy can be repeated. Rejects with StoreError before anything is written when the target has other
 * accounts of the same names, and afterwards when the stores differ because one was in use.
 */
export const copyStore = async (from: Store, to: Store, progress: CopyProgress): Promise<CopySummary> => {
  const accounts = await from.accounts()
  await rejectNameConflicts(accounts, to)
  let [keys, balances, counts] = [0, 0, 0]
  for (const [index, account] of accounts.entries()) {
    await copyAccount(account, to)
    keys += await copyKeys(account, from, to)
    balances += await copyLedgerDay(account.id, from, to)
    for (const { id } of await keysWithLimit(account, from)) await copyLedgerDay(id, from, to)
    await copyRecords(account, from, to)
    progress.accounts(index + 1, accounts.length)
  }
  await copyChanges(from, to)
  for (const kind of ['deletion', 'drained-node', 'evidence'] as const) {
    for (const record of await from.records(kind, '')) await to.putRecord(kind, record)
  }
  await copyWebhooks(from, to)
  const batch = openUsageBatch(to)
  for await (const hourCounts of countsByHour(from)) {
    await batch.add(await missingCounts(hourCounts, to))
    progress.counts((counts += hourCounts.length))
  }
  await batch.end()
  for (const account of await from.accounts()) await compareAccount(account, from, to)
  for await (const hour of countsByHour(from)) await compareHour(hour, to)
  return { accounts: accounts.length, keys, balances, counts }
}

const rejectNameConflicts = async (accounts: readonly AccountRow[], to: Store): Promise<void> => {
  const taken: string[] = []
  for (const { id, name } of accounts) if (((await to.account(name)) ?? { id }).id !== id) taken.push(name)
  if (taken.length === 0) return
  const names = taken.slice(0, maxListedNames).join(', ')
  const more = taken.length > maxListedNames ? ` and ${taken.length - maxListedNames} more` : ''
  throw new StoreError(`nothing was copied: the target has other accounts of the same name: ${names}${more}`)
}

const maxListedNames = 5

const copyAccount = async (account: AccountRow, to: Store): Promise<void> => {
  const { id, plan, credits = null, label = null, suspended = null, deleteAt = null, declared = null, requestLog = null } = account
  if (!(await to.addAccount(account))) await to.changeAccount(id, { plan, credits, label, suspended, deleteAt, declared, requestLog })
}

const copyKeys = async ({ id }: AccountRow, from: Store, to: Store): Promise<number> => {
  const found = await from.hashedKeys(id)
  for (const { hash, key } of found) await to.addKey(hash, mergeRevocation(key, (await to.findKey(hash))?.key))
  return found.length
}

/** A key that is revoked in either store is revoked. */
const mergeRevocation = (key: KeyRow, existing: KeyRow | undefined): KeyRow => ({
  ...(existing?.revoked !== undefined && { revoked: existing.revoked }),
  ...key,
})

/** The days of these keys are in the ledger beside that of their account. */
const keysWithLimit = async ({ id }: AccountRow, store: Store): Promise<readonly KeyRow[]> =>
  (await store.keys(id)).filter(({ dailyCredits }) => dailyCredits !== undefined)

/** The target restores a day like a store that lost its last writes: from what each process was granted, returned and used. */
const copyLedgerDay = async (id: string, from: Store, to: Store): Promise<number> => {
  const { today: day } = await from.dayTotals(id)
  const { leases, reported } = await from.dayRecords(id, day)
  for (const [process, { seq, ...counters }] of leases) {
    await to.requestLease({ account: id, day, process, seq, counters, minCredits: 0, desiredCredits: 0, limit: 0, shareDivisor: 1 })
  }
  for (const [process, use] of reported) await to.restoreReportedUse(id, day, process, use)
  return leases.size > 0 ? 1 : 0
}

/** People, their tokens, and alerts with what was sent of them. Sessions and sign-in links are not copied: people sign in anew. */
const copyRecords = async ({ id }: AccountRow, from: Store, to: Store): Promise<void> => {
  for (const kind of ['person', 'email', 'identity', 'identity-of', 'token', 'delivery'] as const) {
    for (const record of await from.records(kind, id)) await to.putRecord(kind, record)
  }
  await copyRecord('alerts', id, from, to)
}

const copyRecord = async (kind: RecordKind, id: string, from: Store, to: Store): Promise<void> => {
  const record = await from.findRecord(kind, id)
  if (record !== undefined) await to.putRecord(kind, record)
}

/** How far the usage webhook has got, and the key of which receivers of alerts have secrets. */
const copyWebhooks = async (from: Store, to: Store): Promise<void> => {
  await copyRecord('delivery', 'usage-webhook', from, to)
  await copyRecord('secret', 'webhooks', from, to)
}

/** The log of changes. */
const copyChanges = async (from: Store, to: Store): Promise<void> => {
  const { today } = await from.dayBalance('')
  for (const month of changeMonths(today * dayMs)) {
    for (const record of await from.records('change', month)) await to.putRecord('change', record)
  }
}

/** One array for the counts of each account and hour. */
const countsByHour = async function* (from: Store): AsyncGenerator<readonly UsageCount[]> {
  let rows: UsageCount[] = []
  for await (const count of from.allUsageCounts()) {
    if (rows[0] !== undefined && (rows[0].hour !== count.hour || rows[0].account !== count.account)) {
      yield rows
      rows = []
    }
    rows.push(count)
  }
  if (rows.length > 0) yield rows
}

/** The counts that the target lacks. Counts of its own are not taken away. */
const missingCounts = async (rows: readonly UsageCount[], to: Store): Promise<readonly UsageCount[]> => {
  const [{ account = '', hour = 0, isWholeDay = false } = {}] = rows
  const period = isWholeDay ? 'day' : 'hour'
  const start = isWholeDay ? Math.floor(hour / hoursPerDay) : hour
  const [found] = await to.usageRows(account, period, start, start + 1)
  const existing = new Map(found?.rows.map(({ group, ...sums }) => [usageGroupKey(group), sums]))
  return rows.flatMap(row => {
    const { calls, credits, latencies: known = [] } = existing.get(usageGroupKey(row)) ?? { calls: 0, credits: 0 }
    const difference = { calls: Math.max(0, row.calls - calls), credits: Math.max(0, row.credits - credits) }
    if (difference.calls === 0 && difference.credits === 0) return []
    const latencies = row.latencies?.map((count, i) => Math.max(0, count - (known[i] ?? 0)))
    return [{ ...row, ...difference, ...(latencies && { latencies }) }]
  })
}

/** Reports counts to the target in batches. */
const openUsageBatch = (to: Store) => {
  const process = `copy-${randomBytes(8).toString('hex')}`
  let [seq, counts]: [number, UsageCount[]] = [0, []]
  const flush = async () => {
    if (counts.length > 0) await to.reportUsage({ process, seq: (seq += 1), counts, retentionHours: unlimitedRetentionHours })
    counts = []
  }
  return {
    end: flush,
    async add(more: readonly UsageCount[]) {
      counts.push(...more)
      if (counts.length >= maxBatchedCounts) await flush()
    },
  }
}

const maxBatchedCounts = 500
/** A hundred years: gateways drop old counts, a copy does not. */
const unlimitedRetentionHours = 100 * 366 * hoursPerDay

const compareAccount = async (account: AccountRow, from: Store, to: Store): Promise<void> => {
  const copied = keysByHash(await to.hashedKeys(account.id))
  const keys = keysByHash(await from.hashedKeys(account.id)).map(([hash, key], i) => [hash, mergeRevocation(key, copied[i]?.[1])])
  if (!isDeepStrictEqual([await from.account(account.id), keys], [await to.account(account.id), copied])) {
    throw mismatch(`account ${account.name} or its keys`)
  }
  await compareLedgerDay(account.id, `account ${account.name}`, from, to)
  for (const { id } of await keysWithLimit(account, from)) await compareLedgerDay(id, `key ${id}`, from, to)
}

const compareLedgerDay = async (id: string, owner: string, from: Store, to: Store): Promise<void> => {
  const { day, leased, used } = await from.dayTotals(id)
  const copied = await to.dayTotals(id, day)
  if (copied.leased !== leased || copied.used !== used) throw mismatch(`the balance of ${owner}`)
}

const keysByHash = (keys: readonly HashedKey[]): readonly (readonly [hash: string, key: KeyRow])[] =>
  keys.map(({ hash, key }) => [hash, key] as const).sort(([one], [other]) => (one < other ? -1 : 1))

const compareHour = async (rows: readonly UsageCount[], to: Store): Promise<void> => {
  if ((await missingCounts(rows, to)).length > 0) throw mismatch(`the usage of account ${rows[0]?.account}`)
}

const mismatch = (what: string): StoreError =>
  new StoreError(`copied, but the stores differ: ${what} changed meanwhile; stop the gateways and copy again`)
