import { dayMs, hoursPerDay, isoDate } from '../util/dates.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { effectivePlan } from '../services/accounts/index.ts'
import { groupUsage, groupings, readBalance, totalUsage } from '../services/account-reports.ts'
import type { UsageTotals, Grouping } from '../services/account-reports.ts'
import type { AccountRow, UsageCount } from '../store/store.ts'
import { getAccount, removedPlanLabel, withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { UsageError } from './command.ts'
import { commandSummaries } from './command-summaries.ts'
import type { Command, Terminal } from './command.ts'
import { formatFields, formatTable } from './text-table.ts'
import { formatAlternatives, formatHint, readArguments, storeOptions } from './args.ts'
import { quoteCsvField } from './csv.ts'
import { exportOptions, runUsageExport } from './usage-export.ts'

/** More days than any retention keeps; a bound for the query. */
const maxDays = 3_660

const accountOptions = {
  by: { type: 'string', placeholder: 'FIELD', description: `Counts calls by one field: ${formatAlternatives(groupings)}.` },
  days: {
    type: 'string',
    placeholder: 'N',
    description: `With --by: the last N days (UTC) up to today, from 1 to ${maxDays}; 1 if absent.`,
  },
  csv: { type: 'boolean', description: 'With --by: prints CSV.' },
  ...storeOptions,
} as const

const exportKeyword = 'export'

/** The balance of an account today, or its calls. */
export const usageCommand: Command = {
  name: 'usage',
  summary: commandSummaries.usage,
  usage: [
    'usage ACCOUNT [--json] [--config DIR]',
    `usage ACCOUNT --by ${groupings.join('|')} [--days N] [--json|--csv] [--config DIR]`,
    `usage ${exportKeyword} --month YYYY-MM [--format csv|json] [--config DIR]`,
  ],
  positionals: { ACCOUNT: 'The name or the id of the account.' },
  options: { ...accountOptions, ...exportOptions },
  async run(args, terminal) {
    if (args[0] === exportKeyword) return runUsageExport(args.slice(1), terminal)
    const {
      values: { config, json, csv = false, by, days },
      positionals: [accountName],
    } = readArguments(args, ['ACCOUNT'], accountOptions)
    if (by === undefined && (csv || days !== undefined))
      throw new UsageError(`missing option --by: expected ${formatAlternatives(groupings)}`)
    if (json && csv) throw new UsageError('--json and --csv cannot be combined')
    const format = json ? 'json' : csv ? 'csv' : 'text'
    const query = by === undefined ? undefined : ({ by: readGrouping(by), days: readDays(days), format } as const)
    return withStoreContext(config, terminal, async context => {
      const account = await getAccount(context.store, accountName)
      await (query === undefined ? printBalance(context, account, json, terminal) : printCounts(context, account, query, terminal))
    })
  },
}

const readGrouping = (text: string): Grouping => {
  const found = groupings.find(each => each === text)
  if (found !== undefined) return found
  throw new UsageError(`--by must be ${formatAlternatives(groupings)}, not "${text}"${formatHint(didYouMean(text, groupings))}`)
}

const readDays = (text = '1'): number => {
  const days = Number(text)
  if (/^\d+$/.test(text) && days > 0 && days <= maxDays) return days
  throw new UsageError(`--days must be a number from 1 to ${maxDays}, not "${text}"`)
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

/** Today so far, and the days before. */
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
