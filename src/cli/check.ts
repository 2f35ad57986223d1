import { describeMissingNetworks, loadConfig } from '../config/load.ts'
import { countNoun } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import { limitsRates, missingRateLimit } from '../config/warnings.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { systemClock } from '../services/clock.ts'
import { inspectStore, openStore } from '../store/open-store.ts'
import { StoreError } from '../store/store.ts'
import { formatAlternatives, configOption, readArguments } from './args.ts'
import { askUpstreams, listUpstreams } from './ask-upstreams.ts'
import type { UpstreamReports } from './ask-upstreams.ts'
import { printReport, reportFormats } from './check-report.ts'
import type { CheckReport, ReportFormat } from './check-report.ts'
import { UsageError, exitCodes } from './command.ts'
import { commandSummaries } from './command-summaries.ts'
import type { Command, CommandOption, Terminal } from './command.ts'

const options = {
  config: configOption,
  online: { type: 'boolean', default: false, description: 'Asks every upstream, and connects to a store on Redis.' },
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

/** Asks the store and all upstreams at the same time; a terminal shows how many have answered. */
const askOnline = async (config: Config, { status }: Terminal): Promise<OnlineAnswers> => {
  const listed = listUpstreams(config)
  let answered = 0
  const showProgress = () =>
    status?.(`asking ${countNoun(listed.length, 'upstream')} and the store: ${answered} of ${listed.length + 1} answered`)
  const onAnswer = () => {
    answered += 1
    showProgress()
  }
  showProgress()
  const [failures, upstreams] = await Promise.all([findStoreFailures(config).finally(onAnswer), askUpstreams(listed, onAnswer)])
  status?.('')
  return { failures, upstreams }
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
