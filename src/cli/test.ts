import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { displayPath, yamlBaseNames } from '../config/config-files.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { networkNames } from '../config/load.ts'
import { openMethodTables } from '../config/method-tables.ts'
import { countNoun, formatProblems } from '../config/problem.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { runCases } from '../testing/run-cases.ts'
import type { CaseReport } from '../testing/run-cases.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { configOption, formatHint, jsonOption, readArguments } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption, Terminal } from './command.ts'

const options = {
  network: { type: 'string', placeholder: 'NETWORK', description: 'Runs the cases of this network only.' },
  json: jsonOption,
  config: configOption,
} as const satisfies Readonly<Record<string, CommandOption>>

/** The cases of networks, on a clock and over upstreams of the test. */
export const createTestCommand = (plugins: readonly LoadablePlugin[]): Command => ({
  name: 'test',
  summary: commandSummaries.test,
  usage: ['test [--network NETWORK] [--json] [--config DIR]'],
  positionals: {},
  options,
  examples: {
    test: 'the cases of all networks',
    'test --network base-mainnet --json': 'those of one network, for programs',
  },
  async run(args, terminal) {
    const { config, network, json } = readArguments(args, [], options).values
    const dir = resolve(config)
    const names = selectNetworks(dir, network)
    const { config: gateway } = readGatewayConfig(dir, terminal.env)
    const context = { plugins, tables: openMethodTables(dir), plans: gateway?.plans, limits: gateway?.limits }
    const reports: NamedReport[] = []
    for (const name of names) {
      const casesPath = join(dir, 'networks', `${name}.test.yaml`)
      const report = existsSync(casesPath) ? await runCases(casesPath, join(dir, 'networks', `${name}.yaml`), context) : undefined
      reports.push({ name, report })
    }
    printReports(reports, json, terminal)
    const isFailed = reports.some(({ report }) => report !== undefined && report.problems.length > 0)
    return isFailed ? exitCodes.failed : exitCodes.ok
  },
})

interface NamedReport {
  readonly name: string
  /** Undefined for a network without cases. */
  readonly report: CaseReport | undefined
}

/** Also the names of networks that have cases and no file: a network that was renamed would no longer be tested. */
const selectNetworks = (dir: string, only: string | undefined): readonly string[] => {
  const tested = yamlBaseNames(join(dir, 'networks')).flatMap(name => (name.endsWith('.test') ? [name.slice(0, -'.test'.length)] : []))
  const names = [...new Set([...networkNames(dir), ...tested])].sort()
  if (names.length === 0) throw new UsageError(`${displayPath(dir)} has no networks`)
  if (only === undefined) return names
  if (!names.includes(only)) throw new UsageError(`there is no network ${only}${formatHint(didYouMean(only, names))}`)
  return [only]
}

const printReports = (reports: readonly NamedReport[], json: boolean, { out, err, styleErr }: Terminal): void => {
  if (json) return out(JSON.stringify(reports.map(({ name, report }) => ({ network: name, ...report }))))
  const problems = reports.flatMap(({ report }) => report?.problems ?? [])
  if (problems.length > 0) err(`${formatProblems(problems, styleErr)}\n`)
  const width = Math.max(...reports.map(({ name }) => name.length))
  for (const { name, report } of reports) out(`${name.padEnd(width)}  ${describeReport(report)}`)
}

const describeReport = (report: CaseReport | undefined): string => {
  if (report === undefined) return 'no cases'
  const { passed, failed, problems } = report
  if (passed + failed === 0) return `not run: ${countNoun(problems.length, 'problem')}`
  return `${countNoun(passed, 'case')} passed${failed > 0 ? `, ${failed} failed` : ''}`
}
