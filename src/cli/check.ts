import { describeMissingNetworks, loadConfig } from '../config/load.ts'
import { countNoun, formatProblem, printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import { limitsRates, missingRateLimit } from '../config/warnings.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { systemClock } from '../services/clock.ts'
import { findKeySetFailure } from '../services/jwt/key-set.ts'
import { inspectStore, openStore } from '../store/open-store.ts'
import { StoreError } from '../store/store.ts'
import { formatAlternatives } from '../util/did-you-mean.ts'
import { configOption, readArguments } from './args.ts'
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
  format: {
    type: 'string',
    placeholder: 'FORMAT',
    default: 'text',
    description: 'Text for people, json for programs, or github for annotations of GitHub Actions.',
  },
} as const satisfies Readonly<Record<string, CommandOption>>

/** `dryRun` creates every stage, for the problems that only a plugin's create() finds; it starts none. */
export const createCheckCommand = (plugins: readonly AnyPlugin[], dryRun: (config: Config) => Promise<readonly Problem[]>): Command => ({
  name: 'check',
  summary: commandSummaries.check,
  usage: ['check [--online] [--strict] [--format text|json|github] [--config DIR]'],
  positionals: {},
  options,
  async run(args, terminal) {
    const { config: dir, online, strict, format } = readArguments(args, [], options).values
    const reportFormat = readFormat(format)
    const config = await loadConfig(dir, plugins, terminal.env)
    const problems = [...config.problems, ...(await dryRun(config))]
    const { networks, unserved, warnings } = config
    const found: CheckReport = { networks, unserved, problems, warnings, failures: [], storeWarnings: [] }
    const { report, code } =
      problems.length > 0 ? { report: found, code: exitCodes.config } : await checkFurther(found, config, online, terminal)
    printReport(report, reportFormat, terminal)
    const isStrictFailure = strict && report.warnings.length + report.storeWarnings.length > 0
    return isStrictFailure ? exitCodes.config : code
  },
})

const readFormat = (text: string): ReportFormat => {
  const found = reportFormats.find(format => format === text)
  if (found === undefined) throw new UsageError(`--format must be ${formatAlternatives(reportFormats)}`)
  return found
}

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

const reportFormats = ['text', 'json', 'github'] as const

type ReportFormat = (typeof reportFormats)[number]

const printReport = (report: CheckReport, format: ReportFormat, terminal: Pick<Terminal, 'out' | 'err'>): void => {
  if (format === 'json') terminal.out(JSON.stringify(toJsonReport(report)))
  else if (format === 'github') formatAnnotations(report).forEach(line => terminal.out(line))
  else printTextReport(report, terminal)
}

const toJsonReport = ({ networks, unserved, problems, warnings, failures, storeWarnings, upstreams }: CheckReport): object => ({
  problems,
  failures,
  warnings: [...warnings, ...storeWarnings.map(message => ({ message }))],
  networks: networks.map(({ name, steps }) => ({ name, steps: steps.map(step => step.name) })),
  unserved,
  ...(upstreams && { upstreams }),
})

const printTextReport = (report: CheckReport, { out, err }: Pick<Terminal, 'out' | 'err'>): void => {
  const { problems, warnings, failures, storeWarnings, upstreams = [] } = report
  printProblems(problems, err)
  for (const warning of warnings) err(`warning: ${formatProblem(warning)}`)
  for (const failure of failures) err(failure)
  if (problems.length + failures.length === 0) formatSummary(report).forEach(line => out(line))
  if (upstreams.length > 0) formatTable(upstreamHeaders, upstreams.map(upstreamCells)).forEach(line => out(`  ${line}`))
  if (problems.length + failures.length === 0) for (const text of storeWarnings) out(`  warning: ${text}`)
}

const formatSummary = ({ networks, unserved }: CheckReport): readonly string[] => {
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
