import { kill } from 'node:process'
import type { Clock } from '../../services/clock.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { addVector } from '../../util/vectors.ts'
import { meets, parseVector } from '../engine.ts'
import type { Commit, CommitResult, Engine, TableRead } from '../engine.ts'
import type { RowKey, Rows } from './lmdb-environment.ts'
import type { UsedShares } from '../store.ts'
import type { Transactions } from './transactions.ts'

/** Sorts after every field. */
const maxField = '\uffff'

const tableRange = (tag: string, table: string) => ({ start: [tag, table, ''] as RowKey, end: [tag, table, maxField] as RowKey })

const scanRows = function* (rows: Rows, tag: string, table: string): Generator<readonly [field: string, value: string]> {
  for (const { key, value } of rows.getRange(tableRange(tag, table))) yield [key[2], value]
}

/** Only reads, for as long as the environment is open. */
export const scanSource = (rows: Rows): Pick<Engine, 'scan'> => ({
  // A type of iterator that Redis needs.
  async *scan(tag, table) {
    yield* scanRows(rows, tag, table)
  },
})

export const openLmdbEngine = (rows: Rows, transactions: Transactions, clock: Clock, usedShares: () => Promise<UsedShares>): Engine => {
  const listeners = new Set<(notifies?: string) => void>()
  return {
    horizonMs: 1_000,
    warnings: [],
    usedShares,
    usageTags: ['usage'],
    usageTagOf: () => 'usage',
    // LMDB reads one snapshot within one turn of the event loop.
    async read(tag, reads) {
      // To read on from files that are gone would hide keys that were revoked in the store that took their place.
      transactions.assertUsable()
      const tables: ReadonlyMap<string, string>[] = []
      for (const { table, fields } of reads) {
        const picked = fields === undefined || isList(fields) ? fields : namedFields(tables.at(-1), fields.member)
        tables.push(new Map(picked === undefined ? scanRows(rows, tag, table) : pickRows(rows, tag, table, picked)))
      }
      return { clockNow: clock.now(), tables }
    },
    async *scan(tag, table) {
      transactions.assertUsable()
      yield* scanRows(rows, tag, table)
    },
    async *tables() {
      for (let start: RowKey = ['', '', '']; ; ) {
        transactions.assertUsable()
        const [next] = [...rows.getKeys({ start, limit: 1 })]
        if (next === undefined) return
        const [tag, table] = next
        yield [tag, table]
        start = [tag, table, maxField]
      }
    },
    async commit(tag, commit) {
      const result = await transactions.run(() => applyCommit(rows, tag, commit, clock.now()))
      // Changes of other processes are found by their count.
      if (result.isDone && commit.notifies !== undefined) for (const onChange of listeners) onChange(commit.notifies)
      return result
    },
    watch(onChange) {
      listeners.add(onChange)
      return () => {
        listeners.delete(onChange)
      }
    },
    mayRun: isRunning,
    close: () => transactions.close(),
  }
}

const isList = (fields: NonNullable<TableRead['fields']>): fields is readonly string[] => Array.isArray(fields)

const namedFields = (before: ReadonlyMap<string, string> | undefined, member: string): readonly string[] =>
  Array.from(before?.values() ?? [], row => String((JSON.parse(row) as Record<string, unknown>)[member]))

const pickRows = function* (rows: Rows, tag: string, table: string, fields: readonly string[]): Generator<readonly [string, string]> {
  for (const field of fields) {
    const value = rows.get([tag, table, field])
    if (value !== undefined) yield [field, value]
  }
}

/** Inside a transaction: all reads come before all writes. */
const applyCommit = (rows: Rows, tag: string, commit: Commit, clockNow: number): CommitResult => {
  const { guards = [], during, puts = [], dels = [], drops = [] } = commit
  const found = guards.map(({ table, field }) => rows.get([tag, table, field]))
  const isInTime = during === undefined || (clockNow >= during.fromMs && clockNow < during.toMs)
  if (!isInTime || !guards.every((guard, i) => meets(guard, found[i]))) return { isDone: false, clockNow, found }
  const dropped = drops.flatMap(table => [...rows.getKeys(tableRange(tag, table))])
  const sums = readSums(rows, tag, commit)
  for (const { table, field, value } of puts) rows.put([tag, table, field], value)
  for (const { key, sum } of sums) rows.put(key, sum.join(' '))
  for (const { table, field } of dels) rows.remove([tag, table, field])
  for (const key of dropped) rows.remove(key)
  return { isDone: true, clockNow, found }
}

/** The rows that are added to, with their sums. */
const readSums = (rows: Rows, tag: string, { adds = [], sums = [] }: Commit) => {
  const found = new Map<string, { readonly key: RowKey; readonly sum: number[] }>()
  const add = (table: string, field: string, by: readonly number[]): void => {
    const key: RowKey = [tag, table, field]
    addVector(getOrCreate(found, `${table} ${field}`, () => ({ key, sum: parseVector(rows.get(key)) })).sum, by)
  }
  for (const { table, field, by } of adds) add(table, field, [by])
  for (const { table, field, by } of sums) add(table, field, by)
  return found.values()
}

/** On this machine. */
const isRunning = (pid: number): boolean => {
  try {
    return kill(pid, 0)
  } catch (error) {
    // A process of another user exists, though it cannot be signaled.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
