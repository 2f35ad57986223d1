import { isoDate } from '../dates.ts'
import { didYouMean } from '../nearest.ts'
import { planFor } from '../services/accounts.ts'
import { balanceOf } from '../services/ledger/balance.ts'
import { groupBy, groupings, total } from '../services/usage/summary.ts'
import type { Group, Grouping } from '../services/usage/summary.ts'
import { dayLength, hoursADay } from '../store/store.ts'
import type { AccountRow, UsageCount } from '../store/store.ts'
import { accountOf, gone, withStore } from './books.ts'
import type { Books } from './books.ts'
import { Misuse } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { fields, table } from './table.ts'
import { hint, readWords } from './verbs.ts'

/** Where an account's credits of today are, or what they went into. */
export const usage: Command = {
  name: 'usage',
  summary: 'Shows what an account has used of its credits today, or its calls by what they have in common.',
  usage: ['usage ACCOUNT [--json] [--config DIR]', `usage ACCOUNT --by ${groupings.join('|')} [--days N] [--json|--csv] [--config DIR]`],
  async run(args, terminal) {
    const {
      values: { config, json, csv = false, by, days },
      words: [owner],
    } = readWords(args, ['ACCOUNT'], options)
    if (by === undefined && (csv || days !== undefined)) throw new Misuse(`--by is missing: one of ${groupings.join(', ')}`)
    if (json && csv) throw new Misuse('--json and --csv were given: one is wanted')
    const form = json ? 'json' : csv ? 'csv' : 'text'
    const wish = by === undefined ? undefined : ({ by: groupingOf(by), days: daysOf(days), form } as const)
    return withStore(config, terminal, async books => {
      const account = await accountOf(books.store, owner)
      await (wish === undefined ? showBalance(books, account, json, terminal) : showCounts(books, account, wish, terminal))
    })
  },
}

const options = { by: { type: 'string' }, days: { type: 'string' }, csv: { type: 'boolean' } } as const

const groupingOf = (text: string): Grouping => {
  const found = groupings.find(each => each === text)
  if (found !== undefined) return found
  throw new Misuse(`--by must be one of ${groupings.join(', ')}, not "${text}"${hint(didYouMean(text, groupings))}`)
}

const daysOf = (text = '1'): number => {
  const days = Number(text)
  if (/^\d+$/.test(text) && days > 0 && days <= 3_660) return days
  throw new Misuse(`--days must be a number from 1 to 3660, not "${text}"`)
}

const showBalance = async ({ store, plans }: Books, account: AccountRow, json: boolean, { out }: Terminal) => {
  const { id, name, plan } = account
  const report = { account: name, plan, ...(await balanceOf(store, id, planFor(account, plans)?.dailyCredits ?? null)) }
  if (json) return out(JSON.stringify(report))
  for (const line of fields({ ...report, limit: report.limit ?? gone, left: report.left ?? gone })) out(line)
}

interface Wish {
  readonly by: Grouping
  readonly days: number
  readonly form: 'json' | 'csv' | 'text'
}

/** Today, as far as it has come, and the days before it. */
const showCounts = async ({ store }: Books, { id, name }: AccountRow, { by, days, form }: Wish, { out }: Terminal) => {
  const { day: today } = await store.totals(id)
  const first = today - days + 1
  const counts = await store.usage(id, first * hoursADay, (today + 1) * hoursADay)
  const [from, to] = [isoDate(first * dayLength), isoDate(today * dayLength)]
  for (const line of writers[form]({ account: name, from, to, by, counts })) out(line)
}

interface Report {
  readonly account: string
  /** First and last day. */
  readonly from: string
  readonly to: string
  readonly by: Grouping
  readonly counts: readonly UsageCount[]
}

const writers: Readonly<Record<Wish['form'], (report: Report) => readonly string[]>> = {
  json({ counts, ...about }) {
    const { name: _, ...sum } = total(counts)
    return [JSON.stringify({ ...about, groups: groupBy(counts, about.by), total: sum })]
  },
  csv: ({ counts, by }) => [`${by},calls,forwarded,credits`, ...groupBy(counts, by).map(group => cellsOf(group).map(quote).join(','))],
  text: ({ account, from, to, by, counts }) =>
    counts.length === 0
      ? [`no calls of ${account} ${from === to ? `on ${to}` : `from ${from} to ${to}`}`]
      : table([by.toUpperCase(), 'CALLS', 'FORWARDED', 'CREDITS'], [...groupBy(counts, by), total(counts)].map(cellsOf)),
}

const cellsOf = ({ name, calls, forwarded, credits }: Group): readonly string[] => [name, ...[calls, forwarded, credits].map(String)]

/** RFC 4180. */
const quote = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
