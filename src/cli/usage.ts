import { dayMs, hoursPerDay, isoDate } from '../util/dates.ts'
import { didYouMean, formatAlternatives } from '../util/did-you-mean.ts'
import { effectivePlan } from '../services/accounts/index.ts'
import { groupUsage, groupings, readBalance, removedPlanLabel, totalUsage } from '../services/account-reports.ts'
import type { UsageTotals, Grouping } from '../services/account-reports.ts'
import type { AccountRow } from '../store/store.ts'
import type { UsageCount } from '../store/usage-store.ts'
import { getAccount, withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { CommandError, UsageError, commandSummaries } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { formatFields, formatTable, quoteCsvField } from './table-output.ts'
import { formatHint, readArguments, storeOptions, configOption } from './args.ts'
import { deriveUsageKey, formatKey } from '../portal/alerts/webhook-signature.ts'
import { readSigningKeys } from '../portal/signing-key.ts'
import { systemClock } from '../services/clock.ts'
import { exportUsage, parseMonth } from '../services/usage-export.ts'
import type { Month, UsageExportRow } from '../services/usage-export.ts'

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

const exportOptions = {
  month: { type: 'string', placeholder: 'YYYY-MM', description: 'With export: the month (UTC).' },
  format: { type: 'string', placeholder: 'FORMAT', description: 'With export: csv or json; csv if absent.' },
} as const

const exportKeyword = 'export'
const secretKeyword = 'webhook-secret'

/** The balance of an account today, or its calls. */
export const usageCommand: Command = {
  name: 'usage',
  summary: commandSummaries.usage,
  usage: [
    'usage ACCOUNT [--json] [--config DIR]',
    `usage ACCOUNT --by ${groupings.join('|')} [--days N] [--json|--csv] [--config DIR]`,
    `usage ${exportKeyword} --month YYYY-MM [--format csv|json] [--config DIR]`,
    `usage ${secretKeyword} [--json] [--config DIR]`,
  ],
  positionals: { ACCOUNT: 'The name or the id of the account.' },
  options: { ...accountOptions, ...exportOptions },
  async run(args, terminal) {
    if (args[0] === exportKeyword) return runUsageExport(args.slice(1), terminal)
    if (args[0] === secretKeyword) return printWebhookSecret(args.slice(1), terminal)
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

/** With what the receiver of `portal.usageWebhook` checks signatures, where the configuration has no secret of its own. */
const printWebhookSecret = (args: readonly string[], terminal: Terminal): Promise<number> => {
  const {
    values: { config, json },
  } = readArguments(args, [], storeOptions)
  return withStoreContext(config, terminal, async ({ store, portal: { usageWebhook, secrets } }) => {
    if (usageWebhook === undefined) throw new CommandError('gateway.yaml has no `portal.usageWebhook`')
    if (usageWebhook.secret !== undefined) throw new CommandError('`portal.usageWebhook` has a secret of its own: `secret` in gateway.yaml')
    const [key] = await readSigningKeys(store, secrets, 'webhooks')
    const secret = formatKey(deriveUsageKey(key)).reveal()
    terminal.out(json ? JSON.stringify({ secret }) : secret)
  })
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

/** A row with the name of its account; empty when the account no longer exists. */
interface NamedRow extends UsageExportRow {
  readonly account: string
}

const columns = ['id', 'day', 'account', 'accountId', 'key', 'network', 'method', 'outcome', 'forwarded', 'calls', 'credits'] as const

/** Prints the calls of all accounts of one month, for a billing system. */
const runUsageExport = (args: readonly string[], terminal: Terminal): Promise<number> => {
  const {
    values: { config, month: monthText = '', format = 'csv' },
  } = readArguments(args, [], { ...exportOptions, config: configOption })
  const month = parseMonth(monthText)
  if (month === undefined) throw new UsageError('--month must be a month such as 2026-01')
  if (format !== 'csv' && format !== 'json') throw new UsageError(`--format must be csv or json, not "${format}"`)
  return withStoreContext(config, terminal, async ({ store, usageRetentionMs }) => {
    checkMonth(monthText, month, usageRetentionMs, terminal)
    const names = new Map((await store.accounts()).map(({ id, name }) => [id, name]))
    const print = format === 'csv' ? printCsv : printJson
    await print(nameRows(exportUsage(store, month), names), terminal)
  })
}

const checkMonth = (text: string, { from, to }: Month, retentionMs: number, { err }: Terminal): void => {
  const now = systemClock.now()
  if (from > now) throw new CommandError(`the month ${text} has not begun`)
  if (from < now - retentionMs) {
    const kept = isoDate(now - retentionMs)
    throw new CommandError(
      `usage of ${text} is not complete: counts before ${kept} may have been dropped, as \`usage.retention\` is ${retentionMs / dayMs}d`,
    )
  }
  if (to > now) err(`warning: the month ${text} is not over: export it again later`)
}

const nameRows = async function* (rows: AsyncIterable<UsageExportRow>, names: ReadonlyMap<string, string>): AsyncGenerator<NamedRow> {
  for await (const row of rows) yield { ...row, account: names.get(row.accountId) ?? '' }
}

const printCsv = async (rows: AsyncIterable<NamedRow>, { out }: Terminal): Promise<void> => {
  out(columns.join(','))
  for await (const row of rows) out(columns.map(column => quoteCsvField(String(row[column]))).join(','))
}

/** An array, one row a line. */
const printJson = async (rows: AsyncIterable<NamedRow>, { out }: Terminal): Promise<void> => {
  let previous: string | undefined
  out('[')
  for await (const row of rows) {
    if (previous !== undefined) out(`${previous},`)
    previous = JSON.stringify(Object.fromEntries(columns.map(column => [column, row[column]])))
  }
  if (previous !== undefined) out(previous)
  out(']')
}
