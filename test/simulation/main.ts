import { parseArgs } from 'node:util'
import { bugs } from './bugs.ts'
import type { Bug } from './bugs.ts'
import { withBug } from './inject-bug.ts'
import { distancesMs, simulateRegions } from './regions.ts'
import type { RegionsResult, RegionsWorld } from './regions.ts'
import { replayOf, simulate, simulateAll } from './run-simulation.ts'
import * as systemUnderTest from './system-under-test.ts'
import type { SystemUnderTest } from './simulation.ts'

// npm run simulate -- --seeds 20000          so many runs; fails when one of them violates an invariant
// npm run simulate -- --seed 17              one run, with a trace
// npm run simulate -- --bugs                 which seed catches each injected bug; fails when one survives
// npm run simulate -- --bugs --seeds 200     how many of so many seeds catch each bug
// npm run simulate -- --regions              gateways in ten regions; --accounts, --calls, --gateways (of a region) and --spread are its size;
//                                            --world all|back|gone|small runs one of its worlds
// npm run simulate -- --bug midnight …       as the first two, with the first bug whose name contains this
const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    bug: { type: 'string' },
    bugs: { type: 'boolean', default: false },
    regions: { type: 'boolean', default: false },
    accounts: { type: 'string', default: '10000' },
    calls: { type: 'string', default: '2000' },
    gateways: { type: 'string', default: '10' },
    spread: { type: 'string', default: '1' },
    changes: { type: 'string', default: '60' },
    'warm-up': { type: 'string', default: '600' },
    seconds: { type: 'string', default: '100' },
    world: { type: 'string', multiple: true, default: ['all', 'back', 'gone', 'small'] },
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

/** False where a bound of docs/scale.md does not hold. */
const runRegions = async (): Promise<boolean> => {
  const world: RegionsWorld = {
    distancesMs,
    gatewaysPerRegion: Number(values.gateways),
    gatewaysOfAccount: Number(values.spread),
    accounts: Number(values.accounts),
    callsPerSecond: Number(values.calls),
    changesPerHour: Number(values.changes),
    dailyCredits: 200_000_000,
    warmUpSeconds: Number(values['warm-up']),
    seconds: Number(values.seconds),
  }
  let holds = true
  for (const { name, over, holds: isBound } of regionWorlds.filter(each => values.world.includes(each.option))) {
    const result = await simulateRegions({ ...world, ...over })
    console.log(`${name}: ${describeRegions(result)}`)
    holds &&= result.overshoot <= 0 && isBound(result)
  }
  return holds
}

const describeRegions = (result: RegionsResult): string => {
  const { calls, waited, waitedForKey, waitedForCredits, first, waitedMs, unavailable, leaseRequests } = result
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`
  const shareOf = (count: number): string => percent(count / calls)
  return [
    `${calls} calls, ${shareOf(waited)} waited (${(waitedMs / waited).toFixed(0)} ms): ${shareOf(waitedForKey)} for keys`,
    `${shareOf(waitedForCredits)} for credits, ${shareOf(first)} were the first of their account at their gateway`,
    `${shareOf(unavailable)} unavailable, ${percent(result.forfeited)} forfeited, ${percent(result.unserved)} unserved`,
    `${leaseRequests} lease requests, overshoot ${result.overshoot}`,
  ].join(', ')
}

const [maxWaitingCalls, maxForfeited, maxUnserved] = [0.005, 0.01, 0.02]
/** Of those calls whose account has called the gateway before. */
const waitsSeldom = ({ waited, first, calls }: RegionsResult): boolean => waited - first <= maxWaitingCalls * calls
const forfeitsLittle = ({ forfeited }: RegionsResult): boolean => forfeited <= maxForfeited

const farthest = distancesMs.length - 1

/** `holds`: the bounds of docs/scale.md beside that of the balance. */
const regionWorlds: readonly RegionsVariant[] = [
  { option: 'all', name: 'ten regions', over: {}, holds: result => waitsSeldom(result) && forfeitsLittle(result) },
  {
    option: 'back',
    name: 'the farthest is lost for 10 s',
    over: { lostRegion: { region: farthest, from: 20, until: 30 } },
    holds: forfeitsLittle,
  },
  { option: 'gone', name: 'the farthest is lost for good', over: { lostRegion: { region: farthest, from: 20 } }, holds: forfeitsLittle },
  {
    option: 'small',
    name: 'balances that are used up',
    over: { dailyCredits: 100_000 },
    holds: ({ unserved }) => unserved <= maxUnserved,
  },
]

interface RegionsVariant {
  readonly option: string
  readonly name: string
  readonly over: Partial<RegionsWorld>
  holds(result: RegionsResult): boolean
}

const main = async (): Promise<boolean> => {
  if (values.regions) return runRegions()
  const bug = values.bug === undefined ? undefined : bugs.find(({ name }) => name.includes(values.bug ?? ''))
  if (values.bug !== undefined && bug === undefined) throw new Error(`no bug has a name with ${values.bug}`)
  if (bug !== undefined) return withBug(bug, run)
  if (!values.bugs) return run(systemUnderTest)
  let survivors = 0
  for (const each of bugs) survivors += (await isCaught(each)) ? 0 : 1
  return survivors === 0
}

process.exitCode = (await main()) ? 0 : 1
