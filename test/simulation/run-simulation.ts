import { costs, maxCost } from './simulated-account.ts'
import type { SimulatedAccount } from './simulated-account.ts'
import { checkIdle, checkFinalState } from './invariants.ts'
import { injectFaults } from './inject-faults.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import { SeededRandom } from './seeded-random.ts'
import { randomFaultProfile } from './fault-profile.ts'
import type { FaultProfile } from './fault-profile.ts'
import { Simulation } from './simulation.ts'
import type { SystemUnderTest } from './simulation.ts'
import { dayMs } from '../../src/util/dates.ts'

export interface SimulationResult {
  readonly calls: number
  readonly kills: number
  readonly stops: number
  /** The first thing that happened and must not. */
  readonly violation: string | undefined
}

/** One run of the ledger in a world that the seed alone decides. `trace` is told what happens. */
export const simulate = async (subject: SystemUnderTest, seed: number, trace?: (line: string) => void): Promise<SimulationResult> => {
  const random = new SeededRandom(seed)
  const weather = randomFaultProfile(random)
  const length = random.between(2_000, 10_000)
  const pace = randomLoadProfile(random)
  const machines = random.integer(1, 4)
  const limits = randomLimits(random, (machines * length) / pace.meanGapMs)
  const world = new Simulation(subject, { start: randomStart(random, weather, length), random, faultProfile: weather, limits, trace })
  world.trace(() => `seed ${seed}: ${JSON.stringify({ weather, pace, machines, limits })}`)
  for (let i = 0; i < machines; i += 1) scheduleCalls(world, world.start(), pace)
  injectFaults(world, machine => scheduleCalls(world, machine, pace))
  await world.virtualTime.advance(length)
  await endFaults(world, pace)
  checkIdle(world)
  await exhaustAllAccounts(world)
  await world.virtualTime.advance(6_000)
  checkFinalState(world)
  return { ...world.counts, violation: world.violation }
}

export interface SimulationResults {
  readonly calls: number
  readonly kills: number
  readonly stops: number
  readonly failed: readonly { readonly seed: number; readonly violation: string }[]
}

/** One run after the other, from seed `from` on; ends sooner when `enough` of them have failed. */
export const simulateAll = async (subject: SystemUnderTest, from: number, seeds: number, enough = Infinity): Promise<SimulationResults> => {
  const sums = { calls: 0, kills: 0, stops: 0 }
  const failed: { seed: number; violation: string }[] = []
  for (let seed = from; seed < from + seeds && failed.length < enough; seed += 1) {
    const { calls, kills, stops, violation } = await simulate(subject, seed)
    sums.calls += calls
    sums.kills += kills
    sums.stops += stops
    if (violation !== undefined) failed.push({ seed, violation })
  }
  return { ...sums, failed }
}

export const replayOf = (seed: number): string => `replay it, told step by step: npm run simulate -- --seed ${seed}`

/** How fast calls come. */
interface LoadProfile {
  /** Between two bursts of one process, on average; ms. */
  readonly meanGapMs: number
  /** Most calls of a big burst. */
  readonly maxBurst: number
}

const randomLoadProfile = (random: SeededRandom): LoadProfile => ({
  meanGapMs: random.pick([3, 20, 20, 100, 400]),
  maxBurst: random.pick([5, 40]),
})

const randomStart = (random: SeededRandom, { hasMidnight }: FaultProfile, length: number): number => {
  const midnight = Date.UTC(2026, 0, 16)
  return hasMidnight ? midnight - random.between(0, length) : midnight - dayMs / 2
}

/** Some are used up at once, some in the middle, some never. */
const randomLimits = (random: SeededRandom, bursts: number): readonly number[] =>
  Array.from({ length: random.integer(1, 3) }, () =>
    random.chance(0.3) ? random.pick([5, 80, 300, 1_000, 5_000]) : Math.ceil(bursts * random.between(20, 300)),
  )

/** Callers call, now and then many at once, now and then not for a while. */
const scheduleCalls = (world: Simulation, machine: SimulatedProcess, pace: LoadProfile): void => {
  const { random } = world
  const gap = random.chance(0.01) ? random.between(1_000, 4_000) : random.between(0, 2 * pace.meanGapMs)
  machine.schedule(gap, () => {
    if (machine.state !== 'alive' || world.network.isFaultless) return
    callBurst(world, machine, random.chance(0.1) ? random.integer(5, pace.maxBurst) : random.integer(1, 3))
    scheduleCalls(world, machine, pace)
  })
}

const callBurst = (world: Simulation, machine: SimulatedProcess, calls: number): void => {
  const account = world.accounts[world.random.integer(0, world.accounts.length - 1)]
  if (account === undefined) return
  world.trace(() => `${machine.name} ${account.id} is called ${calls} times`)
  for (let i = 0; i < calls; i += 1) void world.call(machine, account, world.random.pick(costs))
}

/** Nothing goes wrong any more; whoever is late arrives. */
const endFaults = async (world: Simulation, pace: LoadProfile): Promise<void> => {
  const { network: wire, virtualTime: timeline, faultProfile: weather } = world
  wire.isFaultless = true
  wire.state = 'open'
  world.storeClockSkewMs = 0
  if (world.liveProcesses.length === 0) world.start()
  await timeline.advance(8_000)
  if (!weather.hasIdlePeriod) return
  await timeline.advance(610_000)
  for (const machine of world.liveProcesses) for (let i = 0; i < 5; i += 1) callBurst(world, machine, pace.maxBurst)
  await timeline.advance(8_000)
}

/** Everybody calls until nothing more is served, waits for what others give back, and calls again. */
const exhaustAllAccounts = async (world: Simulation): Promise<void> => {
  let before = -1
  while (before !== world.counts.calls && world.violation === undefined) {
    before = world.counts.calls
    let open = 0
    for (const machine of world.liveProcesses) {
      for (const account of world.accounts) {
        open += 1
        void exhaustAccount(world, machine, account).then(() => {
          open -= 1
        })
      }
    }
    for (let waits = 0; open > 0 && waits < 60; waits += 1) await world.virtualTime.advance(1_000)
    if (open > 0) world.fail('a call is never answered')
    await world.virtualTime.advance(4_000)
  }
}

const exhaustAccount = async (world: Simulation, machine: SimulatedProcess, account: SimulatedAccount): Promise<void> => {
  for (const cost of [maxCost, ...costs].sort((one, other) => other - one)) {
    for (let most = account.limit + 100 * maxCost; ; most -= cost) {
      if (most < 0) return world.fail(`${account.id}: served without end`)
      const { kind } = await world.call(machine, account, cost)
      if (kind === 'storeUnavailable') world.fail(`${machine.name} takes the store for away, and it answers`)
      if (kind !== 'charged') break
    }
  }
}
