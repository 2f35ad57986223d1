import { describeMissingNetworks, loadConfig } from '../config/load.ts'
import { countNoun, formatProblem, printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { systemClock } from '../services/clock.ts'
import { inspectStore, openStore } from '../store/open-store.ts'
import { StoreError } from '../store/store.ts'
import { UsageError, exitCodes } from './command.ts'
import type { Command, CommandOption, Terminal } from './command.ts'
import { configOption, readArguments } from './args.ts'

const options = {
  config: configOption,
  online: { type: 'boolean', default: false, description: 'Connects to a store on Redis too, as `start` does.' },
  strict: { type: 'boolean', default: false, description: 'Warnings are problems: exit code 78.' },
  format: { type: 'string', placeholder: 'FORMAT', default: 'text', description: 'Text for people, or json for programs.' },
} as const satisfies Readonly<Record<string, CommandOption>>

/** `dryRun` creates every stage, for the problems that only a plugin's create() finds; it starts none. */
export const createCheckCommand = (plugins: readonly AnyPlugin[], dryRun: (config: Config) => Promise<readonly Problem[]>): Command => ({
  name: 'check',
  summary: 'Reports every problem of a configuration; starts nothing.',
  usage: ['check [--online] [--strict] [--format text|json] [--config DIR]'],
  positionals: {},
  options,
  async run(args, { env, out, err }) {
    const { config: dir, online, strict, format } = readArguments(args, [], options).values
    if (format !== 'text' && format !== 'json') throw new UsageError('--format must be text or json')
    const config = await loadConfig(dir, plugins, env)
    const problems = [...config.problems, ...(await dryRun(config))]
    const failures = problems.length > 0 ? [] : await findFailures(config, online)
    const storeWarnings = problems.length + failures.length > 0 ? [] : await findStoreWarnings(config)
    const report = { ...config, problems, failures: failures.map(({ message }) => message), storeWarnings }
    if (format === 'json') out(JSON.stringify(toJsonReport(report)))
    else printReport(report, { out, err })
    if (problems.length > 0 || (strict && config.warnings.length + storeWarnings.length > 0)) return exitCodes.config
    return failures[0]?.code ?? exitCodes.ok
  },
})

interface Report extends Pick<Config, 'networks' | 'unserved' | 'problems' | 'warnings'> {
  /** Why `start` would fail although the files have no problems. */
  readonly failures: readonly string[]
  readonly storeWarnings: readonly string[]
}

interface Failure {
  readonly message: string
  /** That of `start`. */
  readonly code: number
}

const findFailures = async (config: Config, online: boolean): Promise<readonly Failure[]> => {
  if (config.networks.length === 0) return [{ message: describeMissingNetworks(config), code: exitCodes.config }]
  if (!online || config.gateway?.store.kind !== 'redis') return []
  try {
    await (await openStore(config.gateway.store, systemClock)).close()
    return []
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return [{ message: error.message, code: exitCodes.failed }]
  }
}

const toJsonReport = ({ networks, unserved, problems, warnings, failures, storeWarnings }: Report): object => ({
  problems,
  failures,
  warnings: [...warnings, ...storeWarnings.map(message => ({ message }))],
  networks: networks.map(({ name, steps }) => ({ name, steps: steps.map(step => step.name) })),
  unserved,
})

const printReport = (report: Report, { out, err }: Pick<Terminal, 'out' | 'err'>): void => {
  const { problems, warnings, failures, storeWarnings } = report
  printProblems(problems, err)
  for (const warning of warnings) err(`warning: ${formatProblem(warning)}`)
  for (const failure of failures) err(failure)
  if (problems.length > 0 || failures.length > 0) return
  for (const line of [...formatSummary(report), ...storeWarnings.map(text => `  warning: ${text}`)]) out(line)
}

const formatSummary = ({ networks, unserved }: Report): readonly string[] => {
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
  return [...warnings, ...missingPlans]
}

const maxListedNames = 5
