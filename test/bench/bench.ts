import { writeFile } from 'node:fs/promises'
import { cpus, loadavg, release, type } from 'node:os'
import { cases } from './cases.ts'
import type { Case, CaseResult } from './cases.ts'
import { parseBenchOptions, usageText } from './bench-options.ts'
import type { BenchOptions } from './bench-options.ts'
import { cpuDifference, cpuRatio } from './figures.ts'
import { variantName } from './measure.ts'
import { hasProc } from './proc-fs.ts'
import { isStopped, stopAll } from './server-process.ts'
import { openBenchServers } from './servers.ts'
import type { BenchServers } from './servers.ts'
import { drawSvg } from './results-svg.ts'
import { formatCaseResult } from './results-table.ts'

const describeMachine = (): string =>
  [`Node ${process.version}`, `${type()} ${release()}`, `${cpus().length} cores`, cpus()[0]?.model.trim()].join(', ')

const describeRun = ({ settings, quick, workers }: BenchOptions): string =>
  [
    `${describeMachine()}, load average ${loadavg()[0]?.toFixed(1)} before the run`,
    `${settings.rounds} rounds of ${settings.roundMs} ms for each scenario, in turn`,
    ...(workers === undefined ? [] : [`${workers} workers`]),
    ...(quick ? ['--quick: not all cases, few and short rounds; a wide spread makes a figure unreliable'] : []),
    'Figures are medians, with minimum and maximum of all rounds. CPU is user and kernel time of the server process.',
    ...(hasProc ? [] : ['This system has no /proc: CPU and memory are not measured.']),
    '',
  ].join('\n')

interface CaseReport extends CaseResult {
  readonly case: Case
}

/** Runs the cases one after another. A case that fails does not stop the others. */
const runCases = async (options: BenchOptions, selected: readonly Case[]): Promise<readonly CaseReport[]> => {
  const servers = await openBenchServers(options)
  const reports: CaseReport[] = []
  const end = performance.now() + options.settings.timeLimitMs
  try {
    for (const each of selected) {
      const outcome = performance.now() < end ? await runCase(servers, each) : logSkipped(each)
      if (outcome !== undefined) reports.push({ case: each, ...outcome })
    }
  } finally {
    await servers.close()
  }
  return reports
}

/** Prints the result of the case; undefined when the case failed. */
const runCase = async (servers: BenchServers, each: Case): Promise<CaseResult | undefined> => {
  try {
    const outcome = withVariants(servers, await each.run(servers, line => console.log(line)))
    console.log(formatCaseResult(each, outcome))
    return outcome
  } catch (error) {
    if (isStopped()) throw error
    console.error(`bench: ${each.name}: ${(error as Error).message}\n`)
    process.exitCode = 1
    return undefined
  }
}

/** Adds how the CPU of each line compares with that of the variants, and what a plugin costs. */
const withVariants = ({ variants }: BenchServers, { rows, figures, ...others }: CaseResult): CaseResult => {
  const compared = variants.flatMap(variant =>
    rows
      .map(({ name }) => [name, variantName(name, variant)] as const)
      .filter(([, other]) => rows.some(row => row.name === other))
      .map(([name, other]) => (variant.server === 'with plugin' ? cpuDifference(rows, other, name) : cpuRatio(rows, name, other))),
  )
  return { rows, figures: [...figures, ...compared], ...others }
}

const logSkipped = ({ name }: Case): undefined => void console.log(`skipped: ${name}: the time limit of the run is over`)

const writeResults = async ({ json, svg, settings, quick, workers }: BenchOptions, reports: readonly CaseReport[]): Promise<void> => {
  const results = reports.map(({ case: { name, title }, rows, figures }) => ({ name, title, rows, figures }))
  const facts = { machine: describeMachine(), quick, settings, workers } // not the peers: their URLs may hold keys
  if (json !== undefined) await writeFile(json, `${JSON.stringify({ ...facts, results }, null, 2)}\n`)
  if (svg !== undefined) await writeFile(svg, drawSvg(results, describeMachine()))
}

const isSelected = ({ name, skipInQuick }: Case, { only, quick }: BenchOptions): boolean =>
  only.length > 0 ? only.includes(name) : !(quick && skipInQuick === true)

/** Undefined after a wrong option has been reported. */
const parseCommandLine = (): { options: BenchOptions; selected: readonly Case[] } | undefined => {
  try {
    const options = parseBenchOptions(process.argv.slice(2))
    const unknown = options.only.find(name => !cases.some(each => each.name === name))
    if (unknown !== undefined) throw new Error(`unknown case "${unknown}"`)
    return { options, selected: cases.filter(each => isSelected(each, options)) }
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usageText}\n\nCases: ${cases.map(({ name }) => name).join(', ')}`)
    return undefined
  }
}

/** The exit code says whether everything was measured and all responses were right, not whether the targets were met. */
const main = async (): Promise<number> => {
  const commandLine = parseCommandLine()
  if (commandLine === undefined) return 64
  let isInterrupted = false
  const interrupt = (): void => {
    isInterrupted = true
    stopAll() // makes the running case fail, and the files are then removed
  }
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, interrupt)
  try {
    console.log(describeRun(commandLine.options))
    await writeResults(commandLine.options, await runCases(commandLine.options, commandLine.selected))
    return Number(process.exitCode ?? 0)
  } catch (error) {
    if (isInterrupted) return 130
    console.error(`bench: ${(error as Error).message}`)
    return 1
  }
}

process.exit(await main())
