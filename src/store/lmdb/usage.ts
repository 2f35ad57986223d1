import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import { hourLength } from '../store.ts'
import type { UsageCount, UsageStore } from '../store.ts'
import type { Commits } from './commits.ts'

/** Calls and credits by hour and group. The hour comes first, so that old rows lie together. */
export type Row = [hour: number, account: string, key: string, network: string, method: string, outcome: string, forwarded: 0 | 1]
export type Sum = readonly [calls: number, credits: number]

/** The last report of a process. */
interface Mark {
  readonly seq: number
  readonly hour: number
}

export const usageIn = (root: RootDatabase, commits: Commits, clock: Clock): UsageStore => {
  const sums: Database<Sum, Row> = root.openDB({ name: 'usage' })
  const marks: Database<Mark, string> = root.openDB({ name: 'usage-reports' })
  return {
    reportUsage: ({ process, seq, counts, keep }) =>
      commits.run(() => {
        const mark = marks.get(process)
        const had = mark?.seq ?? 0
        if (seq <= had) return had
        const hour = Math.floor(clock.now() / hourLength)
        for (const count of counts) add(sums, count)
        dropOld(sums, hour - keep)
        if (mark?.hour !== hour) dropMarks(marks, hour - keep)
        marks.put(process, { seq, hour })
        return had
      }),
    usage: (account, from, to) => {
      const found: UsageCount[] = []
      for (let hour = firstHour(sums, from); hour < to; hour = firstHour(sums, hour + 1)) {
        const range = sums.getRange({ start: [hour, account] as never, end: [hour, account, last] as never })
        for (const { key, value } of range) found.push(countOf(key, value))
      }
      return found
    },
  }
}

/** The first hour from this one on in which anybody called. */
const firstHour = (sums: Database<Sum, Row>, from: number): number =>
  [...sums.getKeys({ start: [from] as never, limit: 1 })][0]?.[0] ?? Infinity

/** Above every id and name. */
const last = '\uffff'

const add = (sums: Database<Sum, Row>, { calls, credits, ...of }: UsageCount): void => {
  const row: Row = [of.hour, of.account, of.key, of.network, of.method, of.outcome, of.forwarded ? 1 : 0]
  const [knownCalls, knownCredits] = sums.get(row) ?? [0, 0]
  sums.put(row, [knownCalls + calls, knownCredits + credits])
}

export const countOf = ([hour, account, key, network, method, outcome, forwarded]: Row, [calls, credits]: Sum): UsageCount => ({
  hour,
  account,
  key,
  network,
  method,
  outcome,
  forwarded: forwarded === 1,
  calls,
  credits,
})

/** Rows dropped in one step, during which nobody else can write. */
const dropped = 500

const dropOld = (sums: Database<Sum, Row>, before: number): void => {
  for (const row of [...sums.getKeys({ end: [before] as never, limit: dropped })]) sums.remove(row)
}

/** A process that is older than all that is kept has nothing left to say twice. */
const dropMarks = (marks: Database<Mark, string>, before: number): void => {
  for (const { key, value } of [...marks.getRange()]) if (value.hour < before) marks.remove(key)
}
