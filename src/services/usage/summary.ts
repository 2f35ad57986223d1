import { isoDate, isoTime } from '../../dates.ts'
import { hourLength } from '../../store/store.ts'
import type { UsageCount } from '../../store/store.ts'

/** What counts may be grouped by. */
export const groupings = ['method', 'network', 'key', 'outcome', 'hour', 'day'] as const

export type Grouping = (typeof groupings)[number]

/** Calls that have one thing in common. */
export interface Group {
  /** What they have in common; for an hour or a day its beginning, UTC. */
  readonly name: string
  readonly calls: number
  /** How many of them a partner answered. */
  readonly forwarded: number
  readonly credits: number
}

/** Counts by one thing: the dearest first, times in order. */
export const groupBy = (counts: readonly UsageCount[], by: Grouping): readonly Group[] => {
  const groups = new Map<string, Group>()
  for (const count of counts) {
    const name = nameOf(count, by)
    groups.set(name, add(groups.get(name) ?? { ...nothing, name }, count))
  }
  const isTime = by === 'hour' || by === 'day'
  const compare = (a: Group, b: Group) => (isTime ? 0 : b.credits - a.credits || b.calls - a.calls) || (a.name < b.name ? -1 : 1)
  return [...groups.values()].sort(compare)
}

/** All of them together. */
export const total = (counts: readonly UsageCount[]): Group => counts.reduce(add, { ...nothing, name: 'total' })

const nothing = { calls: 0, forwarded: 0, credits: 0 }

const add = ({ name, ...sum }: Group, { calls, credits, forwarded }: UsageCount): Group => ({
  name,
  calls: sum.calls + calls,
  forwarded: sum.forwarded + (forwarded ? calls : 0),
  credits: sum.credits + credits,
})

const nameOf = (count: UsageCount, by: Grouping): string => {
  switch (by) {
    case 'hour':
      return `${isoTime(count.hour * hourLength).slice(0, 16)}Z`
    case 'day':
      return isoDate(count.hour * hourLength)
    default:
      return count[by]
  }
}
