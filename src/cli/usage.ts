import { dayMs, hoursPerDay, isoDate } from '../util/dates.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { effectivePlan } from '../services/accounts/index.ts'
import { readBalance } from '../services/ledger/balance.ts'
import { groupUsage, groupings, totalUsage } from '../services/usage/usage-summary.ts'
import type { UsageTotals, Grouping } from '../services/usage/usage-summary.ts'
import type { AccountRow, UsageCount } from '../store/store.ts'
import { getAccount, removedPlanLabel, withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { UsageError } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { formatFields, formatTable } from './text-table.ts'
import { formatHint, readStoreArguments } from './args.ts'

/** Where an account's credits of today are, or what they went into. */
export const usageCommand: Command = {
  name: 'usage',
  summary: 'Shows what an account has used of its credits today, or its calls by what they have in common.',
  usage: ['usage ACCOUNT [--json] [--config DIR]', `usage ACCOUNT --by ${groupings.join('|')} [--days N] [--json|--csv] [--config DIR]`],
  async run(args, terminal) {
    const {
      values: { config, json, csv = false, by, days },
      positionals: [owner],
    } = readStoreArguments(args, ['ACCOUNT'], options)
    if (by === undefined && (csv || days !== undefined)) throw new UsageError(`--by is missing: one of ${groupings.join(', ')}`)
    if (json && csv) throw new UsageError('--json and --csv were given: one is wanted')
    const format = json ? 'json' : csv ? 'csv' : 'text'
    const wish = by === undefined ? undefined : ({ by: readGrouping(by), days: readDays(days), format } as const)
    return withStoreContext(config, terminal, async books => {
      const account = await getAccount(books.store, owner)
      await (wish === undefined ? printBalance(books, account, json, terminal) : printCounts(books, account, wish, terminal))
    })
  },
}

const options = { by: { type: 'string' }, days: { type: 'string' }, csv: { type: 'boolean' } } as const

const readGrouping = (text: string): Grouping => {
  const found = groupings.find(each => each === text)
  if (found !== undefined) return found
  throw new UsageError(`--by must be one of ${groupings.join(', ')}, not "${text}"${formatHint(didYouMean(text, groupings))}`)
}

const readDays = (text = '1'): number => {
  const days = Number(text)
  if (/^\d+$/.test(text) && days > 0 && days <= 3_660) return days
  throw new UsageError(`--days must be a number from 1 to 3660, not "${text}"`)
}

const printBalance = async ({ store, plans }: StoreContext, account: AccountRow, json: boolean, { out }: Terminal) => {
  const { id, name, plan } = account
  const report = { account: name, plan, ...(await readBalance(store, id, effectivePlan(account, plans)?.dailyCredits ?? null)) }
  if (json) return out(JSON.stringify(report))
  for (const line of formatFields({ ...report, limit: report.limit ?? removedPlanLabel, left: report.left ?? removedPlanLabel })) out(line)
}

interface CountsQuery {
  readonly by: Grouping
  readonly days: number
  readonly format: 'json' | 'csv' | 'text'
}

/** Today, as far as it has come, and the days before it. */
const printCounts = async ({ store }: StoreContext, { id, name }: AccountRow, { by, days, format }: CountsQuery, { out }: Terminal) => {
  const { day: today } = await store.dayTotals(id)
  const firstDay = today - days + 1
  const counts = await store.usageCounts(id, firstDay * hoursPerDay, (today + 1) * hoursPerDay)
  const [from, to] = [isoDate(firstDay * dayMs), isoDate(today * dayMs)]
  for (const line of formatters[format]({ account: name, from, to, by, counts })) out(line)
}

interface CountsReport {
  readonly account: string
  /** First and last day. */
  readonly from: string
  readonly to: string
  readonly by: Grouping
  readonly counts: readonly UsageCount[]
}

const formatters: Readonly<Record<CountsQuery['format'], (report: CountsReport) => readonly string[]>> = {
  json({ counts, ...about }) {
    const { name: _, ...sum } = totalUsage(counts)
    return [JSON.stringify({ ...about, groups: groupUsage(counts, about.by), total: sum })]
  },
  csv: ({ counts, by }) => [
    `${by},calls,forwarded,credits`,
    ...groupUsage(counts, by).map(group => toCells(group).map(quoteCsvField).join(',')),
  ],
  text: ({ account, from, to, by, counts }) =>
    counts.length === 0
      ? [`no calls of ${account} ${from === to ? `on ${to}` : `from ${from} to ${to}`}`]
      : formatTable([by.toUpperCase(), 'CALLS', 'FORWARDED', 'CREDITS'], [...groupUsage(counts, by), totalUsage(counts)].map(toCells)),
}

const toCells = ({ name, calls, forwarded, credits }: UsageTotals): readonly string[] => [name, ...[calls, forwarded, credits].map(String)]

/** RFC 4180. */
const quoteCsvField = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
