import type { SimulatedProcess } from './simulated-process.ts'
import { maxClockJumpMs } from './fault-profile.ts'
import type { Simulation } from './simulation.ts'

/** Schedules all faults, until the network is faultless. `startCalls` is called with each process that replaces another. */
export const injectFaults = (simulation: Simulation, startCalls: (process: SimulatedProcess) => void): void => {
  const { faultProfile, random, virtualTime, network } = simulation
  const atRandomIntervals = (perSecond: number, act: () => void): void => {
    if (perSecond === 0) return
    virtualTime.after((-Math.log(1 - random.next()) / perSecond) * 1_000, () => {
      if (network.isFaultless) return
      act()
      atRandomIntervals(perSecond, act)
    })
  }
  const randomProcess = (): SimulatedProcess | undefined => simulation.liveProcesses[random.integer(0, simulation.liveProcesses.length - 1)]
  const replace = (stop: (process: SimulatedProcess) => void) => () => {
    const process = randomProcess()
    if (process !== undefined) stop(process)
    virtualTime.after(random.between(0, 2_000), () => {
      if (!network.isFaultless && simulation.liveProcesses.length < 4) startCalls(simulation.start())
    })
  }
  atRandomIntervals(
    faultProfile.killsPerSecond,
    replace(process => simulation.kill(process)),
  )
  atRandomIntervals(
    faultProfile.stopsPerSecond,
    replace(process => simulation.stop(process)),
  )
  atRandomIntervals(faultProfile.stallsPerSecond, () => stallProcess(simulation, randomProcess()))
  atRandomIntervals(faultProfile.clockJumpsPerSecond, () => jumpProcessClock(simulation, randomProcess()))
  atRandomIntervals(faultProfile.outagesPerSecond, () => startOutage(simulation))
  atRandomIntervals(faultProfile.planChangesPerSecond, () => changePlan(simulation))
  atRandomIntervals(faultProfile.restoresPerSecond, () => restoreBackupLater(simulation))
  atRandomIntervals(faultProfile.storeClockJumpsPerSecond, () => {
    simulation.storeClockSkewMs = randomClockJumpMs(simulation)
    simulation.trace(() => `the store's clock is ${simulation.storeClockSkewMs} ms ahead`)
  })
}

/** As by a garbage collection, or on a busy machine. */
const stallProcess = ({ random, virtualTime }: Simulation, process: SimulatedProcess | undefined): void => {
  if (process !== undefined) process.stalledUntil = virtualTime.now + random.between(10, 3_000)
}

const jumpProcessClock = (simulation: Simulation, process: SimulatedProcess | undefined): void => {
  if (process !== undefined) process.clockSkewMs = randomClockJumpMs(simulation)
}

const randomClockJumpMs = ({ random }: Simulation): number => {
  const maxMs = random.pick([1_000, 30_000, maxClockJumpMs])
  return random.between(-maxMs, maxMs)
}

const startOutage = ({ network, random, virtualTime }: Simulation): void => {
  network.state = random.pick(['silent', 'refusing'])
  virtualTime.after(random.between(50, 4_000), () => {
    network.state = 'open'
  })
}

const changePlan = (simulation: Simulation): void => {
  const account = simulation.accounts[simulation.random.integer(0, simulation.accounts.length - 1)]
  if (account !== undefined) simulation.changePlan(account, Math.ceil(account.limit * simulation.random.between(0.2, 2.5)))
}

const restoreBackupLater = (simulation: Simulation): void => {
  const restore = simulation.store.backup()
  simulation.virtualTime.after(simulation.random.between(100, 5_000), () => {
    if (!simulation.network.isFaultless) simulation.restoreBackup(restore)
  })
}
