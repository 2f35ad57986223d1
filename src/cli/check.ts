import { describeMissingNetworks, loadConfig } from '../config/load.ts'
import { countNoun, formatProblem, printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import { limitsRates, missingRateLimit } from '../config/warnings.ts'
import type { Config } from '../config/types.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { systemClock } from '../services/clock.ts'
import { findKeySetFailure } from '../services/jwt/key-set.ts'
import { inspectStore, openStore } from '../store/open-store.ts'
import { StoreError } from '../store/store.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'
import { configOption, jsonOption, readArguments } from './args.ts'
import { askUpstreams, listUpstreams } from './ask-upstreams.ts'
import type { UpstreamReports, UpstreamReport } from './ask-upstreams.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption, Terminal } from './command.ts'
import { formatTable } from './table-output.ts'

const options = {
  config: configOption,
  online: {
    type: 'boolean',
    default: false,
    description: 'Asks every upstream, connects to a store on Redis, and fetches the keys of tokens (jwt.jwks).',
  },
  strict: { type: 'boolean', default: false, description: 'Warnings are problems: exit code 78.' },
  json: jsonOption,
  github: { type: 'boolean', default: false, description: 'Prints annotations, for GitHub Actions.' },
} as const satisfies Readonly<Record<string, CommandOption>>

/** `dryRun` creates every stage, for the problems that only a plugin's create() finds; it starts none. */
export const createCheckCommand = (
  plugins: readonly LoadablePlugin[],
  dryRun: (config: Config) => Promise<readonly Problem[]>,
): Command => ({
  name: 'check',
  summary: commandSummaries.check,
  usage: ['check [--online] [--strict] [--json|--github] [--config DIR]'],
  positionals: {},
  options,
  examples: {
    'check --online': 'also asks every node and a Redis',
    'check --strict --github --config deploy/configs': 'in a workflow of GitHub: warnings fail too',
  },
  async run(args, terminal) {
    const { config: dir, online, strict, json, github } = readArguments(args, [], options).values
    if (json && github) throw new UsageError('--json and --github cannot be combined')
    const config = await loadConfig(dir, plugins, terminal.env)
    const problems = [...config.problems, ...(await dryRun(config))]
    const { networks, unserved, warnings } = config
    const found: CheckReport = { networks, unserved, problems, warnings, failures: [], storeWarnings: [] }
    const { report, code } =
      problems.length > 0 ? { report: found, code: exitCodes.config } : await checkFurther(found, config, online, terminal)
    if (json) terminal.out(JSON.stringify(toJsonReport(report)))
    else if (github) formatAnnotations(report).forEach(line => terminal.out(line))
    else printTextReport(report, terminal)
    const isStrictFailure = strict && countWarnings(report) > 0
    return isStrictFailure ? exitCodes.config : code
  },
})

/** What only shows once the files have no problems. */
const checkFurther = async (
  found: CheckReport,
  config: Config,
  online: boolean,
  terminal: Terminal,
): Promise<{ readonly report: CheckReport; readonly code: number }> => {
  if (config.networks.length === 0) return { report: { ...found, failures: [describeMissingNetworks(config)] }, code: exitCodes.config }
  const { failures, upstreams } = online ? await askOnline(config, terminal) : nothingAsked
  const report: CheckReport = {
    ...found,
    failures,
    problems: upstreams?.problems ?? [],
    warnings: [...found.warnings, ...(upstreams?.warnings ?? [])],
    storeWarnings: failures.length > 0 ? [] : await findStoreWarnings(config),
    ...(upstreams && { upstreams: upstreams.reports }),
  }
  return { report, code: report.failures.length + report.problems.length > 0 ? exitCodes.failed : exitCodes.ok }
}

interface OnlineAnswers {
  readonly failures: readonly string[]
  readonly upstreams?: UpstreamReports
}

const nothingAsked: OnlineAnswers = { failures: [] }

/** Asks the store, all upstreams and the issuer of tokens at the same time; a terminal shows how many have answered. */
const askOnline = async (config: Config, { status }: Terminal): Promise<OnlineAnswers> => {
  const listed = listUpstreams(config)
  let answered = 0
  const others = config.gateway?.jwt?.jwks === undefined ? 'the store' : 'the store and the issuer of tokens'
  const count = listed.length + (others === 'the store' ? 1 : 2)
  const showProgress = () => status?.(`asking ${countNoun(listed.length, 'upstream')} and ${others}: ${answered} of ${count} answered`)
  const onAnswer = () => {
    answered += 1
    showProgress()
  }
  showProgress()
  const [storeFailures, jwtFailures, upstreams] = await Promise.all([
    findStoreFailures(config).finally(onAnswer),
    findJwtFailures(config, onAnswer),
    askUpstreams(listed, onAnswer),
  ])
  status?.('')
  return { failures: [...storeFailures, ...jwtFailures], upstreams }
}

/** Why `start` could not use the store. An embedded store is not opened, as that would create it. */
const findStoreFailures = async ({ gateway }: Config): Promise<readonly string[]> => {
  if (gateway?.store.kind !== 'redis') return []
  try {
    await (await openStore(gateway.store, systemClock)).close()
    return []
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return [error.message]
  }
}

/** Why `start` could not fetch the keys of tokens. */
const findJwtFailures = async ({ gateway }: Config, onAnswer: () => void): Promise<readonly string[]> => {
  const jwks = gateway?.jwt?.jwks
  if (jwks === undefined) return []
  const failure = await findKeySetFailure(jwks).finally(onAnswer)
  return failure === undefined ? [] : [`gateway.yaml: the keys of jwt.jwks cannot be fetched: ${failure}`]
}

/** What is wrong in the store. An account whose plan is removed from gateway.yaml keeps the plan's name: its calls are rejected until the plan is back. */
const findStoreWarnings = async ({ gateway, networks }: Config): Promise<readonly string[]> => {
  if (gateway === undefined) return []
  const { accounts, hasKeyRates, warnings } = await inspectStore(gateway.store, systemClock)
  const affected = accounts.filter(({ plan }) => !Object.hasOwn(gateway.plans, plan))
  const missingPlans = [...new Set(affected.map(({ plan }) => plan))].sort().map(plan => {
    const names = affected
      .filter(account => account.plan === plan)
      .map(({ name }) => name)
      .sort()
    return (
      `gateway.yaml has no plan \`${plan}\`: calls of ${countNoun(names.length, 'account')} on this plan are rejected: ` +
      formatNames(names)
    )
  })
  const unlimited = hasKeyRates ? networks.filter(network => !limitsRates(network)).map(({ name }) => name) : []
  const keyRates = unlimited.length === 0 ? [] : [`rates of API keys have no effect in ${formatNames(unlimited)}: ${missingRateLimit}`]
  return [...warnings, ...missingPlans, ...keyRates]
}

const formatNames = (names: readonly string[]): string =>
  `${names.slice(0, maxListedNames).join(', ')}${names.length > maxListedNames ? ', …' : ''}`

const maxListedNames = 5

/** What `check` has found. */
interface CheckReport extends Pick<Config, 'networks' | 'unserved' | 'problems' | 'warnings'> {
  /** Why `start` would fail although the files have no problems. */
  readonly failures: readonly string[]
  readonly storeWarnings: readonly string[]
  /** With --online. */
  readonly upstreams?: readonly UpstreamReport[]
}

const countWarnings = ({ warnings, storeWarnings }: Pick<CheckReport, 'warnings' | 'storeWarnings'>): number =>
  warnings.length + storeWarnings.length

const toJsonReport = ({ networks, unserved, problems, warnings, failures, storeWarnings, upstreams }: CheckReport): object => ({
  problems,
  failures,
  warnings: [...warnings, ...storeWarnings.map(message => ({ message }))],
  networks: networks.map(({ name, steps }) => ({ name, steps: steps.map(step => step.name) })),
  unserved,
  ...(upstreams && { upstreams }),
})

const printTextReport = (report: CheckReport, { out, err, styleOut = plain, styleErr = plain }: Terminal): void => {
  const { problems, warnings, failures, storeWarnings, upstreams = [] } = report
  printProblems(problems, { err, styleErr })
  for (const warning of warnings)
    err(`${styleErr('warning', 'warning:')} ${formatProblem(warning, { style: styleErr, meaning: 'warning' })}`)
  for (const failure of failures) err(styleErr('error', failure))
  if (problems.length === 0 && report.networks.length === 0) formatUnserved(report).forEach(line => out(line))
  if (problems.length + failures.length === 0) formatSummary(report, styleOut).forEach(line => out(line))
  if (upstreams.length > 0) formatTable(upstreamHeaders, upstreams.map(upstreamCells), styleOut).forEach(line => out(`  ${line}`))
  if (problems.length + failures.length === 0) for (const text of storeWarnings) out(`  ${styleOut('warning', `warning: ${text}`)}`)
}

const formatSummary = (report: CheckReport, style: Style): readonly string[] => {
  const { networks, unserved } = report
  const warningCount = countWarnings(report)
  const width = nameWidthOf(report)
  const warnings = warningCount === 0 ? '' : `, ${style('warning', countNoun(warningCount, 'warning'))}`
  const unservedCount = unserved.length > 0 ? `, ${unserved.length} not served` : ''
  return [
    `${style('ok', 'no problems')}${warnings}; ${countNoun(networks.length, 'network')} served${unservedCount}`,
    ...networks.map(({ name, steps }) => `  ${name.padEnd(width)}  ${steps.map(step => step.name).join(' > ')}`),
    ...formatUnserved(report),
  ]
}

const nameWidthOf = ({ networks, unserved }: Pick<CheckReport, 'networks' | 'unserved'>): number =>
  Math.max(...[...networks.map(({ name }) => name), ...unserved.map(({ network }) => network)].map(name => name.length))

const formatUnserved = (report: Pick<CheckReport, 'networks' | 'unserved'>): readonly string[] => {
  const width = nameWidthOf(report)
  return report.unserved.map(({ network, variables }) => `  ${network.padEnd(width)}  not served: set ${variables.join(' or ')}`)
}

const upstreamHeaders = ['NETWORK', 'UPSTREAM', 'CHAIN', 'HEAD', 'LAG', 'LATENCY', 'STATE']

const upstreamCells = ({ network, name, chainId, head, lag, latencyMs, archive, newHeads }: UpstreamReport): readonly string[] => [
  network,
  name,
  ...[chainId, head, lag].map(value => (value === undefined ? '-' : String(value))),
  latencyMs === undefined ? '-' : `${latencyMs} ms`,
  [describeState(head, archive), ...(newHeads === true ? ['newHeads'] : [])].join(', '),
]

const describeState = (head: number | undefined, archive: boolean | undefined): string => {
  if (head === undefined) return 'no answer'
  return archive === undefined ? '-' : archive ? 'archive' : 'recent blocks'
}

/** Workflow commands of GitHub Actions, which it shows beside the lines of a pull request. */
const formatAnnotations = ({ problems, warnings, failures, storeWarnings }: CheckReport): readonly string[] => [
  ...problems.map(problem => annotate('error', problem)),
  ...failures.map(message => `::error::${escapeData(message)}`),
  ...warnings.map(warning => annotate('warning', warning)),
  ...storeWarnings.map(message => `::warning::${escapeData(message)}`),
]

const annotate = (command: 'error' | 'warning', { file, line, column, message, hint }: Problem): string =>
  `::${command} file=${escapeProperty(file)},line=${line},col=${column}::${escapeData(hint ? `${message} (${hint})` : message)}`

const escapeData = (text: string): string => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
const escapeProperty = (text: string): string => escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C')
