import { writeFile } from 'node:fs/promises'
import { cpus, loadavg, release, type } from 'node:os'
import { cases } from './cases.ts'
import type { Case, Outcome } from './cases.ts'
import { readOptions, usage } from './options.ts'
import type { Options } from './options.ts'
import { hasProc } from './proc.ts'
import { isStopped, stopAll } from './processes.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'
import { draw } from './svg.ts'
import { tabulate } from './table.ts'

const machine = (): string =>
  [`Node ${process.version}`, `${type()} ${release()}`, `${cpus().length} cores`, cpus()[0]?.model.trim()].join(', ')

const introduce = ({ effort, quick, workers }: Options): string =>
  [
    `${machine()}, load average ${loadavg()[0]?.toFixed(1)} before the run`,
    `${effort.rounds} rounds of ${effort.round} ms for each line, in turn`,
    ...(workers === undefined ? [] : [`${workers} workers`]),
    ...(quick ? ['--quick: not all cases, few and short rounds; look at the spreads before you believe a figure'] : []),
    'Figures are medians, with the least and the most of all rounds. CPU is that of the server process, user and kernel.',
    ...(hasProc ? [] : ['This system has no /proc: CPU and memory are not measured.']),
    '',
  ].join('\n')

interface Measured extends Outcome {
  readonly case: Case
}

/** Runs the cases one after another. One that breaks does not spoil the rest. */
const measure = async (options: Options, chosen: readonly Case[]): Promise<readonly Measured[]> => {
  const stage = await openStage(options)
  const done: Measured[] = []
  try {
    for (const each of chosen) {
      const outcome = performance.now() < options.effort.limit ? await runCase(stage, each) : tooLate(each)
      if (outcome !== undefined) done.push({ case: each, ...outcome })
    }
  } finally {
    await stage.close()
  }
  return done
}

/** Prints the case as soon as it is done; undefined when it broke. */
const runCase = async (stage: Stage, each: Case): Promise<Outcome | undefined> => {
  try {
    const outcome = await each.run(stage, line => console.log(line))
    console.log(tabulate(each, outcome))
    return outcome
  } catch (fault) {
    if (isStopped()) throw fault
    console.error(`bench: ${each.name}: ${(fault as Error).message}\n`)
    process.exitCode = 1
    return undefined
  }
}

const tooLate = ({ name }: Case): undefined => void console.log(`left out: ${name}, for want of time`)

const write = async ({ json, svg, effort, quick, workers }: Options, done: readonly Measured[]): Promise<void> => {
  const results = done.map(({ case: { name, title }, rows, figures }) => ({ name, title, rows, figures }))
  const facts = { machine: machine(), quick, effort, workers } // not the peers: their URLs may hold keys
  if (json !== undefined) await writeFile(json, `${JSON.stringify({ ...facts, results }, null, 2)}\n`)
  if (svg !== undefined) await writeFile(svg, draw(results, machine()))
}

const isChosen = ({ name, twin }: Case, { only, quick }: Options): boolean =>
  only.length > 0 ? only.includes(name) : !(quick && twin === true)

/** Undefined after the wrong word has been named. */
const readWords = (): { options: Options; chosen: readonly Case[] } | undefined => {
  try {
    const options = readOptions(process.argv.slice(2))
    const unknown = options.only.find(name => !cases.some(each => each.name === name))
    if (unknown !== undefined) throw new Error(`there is no case "${unknown}"`)
    return { options, chosen: cases.filter(each => isChosen(each, options)) }
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}\n\nCases: ${cases.map(({ name }) => name).join(', ')}`)
    return undefined
  }
}

/** The exit code says whether everything was measured and all answers were right, not whether targets were met. */
const main = async (): Promise<number> => {
  const words = readWords()
  if (words === undefined) return 64
  // Whatever is going on fails then, and is cleared away.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, stopAll)
  try {
    console.log(introduce(words.options))
    await write(words.options, await measure(words.options, words.chosen))
    return Number(process.exitCode ?? 0)
  } catch (fault) {
    if (isStopped()) return 130
    console.error(`bench: ${(fault as Error).message}`)
    return 1
  }
}

process.exit(await main())
