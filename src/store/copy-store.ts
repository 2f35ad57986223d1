import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { StoreError, usageGroupKey } from './store.ts'
import type { AccountRow, HashedKey, KeyRow, Store, UsageCount } from './store.ts'

/** How much there was to copy. */
export interface CopySummary {
  readonly accounts: number
  readonly keys: number
  /** Of accounts that called today. */
  readonly balances: number
  /** Rows of counts of calls. */
  readonly counts: number
}

/** Told of each account, and then of the counts, of which nobody knows beforehand how many there are. */
export interface CopyProgress {
  accounts(done: number, all: number): void
  counts(done: number): void
}

/**
 * Copies accounts, keys, today's ledger and counts of calls, and compares them afterwards. What the target has already
 * stays, so that a copy can be repeated. Rejects with StoreFault, before anything is written, when names are taken, and
 * afterwards when the two differ because one was in use.
 */
export const copyStore = async (from: Store, to: Store, progress: CopyProgress): Promise<CopySummary> => {
  const accounts = await from.accounts()
  await rejectNameConflicts(accounts, to)
  let [keys, balances, counts] = [0, 0, 0]
  for (const [index, account] of accounts.entries()) {
    await copyAccount(account, to)
    keys += await copyKeys(account, from, to)
    balances += await copyLedgerDay(account, from, to)
    progress.accounts(index + 1, accounts.length)
  }
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
  const names = taken.slice(0, 5).join(', ') + (taken.length > 5 ? ` and ${taken.length - 5} more` : '')
  throw new StoreError(`nothing was copied: the target has other accounts of the same name: ${names}`)
}

const copyAccount = async (account: AccountRow, to: Store): Promise<void> => {
  if (!(await to.addAccount(account))) await to.changeAccount(account.id, { plan: account.plan, credits: account.credits ?? null })
}

const copyKeys = async ({ id }: AccountRow, from: Store, to: Store): Promise<number> => {
  const found = await from.hashedKeys(id)
  for (const { hash, key } of found) await to.addKey(hash, mergeRevocation(key, (await to.findKey(hash))?.key))
  return found.length
}

/** Revoked in either of the two is revoked. */
const mergeRevocation = (key: KeyRow, existing: KeyRow | undefined): KeyRow => ({
  ...(existing?.revoked !== undefined && { revoked: existing.revoked }),
  ...key,
})

/** The target learns a day like a store that lost its last writes: each process says what it got, returned and used. */
const copyLedgerDay = async ({ id }: AccountRow, from: Store, to: Store): Promise<number> => {
  const { today: day } = await from.dayTotals(id)
  const records = await from.leaseRecords(id, day)
  for (const [process, { seq, ...counters }] of records) {
    await to.requestLease({ account: id, day, process, seq, counters, minCredits: 0, desiredCredits: 0, limit: 0, shareDivisor: 1 })
  }
  return records.size > 0 ? 1 : 0
}

/** Counts of one account and hour, together. */
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

/** What has to be added to the target. What it has counted itself meanwhile is not taken away. */
const missingCounts = async (rows: readonly UsageCount[], to: Store): Promise<readonly UsageCount[]> => {
  const [{ account = '', hour = 0 } = {}] = rows
  const known = new Map((await to.usageCounts(account, hour, hour + 1)).map(count => [usageGroupKey(count), count]))
  return rows.flatMap(row => {
    const { calls, credits } = known.get(usageGroupKey(row)) ?? { calls: 0, credits: 0 }
    const difference = { calls: Math.max(0, row.calls - calls), credits: Math.max(0, row.credits - credits) }
    return difference.calls > 0 || difference.credits > 0 ? [{ ...row, ...difference }] : []
  })
}

/** Reports counts to the target, many at once. */
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
      if (counts.length >= 500) await flush()
    },
  }
}

/** A hundred years: what is too old is for gateways to drop. */
const unlimitedRetentionHours = 100 * 366 * 24

const compareAccount = async (account: AccountRow, from: Store, to: Store): Promise<void> => {
  const copied = keysByHash(await to.hashedKeys(account.id))
  const keys = keysByHash(await from.hashedKeys(account.id)).map(([hash, key], i) => [hash, mergeRevocation(key, copied[i]?.[1])])
  if (!isDeepStrictEqual([await from.account(account.id), keys], [await to.account(account.id), copied])) {
    throw mismatch(`account ${account.name} or its keys`)
  }
  const { day, leased, used } = await from.dayTotals(account.id)
  const copiedTotals = await to.dayTotals(account.id, day)
  if (copiedTotals.leased !== leased || copiedTotals.used !== used) throw mismatch(`the balance of account ${account.name}`)
}

const keysByHash = (keys: readonly HashedKey[]): readonly (readonly [hash: string, key: KeyRow])[] =>
  keys.map(({ hash, key }) => [hash, key] as const).sort(([one], [other]) => (one < other ? -1 : 1))

const compareHour = async (rows: readonly UsageCount[], to: Store): Promise<void> => {
  if ((await missingCounts(rows, to)).length > 0) throw mismatch(`the usage of account ${rows[0]?.account}`)
}

const mismatch = (what: string): StoreError =>
  new StoreError(`copied, but not the same: ${what} changed meanwhile; stop the gateways and copy again`)
