import type { UsageCount, UsageStore } from '../store.ts'
import { dayLength, groupOf } from '../store.ts'
import type { Calendar } from './calendar.ts'
import type { Connection } from './connection.ts'
import { keys } from './layout.ts'
import { pairsOf } from './reply.ts'
import * as scripts from './scripts.ts'

export const usageIn = (redis: Connection, { words }: Calendar): UsageStore => ({
  async reportUsage({ process, seq, counts, keep }) {
    const touched = counts.flatMap(({ account, hour }) => [keys.usage(account, hour), keys.hoursOf(account)])
    const added = counts.flatMap(count => [count.account, count.hour, groupOf(count), count.calls, count.credits])
    const [had, ...old] = (await redis.run(
      scripts.report,
      [keys.mark(process), keys.hours, ...touched],
      [...words(), seq, keep, markKept, ...added],
    )) as [number, ...string[]]
    await Promise.all(old.map(hour => drop(redis, hour)))
    return had
  },
  async usage(account, from, to) {
    const hours = (await redis.send('ZRANGEBYSCORE', keys.hoursOf(account), String(from), `(${to}`)) as string[]
    const rows = await Promise.all(
      hours.map(async hour => countsOf(account, Number(hour), await redis.send('HGETALL', keys.usage(account, Number(hour))))),
    )
    return rows.flat()
  },
})

/** A process that says nothing for so long, in ms, says nothing twice. */
const markKept = scripts.keptDays * dayLength

const drop = (redis: Connection, member: string): Promise<unknown> => {
  const { account, hour } = hourOf(member)
  return redis.run(scripts.dropHour, [keys.usage(account, hour), keys.hoursOf(account), keys.hours], [hour, account])
}

/** A member of `hours`. */
export const hourOf = (member: string): { readonly account: string; readonly hour: number } => {
  const colon = member.lastIndexOf(':')
  return { account: member.slice(0, colon), hour: Number(member.slice(colon + 1)) }
}

/** `row` is what HGETALL says of one account's hour. */
export const countsOf = (account: string, hour: number, row: unknown): readonly UsageCount[] => {
  const groups = new Map<string, { calls: number; credits: number }>()
  for (const [field, value] of pairsOf(row)) {
    const space = field.lastIndexOf(' ')
    const sums = groups.get(field.slice(0, space)) ?? { calls: 0, credits: 0 }
    groups.set(field.slice(0, space), { ...sums, [field.slice(space + 1)]: Number(value) })
  }
  return Array.from(groups, ([group, sums]) => {
    const [key, network, method, outcome, forwarded] = JSON.parse(group) as [string, string, string, string, boolean]
    return { account, key, network, method, outcome, forwarded, hour, ...sums }
  })
}
