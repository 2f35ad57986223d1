import type { Plan } from '../call.ts'
import { readGateway } from '../config/gateway.ts'
import { printProblems } from '../config/problem.ts'
import { didYouMean } from '../nearest.ts'
import { systemClock } from '../services/clock.ts'
import type { Plans } from '../services/accounts.ts'
import { openStore } from '../store/open.ts'
import { StoreFault } from '../store/store.ts'
import type { AccountRow, Store } from '../store/store.ts'
import { exit } from './command.ts'
import type { Terminal } from './command.ts'
import { hint } from './verbs.ts'

/** What the commands on accounts work with; open while one of them runs, also beside gateways that serve. */
export interface Books {
  readonly store: Store
  readonly plans: Plans
}

/** What was asked for cannot be done; the message is the one line that the operator sees. */
export class Refused extends Error {}

/** Opens the store that the configuration in `dir` names, lets `work` use it, and resolves with the exit code. */
export const withStore = async (dir: string, { env, err }: Terminal, work: (books: Books) => Promise<void>): Promise<number> => {
  const { config, problems } = readGateway(dir, env)
  printProblems(problems, err)
  if (config === undefined) return exit.config
  try {
    const store = await openStore(config.store, systemClock)
    await work({ store, plans: config.plans }).finally(() => store.close())
    return exit.ok
  } catch (error) {
    if (!(error instanceof Refused || error instanceof StoreFault)) throw error
    err(`tollgate: ${error.message}`)
    return exit.failed
  }
}

/** The account with this name or id. */
export const accountOf = async (store: Store, nameOrId: string): Promise<AccountRow> => {
  const account = await store.account(nameOrId)
  if (account !== undefined) return account
  const names = (await store.accounts()).map(({ name }) => name)
  throw new Refused(`there is no account "${nameOrId}"${hint(didYouMean(nameOrId, names))}`)
}

/** Shown in place of the limit of an account whose plan does not stand in gateway.yaml any more. */
export const gone = 'gone'

/** The plan with this name. */
export const planOf = (plans: Plans, name: string): Plan => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  if (plan !== undefined) return plan
  throw new Refused(`there is no plan "${name}": gateway.yaml has ${Object.keys(plans).join(', ')}`)
}
