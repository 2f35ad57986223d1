import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { StoreFault, groupOf } from './store.ts'
import type { AccountRow, HashedKey, KeyRow, Store, UsageCount } from './store.ts'

/** How much there was to copy. */
export interface Copied {
  readonly accounts: number
  readonly keys: number
  /** Of accounts that called today. */
  readonly balances: number
  /** Rows of counts of calls. */
  readonly counts: number
}

/** Told of each account, and then of the counts, of which nobody knows beforehand how many there are. */
export interface Progress {
  accounts(done: number, all: number): void
  counts(done: number): void
}

/**
 * Copies accounts, keys, today's ledger and counts of calls, and compares them afterwards. What the target has already
 * stays, so that a copy can be repeated. Rejects with StoreFault, before anything is written, when names are taken, and
 * afterwards when the two differ because one was in use.
 */
export const copyStore = async (from: Store, to: Store, progress: Progress): Promise<Copied> => {
  const accounts = await from.accounts()
  await refuseTaken(accounts, to)
  let [keys, balances, counts] = [0, 0, 0]
  for (const [done, account] of accounts.entries()) {
    await copyAccount(account, to)
    keys += await copyKeys(account, from, to)
    balances += await copyDay(account, from, to)
    progress.accounts(done + 1, accounts.length)
  }
  const sheet = openSheet(to)
  for await (const hour of hoursOf(from)) {
    await sheet.add(await missing(hour, to))
    progress.counts((counts += hour.length))
  }
  await sheet.end()
  for (const account of await from.accounts()) await compareAccount(account, from, to)
  for await (const hour of hoursOf(from)) await compareHour(hour, to)
  return { accounts: accounts.length, keys, balances, counts }
}

const refuseTaken = async (accounts: readonly AccountRow[], to: Store): Promise<void> => {
  const taken: string[] = []
  for (const { id, name } of accounts) if (((await to.account(name)) ?? { id }).id !== id) taken.push(name)
  if (taken.length === 0) return
  const names = taken.slice(0, 5).join(', ') + (taken.length > 5 ? ` and ${taken.length - 5} more` : '')
  throw new StoreFault(`nothing was copied: the target has other accounts of the same name: ${names}`)
}

const copyAccount = async (account: AccountRow, to: Store): Promise<void> => {
  if (!(await to.addAccount(account))) await to.changeAccount(account.id, { plan: account.plan, credits: account.credits ?? null })
}

const copyKeys = async ({ id }: AccountRow, from: Store, to: Store): Promise<number> => {
  const found = await from.hashedKeys(id)
  for (const { hash, key } of found) await to.addKey(hash, asCopied(key, (await to.holder(hash))?.key))
  return found.length
}

/** Revoked in either of the two is revoked. */
const asCopied = (key: KeyRow, there: KeyRow | undefined): KeyRow => ({
  ...(there?.revoked !== undefined && { revoked: there.revoked }),
  ...key,
})

/** The target learns a day like a store that lost its last writes: each process says what it got, returned and used. */
const copyDay = async ({ id }: AccountRow, from: Store, to: Store): Promise<number> => {
  const { today: day } = await from.totals(id)
  const entries = await from.entries(id, day)
  for (const [process, { seq, ...tally }] of entries) {
    await to.ask({ account: id, day, process, seq, tally, need: 0, want: 0, limit: 0, share: 1 })
  }
  return entries.size > 0 ? 1 : 0
}

/** Counts of one account and hour, together. */
const hoursOf = async function* (from: Store): AsyncGenerator<readonly UsageCount[]> {
  let rows: UsageCount[] = []
  for await (const count of from.counts()) {
    if (rows[0] !== undefined && (rows[0].hour !== count.hour || rows[0].account !== count.account)) {
      yield rows
      rows = []
    }
    rows.push(count)
  }
  if (rows.length > 0) yield rows
}

/** What has to be added to the target. What it has counted itself meanwhile is not taken away. */
const missing = async (rows: readonly UsageCount[], to: Store): Promise<readonly UsageCount[]> => {
  const [{ account = '', hour = 0 } = {}] = rows
  const known = new Map((await to.usage(account, hour, hour + 1)).map(count => [groupOf(count), count]))
  return rows.flatMap(row => {
    const { calls, credits } = known.get(groupOf(row)) ?? { calls: 0, credits: 0 }
    const rest = { calls: Math.max(0, row.calls - calls), credits: Math.max(0, row.credits - credits) }
    return rest.calls > 0 || rest.credits > 0 ? [{ ...row, ...rest }] : []
  })
}

/** Reports counts to the target, many at once. */
const openSheet = (to: Store) => {
  const process = `copy-${randomBytes(8).toString('hex')}`
  let [seq, counts]: [number, UsageCount[]] = [0, []]
  const end = async () => {
    if (counts.length > 0) await to.reportUsage({ process, seq: (seq += 1), counts, keep: keptHours })
    counts = []
  }
  return {
    end,
    async add(more: readonly UsageCount[]) {
      counts.push(...more)
      if (counts.length >= 500) await end()
    },
  }
}

/** A hundred years: what is too old is for gateways to drop. */
const keptHours = 100 * 366 * 24

const compareAccount = async (account: AccountRow, from: Store, to: Store): Promise<void> => {
  const copied = keysByHash(await to.hashedKeys(account.id))
  const keys = keysByHash(await from.hashedKeys(account.id)).map(([hash, key], i) => [hash, asCopied(key, copied[i]?.[1])])
  if (!isDeepStrictEqual([await from.account(account.id), keys], [await to.account(account.id), copied])) {
    throw differs(`account ${account.name} or its keys`)
  }
  const { day, leased, used } = await from.totals(account.id)
  const there = await to.totals(account.id, day)
  if (there.leased !== leased || there.used !== used) throw differs(`the balance of account ${account.name}`)
}

const keysByHash = (keys: readonly HashedKey[]): readonly (readonly [hash: string, key: KeyRow])[] =>
  keys.map(({ hash, key }) => [hash, key] as const).sort(([one], [other]) => (one < other ? -1 : 1))

const compareHour = async (rows: readonly UsageCount[], to: Store): Promise<void> => {
  if ((await missing(rows, to)).length > 0) throw differs(`the usage of account ${rows[0]?.account}`)
}

const differs = (what: string): StoreFault =>
  new StoreFault(`copied, but not the same: ${what} changed meanwhile; stop the gateways and copy again`)
