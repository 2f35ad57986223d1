import { dayLength } from '../../src/store/store.ts'
import { costs, dearest } from './account.ts'
import type { Account } from './account.ts'
import { checkQuiet, checkRest } from './checks.ts'
import { breakThings } from './faults.ts'
import type { Machine } from './machine.ts'
import { Random } from './random.ts'
import { weatherOf } from './weather.ts'
import type { Weather } from './weather.ts'
import { World } from './world.ts'
import type { Subject } from './world.ts'

export interface Outcome {
  readonly calls: number
  readonly kills: number
  readonly stops: number
  /** The first thing that happened and must not. */
  readonly violation: string | undefined
}

/** One run of the ledger in a world that the seed alone decides. `trace` is told what happens. */
export const simulate = async (subject: Subject, seed: number, trace?: (line: string) => void): Promise<Outcome> => {
  const random = new Random(seed)
  const weather = weatherOf(random)
  const length = random.between(2_000, 10_000)
  const pace = paceOf(random)
  const machines = random.whole(1, 4)
  const limits = limitsOf(random, (machines * length) / pace.gap)
  const world = new World(subject, { start: startOf(random, weather, length), random, weather, limits, trace })
  world.say(() => `seed ${seed}: ${JSON.stringify({ weather, pace, machines, limits })}`)
  for (let i = 0; i < machines; i += 1) call(world, world.start(), pace)
  breakThings(world, machine => call(world, machine, pace))
  await world.timeline.pass(length)
  await calmDown(world, pace)
  checkQuiet(world)
  await spendAll(world)
  await world.timeline.pass(6_000)
  checkRest(world)
  return { ...world.counts, violation: world.violation }
}

export interface Outcomes {
  readonly calls: number
  readonly kills: number
  readonly stops: number
  readonly failed: readonly { readonly seed: number; readonly violation: string }[]
}

/** One run after the other, from seed `from` on; ends sooner when `enough` of them have failed. */
export const simulateAll = async (subject: Subject, from: number, seeds: number, enough = Infinity): Promise<Outcomes> => {
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
interface Pace {
  /** Between two bursts of one process, on average; ms. */
  readonly gap: number
  /** Most calls of a big burst. */
  readonly burst: number
}

const paceOf = (random: Random): Pace => ({ gap: random.pick([3, 20, 20, 100, 400]), burst: random.pick([5, 40]) })

const startOf = (random: Random, { hasMidnight }: Weather, length: number): number => {
  const midnight = Date.UTC(2026, 0, 16)
  return hasMidnight ? midnight - random.between(0, length) : midnight - dayLength / 2
}

/** Some are used up at once, some in the middle, some never. */
const limitsOf = (random: Random, bursts: number): readonly number[] =>
  Array.from({ length: random.whole(1, 3) }, () =>
    random.chance(0.3) ? random.pick([5, 80, 300, 1_000, 5_000]) : Math.ceil(bursts * random.between(20, 300)),
  )

/** Callers call, now and then many at once, now and then not for a while. */
const call = (world: World, machine: Machine, pace: Pace): void => {
  const { random } = world
  const gap = random.chance(0.01) ? random.between(1_000, 4_000) : random.between(0, 2 * pace.gap)
  machine.wake(gap, () => {
    if (machine.state !== 'alive' || world.wire.isCalm) return
    burst(world, machine, random.chance(0.1) ? random.whole(5, pace.burst) : random.whole(1, 3))
    call(world, machine, pace)
  })
}

const burst = (world: World, machine: Machine, calls: number): void => {
  const account = world.accounts[world.random.whole(0, world.accounts.length - 1)]
  if (account === undefined) return
  world.say(() => `${machine.name} ${account.id} is called ${calls} times`)
  for (let i = 0; i < calls; i += 1) void world.call(machine, account, world.random.pick(costs))
}

/** Nothing goes wrong any more; whoever is late arrives. */
const calmDown = async (world: World, pace: Pace): Promise<void> => {
  const { wire, timeline, weather } = world
  wire.isCalm = true
  wire.state = 'open'
  world.storeSkew = 0
  if (world.alive.length === 0) world.start()
  await timeline.pass(8_000)
  if (!weather.hasPause) return
  await timeline.pass(610_000)
  for (const machine of world.alive) for (let i = 0; i < 5; i += 1) burst(world, machine, pace.burst)
  await timeline.pass(8_000)
}

/** Everybody calls until nothing more is served, waits for what others give back, and calls again. */
const spendAll = async (world: World): Promise<void> => {
  let before = -1
  while (before !== world.counts.calls && world.violation === undefined) {
    before = world.counts.calls
    let open = 0
    for (const machine of world.alive) {
      for (const account of world.accounts) {
        open += 1
        void spend(world, machine, account).then(() => {
          open -= 1
        })
      }
    }
    for (let waits = 0; open > 0 && waits < 60; waits += 1) await world.timeline.pass(1_000)
    if (open > 0) world.fail('a call is never answered')
    await world.timeline.pass(4_000)
  }
}

const spend = async (world: World, machine: Machine, account: Account): Promise<void> => {
  for (const cost of [dearest, ...costs].sort((one, other) => other - one)) {
    for (let most = account.limit + 100 * dearest; ; most -= cost) {
      if (most < 0) return world.fail(`${account.id}: served without end`)
      const { kind } = await world.call(machine, account, cost)
      if (kind === 'away') world.fail(`${machine.name} takes the store for away, and it answers`)
      if (kind !== 'charged') break
    }
  }
}
