import { loadConfig } from '../config/load.ts'
import { countNoun, printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { systemClock } from '../services/clock.ts'
import { inspectStore } from '../store/open-store.ts'
import { exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { configOption, readConfigDir } from './args.ts'

/** `dryRun` creates every stage, for the problems that only a plugin's create() finds; it starts none. */
export const createCheckCommand = (plugins: readonly AnyPlugin[], dryRun: (config: Config) => Promise<readonly Problem[]>): Command => ({
  name: 'check',
  summary: 'Reports every problem of a configuration; starts nothing.',
  usage: ['check [--config DIR]'],
  positionals: {},
  options: { config: configOption },
  async run(args, { env, out, err }) {
    const config = await loadConfig(readConfigDir(args), plugins, env)
    const problems = [...config.problems, ...(await dryRun(config))]
    printProblems(problems, err)
    if (problems.length > 0) return exitCodes.config
    for (const line of [...formatSummary(config), ...(await findStoreWarnings(config))]) out(line)
    return exitCodes.ok
  },
})

const formatSummary = ({ networks, unserved }: Config): readonly string[] => {
  const names = [...networks.map(({ name }) => name), ...unserved.map(({ network }) => network)]
  const width = Math.max(...names.map(name => name.length))
  const unservedCount = unserved.length > 0 ? `, ${unserved.length} not served` : ''
  return [
    `no problems; ${countNoun(networks.length, 'network')} served${unservedCount}`,
    ...networks.map(({ name, steps }) => `  ${name.padEnd(width)}  ${steps.map(step => step.name).join(' > ')}`),
    ...unserved.map(({ network, variables }) => `  ${network.padEnd(width)}  not served: ${describeUnset(variables)}`),
  ]
}

const describeUnset = (variables: readonly string[]): string =>
  variables.length === 1 ? `${variables[0]} is not set` : `${variables.join(', ')} are not set`

/** What is wrong in the store. An account whose plan is removed from gateway.yaml keeps the plan's name: its calls are rejected until the plan is back. */
const findStoreWarnings = async ({ gateway }: Config): Promise<readonly string[]> => {
  if (gateway === undefined) return []
  const { accounts, warnings } = await inspectStore(gateway.store, systemClock)
  const affected = accounts.filter(({ plan }) => !Object.hasOwn(gateway.plans, plan))
  const missingPlans = [...new Set(affected.map(({ plan }) => plan))].sort().map(plan => {
    const names = affected
      .filter(account => account.plan === plan)
      .map(({ name }) => name)
      .sort()
    const more = names.length > maxListedNames ? ', …' : ''
    return (
      `gateway.yaml has no plan \`${plan}\`: calls of ${countNoun(names.length, 'account')} on this plan are rejected: ` +
      `${names.slice(0, maxListedNames).join(', ')}${more}`
    )
  })
  return [...warnings, ...missingPlans].map(text => `  warning: ${text}`)
}

const maxListedNames = 5
