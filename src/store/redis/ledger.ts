import type { Ask, Entry } from '../lease.ts'
import type { Answer, LedgerStore, Moment, Totals } from '../store.ts'
import type { Calendar } from './calendar.ts'
import type { Connection } from './connection.ts'
import { keys } from './layout.ts'
import { pairsOf } from './reply.ts'
import * as scripts from './scripts.ts'

export const ledgerIn = (redis: Connection, { words, hear }: Calendar): LedgerStore => {
  const processKeys = [keys.processes, keys.latestDay]
  return {
    // An ask costs a round trip over the network.
    horizon: 10_000,
    async ask(ask) {
      const reply = await redis.run(scripts.ask, [keys.day(ask.account, ask.day)], [...words(), ...wordsOf(ask)])
      const [today, endsIn, granted, returned, used, left] = (reply as AskReply).map(Number) as AskNumbers
      return hear<Answer>({ today, endsIn, tally: { granted, returned, used }, left })
    },
    async beat(process) {
      const [today, endsIn, processes] = (await redis.run(scripts.beat, processKeys, [...words(), process])) as [number, number, number]
      return hear({ today, endsIn, processes })
    },
    async leave(process) {
      await redis.send('ZREM', keys.processes, process)
    },
    async totals(account, named) {
      const [today, endsIn, ...living] = (await redis.run(scripts.lives, processKeys, words())) as LivesReply
      const now = hear({ today, endsIn })
      const day = named ?? today
      const row = day > today - scripts.keptDays ? await redis.send('HGETALL', keys.day(account, day)) : []
      return { ...now, day, ...addUp(row, new Set(living)) }
    },
  }
}

type AskReply = readonly (number | string)[]
type AskNumbers = [today: number, endsIn: number, granted: number, returned: number, used: number, left: number]
type LivesReply = [today: number, endsIn: number, ...processes: string[]]

const wordsOf = ({ process, seq, day, need, want, limit, share, tally }: Ask): readonly (string | number)[] => [
  process,
  seq,
  day,
  need,
  want,
  limit,
  share,
  ...(tally ? [tally.granted, tally.returned, tally.used] : ['', '', '']),
]

const addUp = (row: unknown, living: ReadonlySet<string>): Omit<Totals, keyof Moment | 'day'> => {
  const found = { leased: 0, used: 0, held: 0, forfeited: 0 }
  for (const [name, value] of pairsOf(row)) {
    if (name === 'leased') {
      found.leased = Number(value)
      continue
    }
    const { granted, returned, used } = entryOf(value)
    found.used += used
    found[living.has(name.slice(2)) ? 'held' : 'forfeited'] += granted - returned - used
  }
  return found
}

/** A process's entry as the script writes it. */
export const entryOf = (text: string): Entry => {
  const [granted = 0, returned = 0, used = 0, seq = 0] = text.split(' ').map(Number)
  return { granted, returned, used, seq }
}
