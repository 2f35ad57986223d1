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
  readonly violation: string | undefined
}

/** One run of the ledger, which the seed alone determines. `trace` is called with a line for each event. */
export const simulate = async (
  systemUnderTest: SystemUnderTest,
  seed: number,
  trace?: (line: string) => void,
): Promise<SimulationResult> => {
  const random = new SeededRandom(seed)
  const faultProfile = randomFaultProfile(random)
  const length = random.between(2_000, 10_000)
  const loadProfile = randomLoadProfile(random)
  const processes = random.integer(1, 4)
  const limits = randomLimits(random, (processes * length) / loadProfile.meanGapMs)
  const simulation = new Simulation(systemUnderTest, {
    start: randomStart(random, faultProfile, length),
    random,
    faultProfile,
    limits,
    trace,
  })
  simulation.trace(() => `seed ${seed}: ${JSON.stringify({ faultProfile, loadProfile, processes, limits })}`)
  for (let i = 0; i < processes; i += 1) scheduleCalls(simulation, simulation.start(), loadProfile)
  injectFaults(simulation, process => scheduleCalls(simulation, process, loadProfile))
  await simulation.virtualTime.advance(length)
  await endFaults(simulation, loadProfile)
  checkIdle(simulation)
  await exhaustAllAccounts(simulation)
  await simulation.virtualTime.advance(6_000)
  checkFinalState(simulation)
  return { ...simulation.counts, violation: simulation.violation }
}

export interface SimulationResults {
  readonly calls: number
  readonly kills: number
  readonly stops: number
  readonly failed: readonly { readonly seed: number; readonly violation: string }[]
}

/** One run after the other, from seed `from` on; ends early after `maxFailures`. */
export const simulateAll = async (
  systemUnderTest: SystemUnderTest,
  from: number,
  seeds: number,
  maxFailures = Infinity,
): Promise<SimulationResults> => {
  const sums = { calls: 0, kills: 0, stops: 0 }
  const failed: { seed: number; violation: string }[] = []
  for (let seed = from; seed < from + seeds && failed.length < maxFailures; seed += 1) {
    const { calls, kills, stops, violation } = await simulate(systemUnderTest, seed)
    sums.calls += calls
    sums.kills += kills
    sums.stops += stops
    if (violation !== undefined) failed.push({ seed, violation })
  }
  return { ...sums, failed }
}

export const replayOf = (seed: number): string => `to replay it with a trace: npm run simulate -- --seed ${seed}`

/** The rate of calls. */
interface LoadProfile {
  /** Between two bursts of one process. */
  readonly meanGapMs: number
  /** Calls of a large burst. */
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

/** Some limits are exhausted at once, some in the middle of the run, some never. */
const randomLimits = (random: SeededRandom, bursts: number): readonly number[] =>
  Array.from({ length: random.integer(1, 3) }, () =>
    random.chance(0.3) ? random.pick([5, 80, 300, 1_000, 5_000]) : Math.ceil(bursts * random.between(20, 300)),
  )

/** Schedules bursts of calls, a few of them large, with a few long gaps. */
const scheduleCalls = (simulation: Simulation, process: SimulatedProcess, loadProfile: LoadProfile): void => {
  const { random } = simulation
  const gap = random.chance(0.01) ? random.between(1_000, 4_000) : random.between(0, 2 * loadProfile.meanGapMs)
  process.schedule(gap, () => {
    if (process.state !== 'alive' || simulation.network.isFaultless) return
    callBurst(simulation, process, random.chance(0.1) ? random.integer(5, loadProfile.maxBurst) : random.integer(1, 3))
    scheduleCalls(simulation, process, loadProfile)
  })
}

const callBurst = (simulation: Simulation, process: SimulatedProcess, calls: number): void => {
  const account = simulation.accounts[simulation.random.integer(0, simulation.accounts.length - 1)]
  if (account === undefined) return
  simulation.trace(() => `${process.name} ${account.id} is called ${calls} times`)
  for (let i = 0; i < calls; i += 1) void simulation.call(process, account, simulation.random.pick(costs))
}

/** Turns off all faults; delayed messages arrive. */
const endFaults = async (simulation: Simulation, loadProfile: LoadProfile): Promise<void> => {
  const { network, virtualTime, faultProfile } = simulation
  network.isFaultless = true
  network.state = 'open'
  simulation.storeClockSkewMs = 0
  if (simulation.liveProcesses.length === 0) simulation.start()
  await virtualTime.advance(8_000)
  if (!faultProfile.hasIdlePeriod) return
  await virtualTime.advance(610_000)
  for (const process of simulation.liveProcesses) for (let i = 0; i < 5; i += 1) callBurst(simulation, process, loadProfile.maxBurst)
  await virtualTime.advance(8_000)
}

/** Every process calls until no call is served, waits for credits that other processes return, and calls again. */
const exhaustAllAccounts = async (simulation: Simulation): Promise<void> => {
  let before = -1
  while (before !== simulation.counts.calls && simulation.violation === undefined) {
    before = simulation.counts.calls
    let open = 0
    for (const process of simulation.liveProcesses) {
      for (const account of simulation.accounts) {
        open += 1
        void exhaustAccount(simulation, process, account).then(() => {
          open -= 1
        })
      }
    }
    for (let waits = 0; open > 0 && waits < 60; waits += 1) await simulation.virtualTime.advance(1_000)
    if (open > 0) simulation.fail('a call is pending for ever')
    await simulation.virtualTime.advance(4_000)
  }
}

const exhaustAccount = async (simulation: Simulation, process: SimulatedProcess, account: SimulatedAccount): Promise<void> => {
  for (const cost of [maxCost, ...costs].sort((one, other) => other - one)) {
    for (let remaining = account.limit + 100 * maxCost; ; remaining -= cost) {
      if (remaining < 0) return simulation.fail(`${account.id}: served without end`)
      const { kind } = await simulation.call(process, account, cost)
      if (kind === 'storeUnavailable') simulation.fail(`${process.name} considers the store unavailable, though it is reachable`)
      if (kind !== 'charged') break
    }
  }
}
