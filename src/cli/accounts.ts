import { formatAccounts, readAccountFiles } from '../config/account-files.ts'
import { countNoun, printProblems } from '../config/problem.ts'
import { deletionDelayMs } from '../services/accounts/account-deletion.ts'
import { applyAccounts, exportAccounts, mergeChanges, planAccounts, shownChanges } from '../portal/declared-accounts.ts'
import type { DeclarationPlan, DeclaredChange } from '../portal/declared-accounts.ts'
import { accountOperations } from '../portal/operations/account-operations.ts'
import { linkOperations } from '../portal/operations/link-operations.ts'
import { systemClock } from '../services/clock.ts'
import { dayMs, isoTimeOrNull } from '../util/dates.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'
import { commonOptions, readArguments } from './args.ts'
import { CommandError, UsageError, exitCodes } from './command.ts'
import type { Terminal } from './command.ts'
import { createOperationCommand } from './operations.ts'
import { withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'

const applyOptions = {
  'dry-run': {
    type: 'boolean',
    default: false,
    description: 'With apply: prints the difference and changes nothing; the exit code is 2 where there is a difference, else 0.',
  },
  prune: {
    type: 'boolean',
    default: false,
    description:
      'With apply: removes accounts and people that the files do not have, and that an earlier apply has declared. An account is removed as ' +
      '`accounts delete` does it.',
  },
  all: { type: 'boolean', default: false, description: 'With --prune: removes accounts and people that no apply has declared, too.' },
  yes: {
    type: 'boolean',
    default: false,
    description: 'With --prune: removes more than 5 accounts and people, or more accounts than the files have.',
  },
  ...commonOptions,
} as const

/** What --prune removes without --yes, apart from people who leave with their account. */
const maxRemovals = 5

type ApplyOptions = ReturnType<typeof readApplyArguments>['values']

const readApplyArguments = (args: readonly string[]) => {
  const read = readArguments(args, ['PATH'], applyOptions)
  for (const option of ['all', 'yes'] as const)
    if (read.values[option] && !read.values.prune) throw new UsageError(`--${option} requires --prune`)
  return read
}

const apply = async (args: readonly string[], terminal: Terminal): Promise<number> => {
  const {
    values,
    positionals: [path],
  } = readApplyArguments(args)
  let code: number = exitCodes.ok
  const contextCode = await withStoreContext(values.config, terminal, async context => {
    code = await applyFiles(context, path, values, terminal)
  })
  return contextCode === exitCodes.ok ? code : contextCode
}

const applyFiles = async (context: StoreContext, path: string, options: ApplyOptions, terminal: Terminal): Promise<number> => {
  const { accounts, problems } = readAccountFiles(path, terminal.env, Object.keys(context.config.plans))
  if (problems.length > 0) return reportProblems(problems, terminal)
  const services = { ...context, clock: systemClock }
  const request = { accounts, prune: options.prune ? (options.all ? 'all' : 'declared') : 'none' } as const
  if (options['dry-run']) {
    const plan = await planAccounts(services, request)
    if (plan.problems.length > 0) return reportProblems(plan.problems, terminal)
    const changes = shownChanges(plan)
    report(plan, changes, options, terminal)
    if (needsConsent(plan, options)) terminal.err(consentMessage(plan))
    return changes.length > 0 ? exitCodes.changes : exitCodes.ok
  }
  const done: DeclaredChange[] = []
  const check = (plan: DeclarationPlan): void => {
    if (needsConsent(plan, options)) throw new CommandError(consentMessage(plan))
  }
  try {
    const plan = await applyAccounts(services, request, { check, onChange: change => void done.push(change) })
    if (plan.problems.length === 0) {
      report(plan, mergeChanges(done), options, terminal)
      return exitCodes.ok
    }
    reportPart(done, terminal)
    return reportProblems(plan.problems, terminal)
  } catch (error) {
    reportPart(done, terminal)
    throw error
  }
}

const reportProblems = (problems: DeclarationPlan['problems'], terminal: Terminal): number => {
  printProblems(problems, terminal)
  return exitCodes.config
}

/** Before the reason why not all of it was done. */
const reportPart = (done: readonly DeclaredChange[], { err, styleErr }: Terminal): void => {
  if (done.length === 0) return
  err('Only a part was applied:')
  for (const line of formatChanges(mergeChanges(done), styleErr)) err(line)
}

const removalsOf = (plan: DeclarationPlan): readonly DeclaredChange[] => shownChanges(plan).filter(({ change }) => change === 'removed')

const needsConsent = (plan: DeclarationPlan, { yes }: ApplyOptions): boolean => {
  const removals = removalsOf(plan)
  const accounts = removals.filter(({ person }) => person === undefined).length
  return !yes && (removals.length > maxRemovals || accounts > plan.declaredCount)
}

const consentMessage = (plan: DeclarationPlan): string => {
  const removals = removalsOf(plan)
  const accounts = removals.filter(({ person }) => person === undefined).length
  const people = removals.length - accounts
  return `${countNoun(accounts, 'account')} and ${people === 1 ? '1 person' : `${people} people`} would be removed: --prune requires --yes for this`
}

const report = (plan: DeclarationPlan, changes: readonly DeclaredChange[], options: ApplyOptions, { out, styleOut }: Terminal): void => {
  const isDryRun = options['dry-run']
  const deleted = plan.deleted.map(({ name, deleteAt }) => ({ account: name, deleteAt: isoTimeOrNull(deleteAt) }))
  if (options.json) return out(JSON.stringify({ isDryRun, changes, kept: plan.kept, deleted }))
  for (const line of formatChanges(changes, styleOut)) out(line)
  if (plan.kept.length > 0) {
    const names = plan.kept.map(({ account, person }) => (person === undefined ? account : `${person} of ${account}`))
    out(`The files no longer have ${names.join(', ')}: --prune would remove them.`)
  }
  for (const { account, deleteAt } of deleted)
    out(`The account ${account} was deleted, and is removed at ${deleteAt}: \`suspended: false\` in its file resumes it.`)
  out(summaryOf(changes, plan.declaredCount, isDryRun))
}

const summaryOf = (changes: readonly DeclaredChange[], declaredCount: number, isDryRun: boolean): string => {
  if (changes.length === 0) return `nothing to change: ${countNoun(declaredCount, 'account')} as declared`
  const firsts = changes.filter((_, i) => isFirstOfAccount(changes, i))
  const count = (wanted: DeclaredChange['change']): number =>
    firsts.filter(({ person, change }) => (person === undefined ? change : 'changed') === wanted).length
  const counts = (['added', 'changed', 'removed'] as const).map(change => `${count(change)} ${change}`).join(', ')
  return isDryRun ? `accounts that would be applied: ${counts}` : `accounts applied: ${counts}`
}

const isFirstOfAccount = (changes: readonly DeclaredChange[], i: number): boolean => changes[i]?.account !== changes[i - 1]?.account

const signs = { added: '+', changed: '~', removed: '-' } as const
const meanings = { added: 'ok', changed: 'warning', removed: 'error' } as const

/** An account, then its people, each below it. */
const formatChanges = (changes: readonly DeclaredChange[], style: Style = plain): readonly string[] => {
  const head = (change: DeclaredChange['change'], name: string): string => style(meanings[change], `${signs[change]} ${name}`)
  return changes.flatMap((each, i) => {
    const { account, person, change } = each
    if (person === undefined) return formatAccount(each, head(change, account))
    const heading = isFirstOfAccount(changes, i) ? [head('changed', account)] : []
    return [...heading, `    ${formatPerson(each, head(change, person))}`]
  })
}

const formatAccount = ({ change, fields }: DeclaredChange, head: string): readonly string[] =>
  change === 'removed'
    ? [`${head}: its keys are refused at once; removed after ${deletionDelayMs / dayMs} days, unless it is resumed before`]
    : [head, ...formatFields(fields, change === 'added').map(field => `    ${field}`)]

const formatPerson = ({ change, fields }: DeclaredChange, head: string): string =>
  change === 'removed' ? head : `${head}: ${formatFields(fields, change === 'added').join(', ')}`

const formatFields = (fields: DeclaredChange['fields'], isNew: boolean): readonly string[] =>
  Object.entries(fields).map(([name, { from, to }]) =>
    isNew ? `${name} ${formatValue(name, to)}` : `${name} ${formatValue(name, from)} -> ${formatValue(name, to)}`,
  )

type FieldValue = DeclaredChange['fields'][string]['to']

const formatValue = (field: string, value: FieldValue): string => {
  if (value === null) return field === 'credits' ? 'plan' : 'none'
  return field === 'label' ? JSON.stringify(value) : typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)
}

