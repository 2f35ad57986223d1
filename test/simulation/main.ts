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
// npm run simulate -- --regions              gateways in ten regions; --accounts, --calls and --gateways (of a region) are its size, --spread the gateways
//                                            that an account calls (1: a load balancer hashes keys); --world NAME runs one of its worlds (of
//                                            `regionWorlds`; called, called-back, steady and cut, minutes, and midnight-cut only so); fails where a bound of docs/scale.md does not hold
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
    hour: { type: 'string', default: '6' },
    'warm-up': { type: 'string', default: '600' },
    seconds: { type: 'string', default: '100' },
    world: { type: 'string', multiple: true, default: ['all', 'back', 'gone', 'small', 'midnight', 'killed'] },
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
    startHour: Number(values.hour),
    warmUpSeconds: Number(values['warm-up']),
    seconds: Number(values.seconds),
  }
  let holds = true
  for (const { name, over, bounds } of regionWorlds.filter(each => values.world.includes(each.option))) {
    const result = await simulateRegions({ ...world, ...over })
    console.log(`${name}: ${describeRegions(result)}`)
    for (const { rule, holds: isMet } of [neverOver, ...bounds]) {
      if (isMet(result)) continue
      console.log(`  DOES NOT HOLD: ${rule}`)
      holds = false
    }
  }
  return holds
}

const describeRegions = (result: RegionsResult): string => {
  const { calls, waited, first, laterForKey, laterForCredits, waitedMs, unavailable, leaseRequests } = result
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`
  const shareOf = (count: number): string => percent(count / calls)
  return [
    `${calls} calls, ${shareOf(waited)} waited (${(waitedMs / waited).toFixed(0)} ms): ${shareOf(first)} were the first of their account at their gateway`,
    `${shareOf(waited - first)} were others (${shareOf(laterForCredits)} for credits, ${shareOf(laterForKey)} for keys)`,
    `${shareOf(unavailable)} unavailable, ${percent(result.forfeited)} forfeited (${percent(result.mostForfeited)} of the account that lost most)`,
    `${percent(result.unserved)} unserved, ${result.kills} kills, ${leaseRequests} lease requests, overshoot ${Math.max(0, result.overshoot)}`,
  ].join(', ')
}

/** Shares of 1. */
const [maxWaiting, maxForfeited, maxUnserved] = [0.005, 0.01, 0.02]

const neverOver: Bound = { rule: 'no account is served beyond its day', holds: ({ overshoot }) => overshoot <= 0 }
const laterCallsWaitSeldom: Bound = {
  rule: 'of calls, at most 0.5 % wait that are not the first of their account at their gateway',
  holds: ({ waited, first, calls }) => waited - first <= maxWaiting * calls,
}
const callsWaitSeldom: Bound = { rule: 'at most 0.5 % of calls wait', holds: ({ waited, calls }) => waited <= maxWaiting * calls }
const forfeitsLittle: Bound = { rule: 'at most 1 % of the credits is forfeited', holds: ({ forfeited }) => forfeited <= maxForfeited }
const servesBalances: Bound = {
  rule: 'an account that is refused has at most 2 % of its day left, on average',
  holds: ({ unserved }) => unserved <= maxUnserved,
}

const farthest = distancesMs.length - 1

const regionWorlds: readonly RegionsVariant[] = [
  { option: 'all', name: 'ten regions', over: {}, bounds: [laterCallsWaitSeldom, forfeitsLittle] },
  {
    option: 'steady',
    // Each gateway has as many accounts and calls as each of a hundred that a million accounts call 2,000 times a second.
    name: 'ten regions after four hours',
    over: { accounts: 100_000, callsPerSecond: 200, gatewaysPerRegion: 1, gatewaysOfAccount: 1, warmUpSeconds: 14_400, seconds: 300 },
    bounds: [callsWaitSeldom, forfeitsLittle],
  },
  {
    option: 'called',
    name: 'a million accounts, each of which has called its gateway before',
    over: { accounts: 1_000_000, gatewaysOfAccount: 1, hasEachCalled: true },
    bounds: [callsWaitSeldom, forfeitsLittle],
  },
  {
    option: 'called-back',
    name: 'a million accounts, each of which has called its gateway before; the farthest is lost for 10 s',
    over: { accounts: 1_000_000, gatewaysOfAccount: 1, hasEachCalled: true, lostRegion: { region: farthest, from: 20, until: 30 } },
    bounds: [callsWaitSeldom, forfeitsLittle],
  },
  {
    option: 'back',
    name: 'the farthest is lost for 10 s',
    over: { lostRegion: { region: farthest, from: 20, until: 30 } },
    bounds: [callsWaitSeldom, forfeitsLittle],
  },
  {
    option: 'gone',
    name: 'the farthest is lost for good',
    over: { lostRegion: { region: farthest, from: 20 } },
    bounds: [callsWaitSeldom, forfeitsLittle],
  },
  {
    option: 'cut',
    name: 'the farthest is lost for an hour',
    over: {
      accounts: 1_000,
      callsPerSecond: 200,
      warmUpSeconds: 100,
      seconds: 3_800,
      lostRegion: { region: farthest, from: 100, until: 3_700 },
    },
    bounds: [forfeitsLittle],
  },
  {
    option: 'midnight-cut',
    name: 'the farthest is lost over midnight',
    over: { midnightAt: 20, lostRegion: { region: farthest, from: 10, until: 40 } },
    bounds: [callsWaitSeldom, forfeitsLittle],
  },
  { option: 'small', name: 'balances that are used up', over: { dailyCredits: 100_000 }, bounds: [servesBalances] },
  { option: 'midnight', name: 'midnight', over: { midnightAt: 20 }, bounds: [callsWaitSeldom, forfeitsLittle] },
  {
    option: 'killed',
    // The accounts that call most use up their balances, and all others have credits kept in each gateway of their region.
    name: 'gateways are killed, before and after midnight',
    over: { dailyCredits: 4_000_000, gatewaysOfAccount: 10, midnightAt: 50, killIntervalSeconds: 2 },
    bounds: [forfeitsLittle],
  },
]

interface RegionsVariant {
  readonly option: string
  readonly name: string
  readonly over: Partial<RegionsWorld>
  readonly bounds: readonly Bound[]
}

/** A bound of docs/scale.md. */
interface Bound {
  readonly rule: string
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
