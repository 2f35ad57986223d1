import { newAccountId } from '../keys.ts'
import { systemClock } from '../services/clock.ts'
import type { AccountRow } from '../store/store.ts'
import { Misuse } from './command.ts'
import type { Command } from './command.ts'
import { Refused, accountOf, isoTime, planOf, withStore } from './store.ts'
import { table } from './table.ts'
import { readWords, runVerb } from './verbs.ts'
import type { Verb } from './verbs.ts'

/** Who is billed. */
export const accounts: Command = {
  name: 'accounts',
  summary: 'Adds and lists accounts, and moves them between plans.',
  usage: [
    'accounts add NAME --plan PLAN [--json] [--config DIR]',
    'accounts list [--json] [--config DIR]',
    'accounts set NAME --plan PLAN [--json] [--config DIR]',
  ],
  run: async (args, terminal) => runVerb({ add, list, set }, args, terminal),
}

const add: Verb = (args, terminal) => {
  const { values: { plan = missingPlan(), config, json }, words: [name] } = readWords(args, ['NAME'], planOption)
  return withStore(config, terminal, async ({ store, plans }) => {
    if (!isAccountName(name)) throw new Refused(`"${name}" is no name: 1 to 64 letters, digits or . _ - @ were wanted`)
    const account = { id: newAccountId(), name, plan: planOf(plans, plan).name, created: systemClock.now() }
    if (!await store.addAccount(account)) throw new Refused(`there is an account "${name}" already`)
    terminal.out(json ? JSON.stringify(shown(account)) : `added account ${name} (${account.id}) on plan ${plan}`)
  })
}

const list: Verb = (args, terminal) => {
  const { values: { config, json } } = readWords(args, [], {})
  return withStore(config, terminal, async ({ store }) => {
    const rows = (await store.accounts()).map(shown)
    if (json) return terminal.out(JSON.stringify(rows))
    if (rows.length === 0) return terminal.out('no accounts yet: tollgate accounts add NAME --plan PLAN')
    const cells = rows.map(row => [row.name, row.plan, row.id, row.created])
    for (const line of table(['NAME', 'PLAN', 'ID', 'CREATED'], cells)) terminal.out(line)
  })
}

const set: Verb = (args, terminal) => {
  const { values: { plan = missingPlan(), config, json }, words: [name] } = readWords(args, ['NAME'], planOption)
  return withStore(config, terminal, async ({ store, plans }) => {
    const account = await accountOf(store, name)
    await store.setPlan(account.id, planOf(plans, plan).name)
    terminal.out(json ? JSON.stringify(shown({ ...account, plan })) : `account ${account.name} is on plan ${plan} now`)
  })
}

const planOption = { plan: { type: 'string' } } as const

const missingPlan = (): never => {
  throw new Misuse('--plan PLAN is missing')
}

/** Names are words of the command line, and never look like an id. */
const isAccountName = (text: string): boolean => /^(?!acc_)[\w.@-]{1,64}$/.test(text)

const shown = ({ id, name, plan, created }: AccountRow) => ({ id, name, plan, created: isoTime(created) })
