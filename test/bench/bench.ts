import { writeFile } from 'node:fs/promises'
import { cpus, loadavg, release, type } from 'node:os'
import { cases } from './cases.ts'
import type { Case, CaseResult } from './cases.ts'
import { parseBenchOptions, usageText } from './bench-options.ts'
import type { BenchOptions } from './bench-options.ts'
import { hasProc } from './proc-fs.ts'
import { isStopped, stopAll } from './server-process.ts'
import { openBenchServers } from './servers.ts'
import type { BenchServers } from './servers.ts'
import { drawSvg } from './results-svg.ts'
import { formatCaseResult } from './results-table.ts'

const describeMachine = (): string =>
  [`Node ${process.version}`, `${type()} ${release()}`, `${cpus().length} cores`, cpus()[0]?.model.trim()].join(', ')

const describeRun = ({ settings: effort, quick, workers }: BenchOptions): string =>
  [
    `${describeMachine()}, load average ${loadavg()[0]?.toFixed(1)} before the run`,
    `${effort.rounds} rounds of ${effort.roundMs} ms for each line, in turn`,
    ...(workers === undefined ? [] : [`${workers} workers`]),
    ...(quick ? ['--quick: not all cases, few and short rounds; look at the spreads before you believe a figure'] : []),
    'Figures are medians, with the least and the most of all rounds. CPU is that of the server process, user and kernel.',
    ...(hasProc ? [] : ['This system has no /proc: CPU and memory are not measured.']),
    '',
  ].join('\n')

interface CaseReport extends CaseResult {
  readonly case: Case
}

/** Runs the cases one after another. One that breaks does not spoil the rest. */
const runCases = async (options: BenchOptions, selected: readonly Case[]): Promise<readonly CaseReport[]> => {
  const servers = await openBenchServers(options)
  const reports: CaseReport[] = []
  try {
    for (const each of selected) {
      const outcome = performance.now() < options.settings.timeLimitMs ? await runCase(servers, each) : logSkipped(each)
      if (outcome !== undefined) reports.push({ case: each, ...outcome })
    }
  } finally {
    await servers.close()
  }
  return reports
}

/** Prints the case as soon as it is done; undefined when it broke. */
const runCase = async (servers: BenchServers, each: Case): Promise<CaseResult | undefined> => {
  try {
    const outcome = await each.run(servers, line => console.log(line))
    console.log(formatCaseResult(each, outcome))
    return outcome
  } catch (error) {
    if (isStopped()) throw error
    console.error(`bench: ${each.name}: ${(error as Error).message}\n`)
    process.exitCode = 1
    return undefined
  }
}

const logSkipped = ({ name }: Case): undefined => void console.log(`left out: ${name}, for want of time`)

const writeResults = async ({ json, svg, settings: effort, quick, workers }: BenchOptions, done: readonly CaseReport[]): Promise<void> => {
  const results = done.map(({ case: { name, title }, rows, figures }) => ({ name, title, rows, figures }))
  const facts = { machine: describeMachine(), quick, effort, workers } // not the peers: their URLs may hold keys
  if (json !== undefined) await writeFile(json, `${JSON.stringify({ ...facts, results }, null, 2)}\n`)
  if (svg !== undefined) await writeFile(svg, drawSvg(results, describeMachine()))
}

const isSelected = ({ name, skipInQuick: twin }: Case, { only, quick }: BenchOptions): boolean =>
  only.length > 0 ? only.includes(name) : !(quick && twin === true)

/** Undefined after the wrong word has been named. */
const parseCommandLine = (): { options: BenchOptions; chosen: readonly Case[] } | undefined => {
  try {
    const options = parseBenchOptions(process.argv.slice(2))
    const unknown = options.only.find(name => !cases.some(each => each.name === name))
    if (unknown !== undefined) throw new Error(`there is no case "${unknown}"`)
    return { options, chosen: cases.filter(each => isSelected(each, options)) }
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usageText}\n\nCases: ${cases.map(({ name }) => name).join(', ')}`)
    return undefined
  }
}

/** The exit code says whether everything was measured and all answers were right, not whether targets were met. */
const main = async (): Promise<number> => {
  const commandLine = parseCommandLine()
  if (commandLine === undefined) return 64
  // Whatever is going on fails then, and is cleared away.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, stopAll)
  try {
    console.log(describeRun(commandLine.options))
    await writeResults(commandLine.options, await runCases(commandLine.options, commandLine.chosen))
    return Number(process.exitCode ?? 0)
  } catch (error) {
    if (isStopped()) return 130
    console.error(`bench: ${(error as Error).message}`)
    return 1
  }
}

process.exit(await main())
