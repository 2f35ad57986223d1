import { setTimeout as sleep } from 'node:timers/promises'
import { StoreError } from './store.ts'
import type { UsedShares } from './store.ts'

/**
 * What LMDB and Redis do for the store. Everything else (accounts, leases, usage, records) is written once, above it. A row has a table and a
 * field, and its value is a text. Tables with one tag are read and written together, in one atomic step; a cluster of Redis places them by it. In
 * Redis a table is the hash `tollgate:{TAG}:TABLE`:
 *
 * - `accounts`: accounts, accountIdsByName, keys, keyHashesById, keyHashes:ACCOUNT, changes
 * - the id of an account, or of a key with daily credits of its own: day:DAY (leased, and process:ID with what it was granted, returned and used), days
 * - `processes`: heartbeats, time
 * - `usage`, in Redis one of `usageTags`: calls:ACCOUNT:PERIOD, hourTotals:ACCOUNT, periods, accounts:PERIOD, reportedUse:ACCOUNT:DAY, lastReports, swept
 * - `requests`: log:ACCOUNT:SPAN, spansOf:ACCOUNT, accounts:SPAN, ids:SPAN, settings, spans, size
 * - `portal`: a table for each kind of record, KIND-of:ACCOUNT, expiring, expiring:SPAN
 * - each of them, while the store is copied to another one: move, changed
 */
export interface Engine {
  /** For how long a lease should last: longer where a request costs more. */
  readonly horizonMs: number
  readonly warnings: readonly string[]
  /** All tags with usage of accounts, and that of one account. They are part of the layout. */
  readonly usageTags: readonly string[]
  usageTagOf(account: string): string
  /** The id of the store that takes the place of this one, where this process knows it. */
  readonly successorId?: string | undefined
  /** The tables as they are at one moment. */
  read(tag: string, reads: readonly TableRead[]): Promise<ReadResult>
  /** All rows of a table that may be large, in any order; not of one moment. */
  scan(tag: string, table: string): AsyncIterable<readonly [field: string, value: string]>
  /** Every table that has rows, at least once, in any order; not of one moment. */
  tables(): AsyncIterable<readonly [tag: string, table: string]>
  /** Writes all of it, or nothing where a guard fails. */
  commit(tag: string, commit: Commit): Promise<CommitResult>
  /** Calls `onChange` after commits with `notifies`, as far as this process is notified; without it where such may have been missed. Returns the unsubscribe function. */
  watch(onChange: (notifies?: string) => void): () => void
  /** Absent where the engine has no limits of its own. */
  usedShares?(): Promise<UsedShares>
  /** Whether a process that has sent heartbeats may still run, as far as this machine knows. */
  mayRun(pid: number): boolean
  close(): Promise<void>
}

/** All rows of a table, those of these fields, or those that the rows of the read before, which are JSON, name in this member. */
export interface TableRead {
  readonly table: string
  readonly fields?: readonly string[] | { readonly member: string }
}

interface Cell {
  readonly table: string
  readonly field: string
}

/** `is`: the row has this value, or does not exist. `atMost`: the row is no greater number; without a row it is 0. */
type Guard = Cell & ({ readonly is: string | undefined } | { readonly atMost: number })

export interface Commit {
  readonly guards?: readonly Guard[]
  /** The engine's clock is in this range: from `fromMs` up to, not including, `toMs`. */
  readonly during?: { readonly fromMs: number; readonly toMs: number }
  readonly puts?: readonly (Cell & { readonly value: string })[]
  /** Adds integers to rows; without a row, to 0. */
  readonly adds?: readonly (Cell & { readonly by: number })[]
  /** Adds to rows of several integers with spaces in between, position by position. A row may be shorter, or longer. */
  readonly sums?: readonly (Cell & { readonly by: readonly number[] })[]
  readonly dels?: readonly Cell[]
  /** Tables of which all rows are removed. */
  readonly drops?: readonly string[]
  /** What watchers are called with. */
  readonly notifies?: string
}

/** `clockNow`: by the engine's clock, in ms since 1970. */
interface ReadResult {
  readonly clockNow: number
  /** The rows of each table that was read, by field. */
  readonly tables: readonly ReadonlyMap<string, string>[]
}

export interface CommitResult {
  readonly isDone: boolean
  readonly clockNow: number
  /** The rows of the guards, as they were before. */
  readonly found: readonly (string | undefined)[]
}

/** A row of several integers. Digit by digit: to split the text and convert its parts takes three times as long, and months have 50,000 rows. */
export const parseVector = (text = ''): number[] => {
  const numbers: number[] = []
  let [number, sign] = [0, 1]
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === ascii.minus) sign = -1
    else if (code !== ascii.space) number = 10 * number + code - ascii.zero
    else {
      numbers.push(sign * number)
      number = 0
      sign = 1
    }
  }
  if (text !== '') numbers.push(sign * number)
  return numbers
}

const ascii = { space: 32, minus: 45, zero: 48 } as const

export const meets = (guard: Guard, found: string | undefined): boolean =>
  'is' in guard ? guard.is === found : Number(found ?? 0) <= guard.atMost

/** One table, or the rows of these fields. */
export const readTable = async (engine: Engine, tag: string, table: string, fields?: readonly string[]) =>
  (await engine.read(tag, [{ table, ...(fields && { fields }) }])).tables[0] ?? new Map<string, string>()

/** Each failed commit means that another one was written: this many in a row are no contention any more. */
const maxAttempts = 1_000
const maxImmediateAttempts = 2
const maxDelayMs = 8

/** Calls `attempt` until it returns a result, which is within a few times. Waits a moment where many write to one row. */
export const retryCommit = async <T>(attempt: () => Promise<{ readonly result: T } | undefined>): Promise<T> => {
  for (let count = 1; count <= maxAttempts; count += 1) {
    const done = await attempt()
    if (done !== undefined) return done.result
    if (count >= maxImmediateAttempts) await sleep(Math.random() * maxDelayMs)
  }
  throw new StoreError('the store is too busy: others change the same row all the time')
}
