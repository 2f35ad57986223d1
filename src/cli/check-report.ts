import { countNoun, formatProblem, printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import type { Config } from '../config/types.ts'
import type { UpstreamReport } from './ask-upstreams.ts'
import type { Terminal } from './command.ts'
import { formatTable } from './text-table.ts'

/** What `check` has found. */
export interface CheckReport extends Pick<Config, 'networks' | 'unserved' | 'problems' | 'warnings'> {
  /** Why `start` would fail although the files have no problems. */
  readonly failures: readonly string[]
  readonly storeWarnings: readonly string[]
  /** With --online. */
  readonly upstreams?: readonly UpstreamReport[]
}

export const reportFormats = ['text', 'json', 'github'] as const

export type ReportFormat = (typeof reportFormats)[number]

export const printReport = (report: CheckReport, format: ReportFormat, terminal: Pick<Terminal, 'out' | 'err'>): void => {
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
