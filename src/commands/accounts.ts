import { isoTime } from '../dates.ts'
import { newAccountId } from '../keys.ts'
import { systemClock } from '../services/clock.ts'
import type { AccountRow } from '../store/store.ts'
import { Refused, accountOf, planOf, withStore } from './books.ts'
import { Misuse } from './command.ts'
import type { Command } from './command.ts'
import { table } from './table.ts'
import { readWords, runVerb } from './verbs.ts'
import type { Verb } from './verbs.ts'

/** Who is billed. */
export const accounts: Command = {
  name: 'accounts',
  summary: 'Adds and lists accounts, moves them between plans, and gives them credits of their own.',
  usage: [
    'accounts add NAME --plan PLAN [--credits N] [--json] [--config DIR]',
    'accounts list [--json] [--config DIR]',
    'accounts set NAME [--plan PLAN] [--credits N|plan] [--json] [--config DIR]',
  ],
  run: async (args, terminal) => runVerb({ add, list, set }, args, terminal),
}

const add: Verb = (args, terminal) => {
  const {
    values: { plan, credits, config, json },
    words: [name],
  } = readWords(args, ['NAME'], options)
  if (plan === undefined) throw new Misuse('--plan PLAN is missing')
  const own = readCredits(credits)
  return withStore(config, terminal, async ({ store, plans }) => {
    if (!isAccountName(name)) throw new Refused(`"${name}" is no name: 1 to 64 letters, digits or . _ - @ were wanted`)
    const account = {
      id: newAccountId(),
      name,
      plan: planOf(plans, plan).name,
      created: systemClock.now(),
      ...(own && { credits: own }),
    }
    if (!(await store.addAccount(account))) throw new Refused(`there is an account "${name}" already`)
    terminal.out(json ? JSON.stringify(shown(account)) : `added account ${name} (${account.id}) on ${describe(account)}`)
  })
}

const list: Verb = (args, terminal) => {
  const {
    values: { config, json },
  } = readWords(args, [], {})
  return withStore(config, terminal, async ({ store }) => {
    const rows = await store.accounts()
    if (json) return terminal.out(JSON.stringify(rows.map(shown)))
    if (rows.length === 0) return terminal.out('no accounts yet: tollgate accounts add NAME --plan PLAN')
    const cells = rows.map(row => [row.name, row.plan, `${row.credits ?? ofPlan}`, row.id, isoTime(row.created)])
    for (const line of table(['NAME', 'PLAN', 'CREDITS', 'ID', 'CREATED'], cells)) terminal.out(line)
  })
}

const set: Verb = (args, terminal) => {
  const {
    values: { plan, credits, config, json },
    words: [name],
  } = readWords(args, ['NAME'], options)
  if (plan === undefined && credits === undefined) throw new Misuse('--plan PLAN or --credits N is missing')
  const own = readCredits(credits)
  return withStore(config, terminal, async ({ store, plans }) => {
    const { id } = await accountOf(store, name)
    const change = { ...(plan !== undefined && { plan: planOf(plans, plan).name }), ...(own !== undefined && { credits: own }) }
    const account = await store.changeAccount(id, change)
    if (account === undefined) throw new Refused(`there is no account "${name}" any more`)
    terminal.out(json ? JSON.stringify(shown(account)) : `account ${account.name} is on ${describe(account)} now`)
  })
}

const options = { plan: { type: 'string' }, credits: { type: 'string' } } as const

/** In place of a number: what the plan gives. */
const ofPlan = 'plan'

/** Null gives up credits of its own. */
const readCredits = (text: string | undefined): number | null | undefined => {
  if (text === undefined) return undefined
  if (text === ofPlan) return null
  const credits = Number(text)
  if (/^\d+$/.test(text) && credits > 0 && Number.isSafeInteger(credits)) return credits
  throw new Misuse(
    `--credits must be a number from 1 to ${Number.MAX_SAFE_INTEGER}, or \`${ofPlan}\` for what the plan gives, not "${text}"`,
  )
}

/** Names are words of the command line, and never look like an id. */
const isAccountName = (text: string): boolean => /^(?!acc_)[\w.@-]{1,64}$/.test(text)

const describe = ({ plan, credits }: AccountRow): string =>
  `plan ${plan}${credits === undefined ? '' : `, with ${credits} credits a day of its own`}`

const shown = ({ id, name, plan, credits, created }: AccountRow) => ({ id, name, plan, credits, created: isoTime(created) })
