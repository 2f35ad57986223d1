import { hourMs, isoTime } from '../util/dates.ts'
import { createSignInLink, signInLinkTtlMs } from '../portal/one-time-links.ts'
import { printablePattern } from '../portal/openapi.ts'
import { emailPattern, firstPersonName, getOrAddPerson, roles, setEmail } from '../portal/people.ts'
import type { Person } from '../portal/people.ts'
import { generateAccountId } from '../services/accounts/api-key.ts'
import { systemClock } from '../services/clock.ts'
import type { AccountRow } from '../store/store.ts'
import { deleteAccount, resumeChange } from '../services/accounts/account-deletion.ts'
import { getAccount, getPlan, withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { CommandError, UsageError, commandSummaries, programName } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { formatTable } from './table-output.ts'
import { configArgument, formatAlternatives, readArguments, readCredits, runSubcommand, storeOptions } from './args.ts'
import type { Subcommand } from './args.ts'

/** In place of a number: the credits of the plan. */
const planDefaultKeyword = 'plan'

const options = {
  plan: { type: 'string', placeholder: 'PLAN', description: 'The plan of the account: one of `plans` in gateway.yaml.' },
  credits: {
    type: 'string',
    placeholder: 'N',
    description: 'Daily credits of this account in place of those of its plan; `plan` removes them again.',
  },
  label: {
    type: 'string',
    placeholder: 'TEXT',
    description: 'What you call the account besides its name, such as a customer number; an empty text removes it.',
  },
  person: {
    type: 'string',
    placeholder: 'PERSON',
    description: `With link: the name of the person who signs in; \`${firstPersonName}\` if absent. A new name adds a person to the account.`,
  },
  email: {
    type: 'string',
    placeholder: 'EMAIL',
    description: 'With link: where the person can ask for further links, if `portal.smtp` is configured. One person has an address.',
  },
  role: {
    type: 'string',
    placeholder: 'ROLE',
    description: `With link: the role of a new person: ${formatAlternatives(roles)}; owner if absent.`,
  },
  ...storeOptions,
} as const

/** Accounts, which are billed. */
export const accountsCommand: Command = {
  name: 'accounts',
  summary: commandSummaries.accounts,
  usage: [
    'accounts add NAME --plan PLAN [--credits N] [--label TEXT] [--json] [--config DIR]',
    'accounts list [--json] [--config DIR]',
    'accounts set NAME [--plan PLAN] [--credits N|plan] [--label TEXT] [--json] [--config DIR]',
    'accounts suspend NAME [--json] [--config DIR]',
    'accounts resume NAME [--json] [--config DIR]',
    'accounts delete NAME [--json] [--config DIR]',
    'accounts link NAME [--person PERSON] [--role ROLE] [--email EMAIL] [--json] [--config DIR]',
  ],
  positionals: { NAME: 'The name or the id of the account. A new name consists of 1 to 64 letters, digits or . _ - @ characters.' },
  options,
  run: async (args, terminal) => runSubcommand({ add, list, set, suspend, resume, delete: remove, link }, args, terminal),
}

const add: Subcommand = (args, terminal) => {
  const {
    values: { plan, credits, label, config, json },
    positionals: [accountName],
  } = readArguments(args, ['NAME'], options)
  if (plan === undefined) throw new UsageError('missing option --plan PLAN')
  const ownCredits = readCredits(credits, planDefaultKeyword)
  return withStoreContext(config, terminal, async ({ store, accounts, plans, portalUrl }) => {
    if (!isAccountName(accountName))
      throw new CommandError(`invalid account name "${accountName}": expected 1 to 64 letters, digits or . _ - @, not starting with acc_`)
    const account = {
      id: generateAccountId(),
      name: accountName,
      plan: getPlan(plans, plan).name,
      created: systemClock.now(),
      ...(ownCredits && { credits: ownCredits }),
      ...(label && { label: checkLabel(label) }),
    }
    if (!(await accounts.addAccount(account))) throw new CommandError(`account "${accountName}" already exists`)
    const signInLink =
      portalUrl &&
      (await createSignInLink(
        { store, accounts, clock: systemClock },
        portalUrl,
        await getOrAddPerson(store, systemClock, { account: account.id, name: firstPersonName, role: 'owner' }),
      ))
    if (json) return terminal.out(JSON.stringify({ ...toAccountJson(account), ...(signInLink && { link: signInLink }) }))
    terminal.out(`added account ${accountName} (${account.id}) on ${describePlan(account)}`)
    if (signInLink) printSignInLink(signInLink, terminal)
  })
}

const list: Subcommand = (args, terminal) => {
  const {
    values: { config, json },
  } = readArguments(args, [], storeOptions)
  return withStoreContext(config, terminal, async ({ store }) => {
    const rows = await store.accounts()
    if (json) return terminal.out(JSON.stringify(rows.map(toAccountJson)))
    if (rows.length === 0)
      return terminal.out(`no accounts yet: ${programName(terminal)} accounts add NAME --plan PLAN${configArgument(config)}`)
    const cells = rows.map(row => [
      row.name,
      row.plan,
      `${row.credits ?? planDefaultKeyword}`,
      row.label ?? '',
      row.id,
      isoTime(row.created),
      formatState(row),
    ])
    const titles = ['NAME', 'PLAN', 'CREDITS', 'LABEL', 'ID', 'CREATED', 'STATE']
    for (const line of formatTable(titles, cells)) terminal.out(line)
  })
}

const set: Subcommand = (args, terminal) => {
  const {
    values: { plan, credits, label, config, json },
    positionals: [accountName],
  } = readArguments(args, ['NAME'], options)
  if ((plan ?? credits ?? label) === undefined) throw new UsageError('nothing to change: expected --plan, --credits or --label')
  const ownCredits = readCredits(credits, planDefaultKeyword)
  return withStoreContext(config, terminal, async ({ store, accounts, plans }) => {
    const { id } = await getAccount(store, accountName)
    const change = {
      ...(plan !== undefined && { plan: getPlan(plans, plan).name }),
      ...(ownCredits !== undefined && { credits: ownCredits }),
      ...(label !== undefined && { label: label === '' ? null : checkLabel(label) }),
    }
    const account = await accounts.changeAccount(id, change)
    if (account === undefined) throw new CommandError(`account "${accountName}" no longer exists`)
    const changed = [
      ...((plan ?? credits) === undefined ? [] : [`is on ${describePlan(account)}`]),
      ...(label === undefined ? [] : [account.label === undefined ? 'has no label' : `has the label "${account.label}"`]),
    ]
    terminal.out(json ? JSON.stringify(toAccountJson(account)) : `account ${account.name} ${changed.join(' and ')} now`)
  })
}

/** A subcommand that changes whether an account's keys are accepted. */
const stateCommand =
  (change: (context: StoreContext, account: AccountRow) => Promise<AccountRow | undefined>): Subcommand =>
  (args, terminal) => {
    const {
      values: { config, json },
      positionals: [accountName],
    } = readArguments(args, ['NAME'], storeOptions)
    return withStoreContext(config, terminal, async context => {
      const account = await change(context, await getAccount(context.store, accountName))
      if (account === undefined) throw new CommandError(`account "${accountName}" no longer exists`)
      terminal.out(json ? JSON.stringify(toAccountJson(account)) : `account ${account.name}: ${formatState(account)}`)
    })
  }

const suspend = stateCommand(({ accounts }, { id }) => accounts.changeAccount(id, { suspended: systemClock.now() }))

const resume = stateCommand(({ accounts }, { id }) => accounts.changeAccount(id, resumeChange))

const remove = stateCommand((context, account) => deleteAccount({ ...context, clock: systemClock }, account))

const formatState = ({ suspended, deleteAt }: AccountRow): string =>
  deleteAt !== undefined
    ? `suspended, to be removed at ${isoTime(deleteAt)}`
    : suspended === undefined
      ? 'active'
      : `suspended at ${isoTime(suspended)}`

const link: Subcommand = (args, terminal) => {
  const {
    values: { person: personName = firstPersonName, role: roleName = 'owner', email, config, json },
    positionals: [accountName],
  } = readArguments(args, ['NAME'], options)
  const role = roles.find(each => each === roleName)
  if (role === undefined) throw new UsageError(`--role must be ${formatAlternatives(roles)}, not "${roleName}"`)
  if (email !== undefined && !new RegExp(emailPattern).test(email))
    throw new UsageError(`--email must be an e-mail address, not "${email}"`)
  return withStoreContext(config, terminal, async ({ store, accounts, portalUrl }) => {
    if (portalUrl === undefined) {
      throw new CommandError('the dashboard has no address: set `listen.portal` in gateway.yaml to a host and a port, or `portal.url`')
    }
    const { id } = await getAccount(store, accountName)
    const person = await getOrAddPerson(store, systemClock, { account: id, name: personName, role })
    if (email !== undefined) await changeEmail({ store, accounts }, person, email.toLowerCase())
    const signInLink = await createSignInLink({ store, accounts, clock: systemClock }, portalUrl, person)
    if (json) terminal.out(JSON.stringify({ account: accountName, person: personName, link: signInLink }))
    else printSignInLink(signInLink, terminal)
  })
}

const changeEmail = async ({ store, accounts }: Pick<StoreContext, 'store' | 'accounts'>, person: Person, email: string): Promise<void> => {
  const before = person.email ?? null
  if (!(await setEmail(store, person, email))) throw new CommandError(`somebody else signs in with ${email}`)
  if (before === email) return
  await accounts.recordOf(person.account, { action: 'person-changed', target: person.id, before: { email: before }, after: { email } })
}

const printSignInLink = (signInLink: string, { out }: Terminal): void => {
  out(`The dashboard, signed in (once, within ${signInLinkTtlMs / hourMs} hours):`)
  out(signInLink)
}

/** A name needs no quotes in a shell and cannot be mistaken for an id. */
const isAccountName = (text: string): boolean => /^(?!acc_)[\w.@-]{1,64}$/.test(text)

const checkLabel = (text: string): string => {
  if (new RegExp(printablePattern(maxLabelChars), 'u').test(text)) return text
  throw new UsageError(`--label must be a text of at most ${maxLabelChars} printable characters on one line`)
}

const maxLabelChars = 200

const describePlan = ({ plan, credits }: AccountRow): string =>
  `plan ${plan}${credits === undefined ? '' : `, with ${credits} credits a day of its own`}`

const toAccountJson = ({ id, name, plan, credits, label, suspended, deleteAt, created }: AccountRow) => ({
  id,
  name,
  plan,
  credits,
  label,
  suspended: suspended === undefined ? undefined : isoTime(suspended),
  deleteAt: deleteAt === undefined ? undefined : isoTime(deleteAt),
  created: isoTime(created),
})