const printAccounts = (args: readonly string[], terminal: Terminal): Promise<number> => {
  const { values } = readArguments(args, [], commonOptions)
  return withStoreContext(values.config, terminal, async ({ store }) => {
    const { accounts, leftOut } = await exportAccounts(store)
    if (accounts.length === 0) throw new CommandError('there are no accounts to export')
    if (leftOut.length > 0)
      terminal.err(`warning: left out, as they are to be removed or no file may have their names: ${leftOut.join(', ')}`)
    if (values.json)
      return terminal.out(JSON.stringify({ accounts: Object.fromEntries(accounts.map(({ name, ...account }) => [name, account])) }))
    terminal.out(formatAccounts(accounts, ['Written by `tollgate accounts export`; `tollgate accounts apply` reads it.']).trimEnd())
  })
}

const examples = {
  'accounts add alice --plan core': 'prints a link to the dashboard too',
  'accounts set alice --plan growth': 'from the next call on',
  'accounts export > accounts.yaml': 'all accounts, without keys, as a file',
  'accounts apply accounts.yaml --dry-run': 'how the accounts differ from the file; exit code 2 where they do',
}

/** Besides the operations: what reads and writes files of accounts. */
export const accountsCommand = createOperationCommand('accounts', [...accountOperations, ...linkOperations], examples, {
  apply: {
    usage: 'accounts apply PATH [--dry-run] [--prune [--all] [--yes]] [--json] [--config DIR]',
    positionals: { PATH: 'A file of accounts, or a folder of such files.' },
    options: applyOptions,
    run: apply,
  },
  export: { usage: 'accounts export [--json] [--config DIR]', options: commonOptions, run: printAccounts },
})
