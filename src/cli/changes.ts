import { monthOf, readChanges } from '../services/accounts/change-history.ts'
import type { Change } from '../services/accounts/change-history.ts'
import { systemClock } from '../services/clock.ts'
import { parseMonth } from '../services/usage-export.ts'
import { readArguments, storeOptions } from './args.ts'
import { UsageError, commandSummaries } from './command.ts'
import type { Command } from './command.ts'
import { quoteCsvField, formatTable } from './table-output.ts'
import { withStoreContext } from './store-context.ts'

const options = {
  month: { type: 'string', placeholder: 'YYYY-MM', description: 'The month (UTC); the current one if absent.' },
  account: { type: 'string', placeholder: 'NAME', description: 'Only changes of the account with this name or id.' },
  csv: { type: 'boolean', description: 'Prints CSV.' },
  ...storeOptions,
} as const

const titles = ['time', 'by', 'action', 'account', 'target', 'before', 'after']

/** Who changed what. */
export const changesCommand: Command = {
  name: 'changes',
  summary: commandSummaries.changes,
  usage: ['changes [--month YYYY-MM] [--account NAME] [--json|--csv] [--config DIR]'],
  positionals: {},
  options,
  async run(args, { out, ...terminal }) {
    const {
      values: { config, json, csv = false, account, month = monthOf(systemClock.now()) },
    } = readArguments(args, [], options)
    if (json && csv) throw new UsageError('--json and --csv cannot be combined')
    if (parseMonth(month) === undefined) throw new UsageError(`--month must be a month such as 2026-01, not "${month}"`)
    return withStoreContext(config, { out, ...terminal }, async ({ store }) => {
      const changes = (await readChanges(store, month)).filter(
        change => account === undefined || [change.account.id, change.account.name].includes(account),
      )
      if (json) return out(JSON.stringify(changes))
      if (csv) return [titles, ...changes.map(toCells)].forEach(cells => out(cells.map(quoteCsvField).join(',')))
      if (changes.length === 0) return out(`no changes in ${month}`)
      for (const line of formatTable(
        titles.map(title => title.toUpperCase()),
        changes.map(toCells),
      ))
        out(line)
    })
  },
}

const toCells = ({ time, by, action, account, target = '', before, after }: Change): readonly string[] => [
  time,
  `${by.kind} ${by.name}`,
  action,
  account.name || account.id,
  target,
  before === undefined ? '' : JSON.stringify(before),
  after === undefined ? '' : JSON.stringify(after),
]
