import { parseArgs } from 'node:util'
import { bugs } from './bugs.ts'
import type { Bug } from './bugs.ts'
import { withBug } from './inject-bug.ts'
import { replayOf, simulate, simulateAll } from './run-simulation.ts'
import * as systemUnderTest from './system-under-test.ts'
import type { SystemUnderTest } from './simulation.ts'

// npm run simulate -- --seeds 20000          so many runs; fails when one of them violates an invariant
// npm run simulate -- --seed 17              one run, with a trace
// npm run simulate -- --bugs                 which seed catches each injected bug; fails when one survives
// npm run simulate -- --bugs --seeds 200     how many of so many seeds catch each bug
// npm run simulate -- --bug midnight …       as the first two, with the first bug whose name contains this
const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    bug: { type: 'string' },
    bugs: { type: 'boolean', default: false },
  },
})
const from = Number(values.from)

const runSeed = async (target: SystemUnderTest, seed: number): Promise<boolean> => {
  const { violation } = await simulate(target, seed, line => console.log(line))
  return violation === undefined
}

const runSeeds = async (target: SystemUnderTest, seeds: number): Promise<boolean> => {
  const started = performance.now()
  const { failed, calls, kills, stops } = await simulateAll(target, from, seeds)
  const seconds = ((performance.now() - started) / 1_000).toFixed(1)
  for (const { seed, violation } of failed) console.log(`seed ${seed}: ${violation}\n  ${replayOf(seed)}`)
  console.log(`${seeds} seeds, ${calls} calls, ${kills} kills, ${stops} stops, ${seconds} s: ${failed.length} failed`)
  return failed.length === 0
}

/** Without --seeds the first seed that catches the bug is enough. */
const isCaught = async (bug: Bug): Promise<boolean> => {
  const [seeds, maxFailures] = values.seeds === undefined ? [1_000, 1] : [Number(values.seeds), Infinity]
  const { failed } = await withBug(bug, copy => simulateAll(copy, bug.firstSeed ?? from, seeds, maxFailures))
  const [first] = failed
  if (maxFailures !== 1) console.log(`${failed.length} of ${seeds} seeds catch: ${bug.name}`)
  else if (first === undefined) console.log(`NOT CAUGHT by ${seeds} seeds: ${bug.name}`)
  else console.log(`${bug.name}: seed ${first.seed}, ${first.violation}`)
  return first !== undefined
}

const run = async (target: SystemUnderTest): Promise<boolean> =>
  values.seed === undefined ? runSeeds(target, Number(values.seeds ?? 500)) : runSeed(target, Number(values.seed))

const main = async (): Promise<boolean> => {
  const bug = values.bug === undefined ? undefined : bugs.find(({ name }) => name.includes(values.bug ?? ''))
  if (values.bug !== undefined && bug === undefined) throw new Error(`no bug has a name with ${values.bug}`)
  if (bug !== undefined) return withBug(bug, run)
  if (!values.bugs) return run(systemUnderTest)
  let survivors = 0
  for (const each of bugs) survivors += (await isCaught(each)) ? 0 : 1
  return survivors === 0
}

process.exitCode = (await main()) ? 0 : 1
