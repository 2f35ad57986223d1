import { loadConfig } from '../config/load.ts'
import { count, printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin.ts'
import { systemClock } from '../services/clock.ts'
import { peekAccounts } from '../store/peek.ts'
import { exit } from './command.ts'
import type { Command } from './command.ts'
import { readConfigDir } from './verbs.ts'

/** `build` makes every stage, for the problems that only a plugin's create() finds; it starts none. */
export const createCheck = (plugins: readonly AnyPlugin[], build: (config: Config) => Promise<readonly Problem[]>): Command => ({
  name: 'check',
  summary: 'Finds every problem of a configuration; starts nothing.',
  usage: ['check [--config DIR]'],
  async run(args, { env, out, err }) {
    const config = await loadConfig(readConfigDir(args), plugins, env)
    const problems = [...config.problems, ...(await build(config))]
    printProblems(problems, err)
    if (problems.length > 0) return exit.config
    for (const line of [...summarise(config), ...(await warnOfPlans(config))]) out(line)
    return exit.ok
  },
})

const summarise = ({ networks, unserved }: Config): readonly string[] => {
  const names = [...networks.map(({ name }) => name), ...unserved.map(({ network }) => network)]
  const width = Math.max(...names.map(name => name.length))
  const others = unserved.length > 0 ? `, ${unserved.length} not served` : ''
  return [
    `no problems; ${count(networks.length, 'network')} served${others}`,
    ...networks.map(({ name, steps }) => `  ${name.padEnd(width)}  ${steps.map(step => step.name).join(' > ')}`),
    ...unserved.map(({ network, variables }) => `  ${network.padEnd(width)}  not served: ${notSet(variables)}`),
  ]
}

const notSet = (variables: readonly string[]): string =>
  variables.length === 1 ? `${variables[0]} is not set` : `${variables.join(', ')} are not set`

/** Accounts keep the name of their plan when it goes, and come back with it; meanwhile their calls are refused. */
const warnOfPlans = async ({ gateway }: Config): Promise<readonly string[]> => {
  if (gateway === undefined) return []
  const accounts = await peekAccounts(gateway.store, systemClock)
  const stranded = accounts.filter(({ plan }) => !Object.hasOwn(gateway.plans, plan))
  return [...new Set(stranded.map(({ plan }) => plan))].sort().map(plan => {
    const names = stranded
      .filter(account => account.plan === plan)
      .map(({ name }) => name)
      .sort()
    const more = names.length > shownNames ? ', …' : ''
    return (
      `  warning: gateway.yaml has no plan \`${plan}\`; the calls of ${count(names.length, 'account')} that have it are refused: ` +
      `${names.slice(0, shownNames).join(', ')}${more}`
    )
  })
}

const shownNames = 5
