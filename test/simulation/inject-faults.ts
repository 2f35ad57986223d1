import type { SimulatedProcess } from './simulated-process.ts'
import { maxClockJumpMs } from './simulation.ts'
import type { Simulation } from './simulation.ts'

/** Plans all that goes wrong from time to time, as long as the world is not calm. `call` has a new process called. */
export const injectFaults = (world: Simulation, call: (machine: SimulatedProcess) => void): void => {
  const { faultProfile: weather, random, virtualTime: timeline, network: wire } = world
  const atRandomIntervals = (perSecond: number, act: () => void): void => {
    if (perSecond === 0) return
    timeline.after((-Math.log(1 - random.next()) / perSecond) * 1_000, () => {
      if (wire.isFaultless) return
      act()
      atRandomIntervals(perSecond, act)
    })
  }
  const randomProcess = (): SimulatedProcess | undefined => world.liveProcesses[random.integer(0, world.liveProcesses.length - 1)]
  const replace = (end: (machine: SimulatedProcess) => void) => () => {
    const machine = randomProcess()
    if (machine !== undefined) end(machine)
    timeline.after(random.between(0, 2_000), () => {
      if (!wire.isFaultless && world.liveProcesses.length < 4) call(world.start())
    })
  }
  atRandomIntervals(
    weather.killsPerSecond,
    replace(machine => world.kill(machine)),
  )
  atRandomIntervals(
    weather.stopsPerSecond,
    replace(machine => world.stop(machine)),
  )
  atRandomIntervals(weather.stallsPerSecond, () => stallProcess(world, randomProcess()))
  atRandomIntervals(weather.clockJumpsPerSecond, () => jumpProcessClock(world, randomProcess()))
  atRandomIntervals(weather.outagesPerSecond, () => startOutage(world))
  atRandomIntervals(weather.planChangesPerSecond, () => changePlan(world))
  atRandomIntervals(weather.restoresPerSecond, () => restoreBackupLater(world))
  atRandomIntervals(weather.storeClockJumpsPerSecond, () => {
    world.storeClockSkewMs = randomClockJumpMs(world)
    world.trace(() => `the store's clock is ${world.storeClockSkewMs} ms ahead`)
  })
}

/** Collects garbage, or is short of CPU. */
const stallProcess = ({ random, virtualTime: timeline }: Simulation, machine: SimulatedProcess | undefined): void => {
  if (machine !== undefined) machine.stalledUntil = timeline.now + random.between(10, 3_000)
}

const jumpProcessClock = (world: Simulation, machine: SimulatedProcess | undefined): void => {
  if (machine !== undefined) machine.clockSkewMs = randomClockJumpMs(world)
}

const randomClockJumpMs = ({ random }: Simulation): number => {
  const most = random.pick([1_000, 30_000, maxClockJumpMs])
  return random.between(-most, most)
}

const startOutage = ({ network: wire, random, virtualTime: timeline }: Simulation): void => {
  wire.state = random.pick(['silent', 'refusing'])
  timeline.after(random.between(50, 4_000), () => {
    wire.state = 'open'
  })
}

const changePlan = (world: Simulation): void => {
  const account = world.accounts[world.random.integer(0, world.accounts.length - 1)]
  if (account !== undefined) world.changePlan(account, Math.ceil(account.limit * world.random.between(0.2, 2.5)))
}

const restoreBackupLater = (world: Simulation): void => {
  const putBack = world.store.backup()
  world.virtualTime.after(world.random.between(100, 5_000), () => {
    if (!world.network.isFaultless) world.restoreBackup(putBack)
  })
}
