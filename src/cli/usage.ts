import { usageOperations } from '../portal/operations/usage-operations.ts'
import { deriveUsageKey } from '../portal/alerts/webhook-signature.ts'
import { systemClock } from '../services/clock.ts'
import { exportUsage, parseMonth } from '../services/usage/usage-export.ts'
import type { Month, UsageExportRow } from '../services/usage/usage-export.ts'
import { dayMs, isoDate } from '../util/dates.ts'
import { readArguments, commonOptions } from './args.ts'
import { CommandError, UsageError } from './command.ts'
import type { Terminal } from './command.ts'
import { createOperationCommand } from './operations.ts'
import { withStoreContext } from './store-context.ts'
import { quoteCsvField } from './table-output.ts'
import { printWebhookSecret } from './webhook-secret.ts'

const exportOptions = {
  month: { type: 'string', placeholder: 'YYYY-MM', description: 'With export: the month (UTC).' },
  ...commonOptions,
} as const

/** With what the receiver of `portal.usageWebhook` checks signatures. */
const printUsageWebhookSecret = (args: readonly string[], terminal: Terminal): Promise<number> =>
  printWebhookSecret(readArguments(args, [], commonOptions).values, terminal, ({ usageWebhook }, signingKey) => {
    if (usageWebhook === undefined) throw new CommandError('gateway.yaml has no `portal.usageWebhook`')
    return deriveUsageKey(signingKey)
  })

/** A row with the name of its account; empty when the account no longer exists. */
interface NamedRow extends UsageExportRow {
  readonly account: string
}

const columns = ['id', 'day', 'account', 'accountId', 'key', 'network', 'method', 'outcome', 'forwarded', 'calls', 'credits'] as const

/** Prints the calls of all accounts of one month, for a billing system: CSV, or JSON. */
const runUsageExport = (args: readonly string[], terminal: Terminal): Promise<number> => {
  const {
    values: { config: dir, month: monthText = '', json },
  } = readArguments(args, [], exportOptions)
  const month = parseMonth(monthText)
  if (month === undefined) throw new UsageError('--month must be a month such as 2026-01')
  return withStoreContext(dir, terminal, async ({ store, config }) => {
    checkMonth(monthText, month, config.usage.retention, terminal)
    const names = new Map((await store.accounts()).map(({ id, name }) => [id, name]))
    const print = json ? printJson : printCsv
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

const examples = {
  'usage alice --by method --days 7': 'the calls of a week',
  'usage all --by network --hours 24': 'the calls of all accounts, with failures and latencies',
  'usage export --month 2026-01': 'the calls of all accounts, for a billing system',
}

/** The balance of an account today, or its calls; and what only a machine with the configuration does: months are too large for one response of the API. */
export const usageCommand = createOperationCommand('usage', usageOperations, examples, {
  export: { usage: 'usage export --month YYYY-MM [--json] [--config DIR]', options: exportOptions, run: runUsageExport },
  'webhook-secret': { usage: 'usage webhook-secret [--json] [--config DIR]', options: commonOptions, run: printUsageWebhookSecret },
})
