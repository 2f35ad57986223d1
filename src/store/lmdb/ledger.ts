import { kill, pid } from 'node:process'
import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import { lease, newEntry } from '../lease.ts'
import type { Entry } from '../lease.ts'
import { dayLength, deadAfter } from '../store.ts'
import type { LedgerStore, Moment, Totals } from '../store.ts'
import type { Commits } from './commits.ts'

/** What is leased, by day and account; entries by day, account and process; and the processes that live. */
interface Tables {
  readonly sums: Database<number, [number, string]>
  readonly entries: Database<Entry, [number, string, string]>
  readonly lives: Database<Life, string>
}

export interface Life {
  readonly pid: number
  /** Milliseconds since 1970. */
  readonly seen: number
}

export const ledgerIn = (root: RootDatabase, commits: Commits, clock: Clock): LedgerStore => {
  const sums: Tables['sums'] = root.openDB({ name: 'sums' })
  const entries: Tables['entries'] = root.openDB({ name: 'entries' })
  const lives: Tables['lives'] = root.openDB({ name: 'processes' })
  const { moment, turn } = calendar(root.openDB({ name: 'meta' }), clock)

  return {
    horizon: 1_000,
    ask: ask =>
      commits.run(() => {
        const now = turn()
        const leased = sums.get([ask.day, ask.account]) ?? 0
        const entry = entries.get([ask.day, ask.account, ask.process]) ?? newEntry
        const booking = lease(leased, entry, ask, now.today)
        if (booking.entry !== entry) {
          sums.put([ask.day, ask.account], booking.leased)
          entries.put([ask.day, ask.account, ask.process], booking.entry)
        }
        return { ...now, tally: booking.entry, left: ask.limit - booking.leased }
      }),
    beat: process =>
      commits.run(() => {
        const now = turn()
        sweep({ sums, entries, lives }, now.today, clock.now())
        lives.put(process, { pid, seen: clock.now() })
        return { ...now, processes: lives.getKeysCount() }
      }),
    leave: process =>
      commits.run(() => {
        lives.remove(process)
      }),
    totals(account, day) {
      const now = moment()
      return { ...now, ...addUp({ sums, entries, lives }, account, day ?? now.today, clock.now()) }
    },
  }
}

/** The day of the machine's clock, except that it never goes back: what a day has given out stays given out. */
const calendar = (meta: Database<number, string>, clock: Clock) => {
  const moment = (): Moment => {
    const now = clock.now()
    const today = Math.max(Math.floor(now / dayLength), meta.get('day') ?? 0)
    return { today, endsIn: (today + 1) * dayLength - now }
  }
  const turn = (): Moment => {
    const now = moment()
    if (meta.get('day') !== now.today) meta.put('day', now.today)
    return now
  }
  return { moment, turn }
}

const keptDays = 3
/** Rows dropped in one step, during which nobody else can write. */
const sweptRows = 500

const sweep = ({ sums, entries, lives }: Tables, today: number, now: number): void => {
  const old = { end: [today - keptDays + 1], limit: sweptRows }
  for (const key of [...sums.getKeys(old)]) sums.remove(key)
  for (const key of [...entries.getKeys(old)]) entries.remove(key)
  for (const { key, value } of [...lives.getRange()]) {
    if (!isAlive(value, now)) lives.remove(key)
  }
}

/** A clock that jumps makes all look dead until their next beat; nothing is taken from them for that. */
export const isAlive = (life: Life | undefined, now: number): boolean => {
  if (life === undefined || Math.abs(now - life.seen) > deadAfter) return false
  try {
    return kill(life.pid, 0)
  } catch (error) {
    // Another user's process: it cannot be signalled, but it is there.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

const addUp = ({ sums, entries, lives }: Tables, account: string, day: number, now: number): Omit<Totals, keyof Moment> => {
  const found = { used: 0, held: 0, forfeited: 0 }
  for (const { key, value } of entries.getRange({ start: [day, account], end: [day, account, '\uffff'] })) {
    found.used += value.used
    found[isAlive(lives.get(key[2]), now) ? 'held' : 'forfeited'] += value.granted - value.returned - value.used
  }
  return { day, leased: sums.get([day, account]) ?? 0, ...found }
}
