import type { Machine } from './machine.ts'
import { furthestJump } from './world.ts'
import type { World } from './world.ts'

/** Plans all that goes wrong from time to time, as long as the world is not calm. `call` has a new process called. */
export const breakThings = (world: World, call: (machine: Machine) => void): void => {
  const { weather, random, timeline, wire } = world
  const often = (perSecond: number, act: () => void): void => {
    if (perSecond === 0) return
    timeline.after((-Math.log(1 - random.next()) / perSecond) * 1_000, () => {
      if (wire.isCalm) return
      act()
      often(perSecond, act)
    })
  }
  const one = (): Machine | undefined => world.alive[random.whole(0, world.alive.length - 1)]
  const replace = (end: (machine: Machine) => void) => () => {
    const machine = one()
    if (machine !== undefined) end(machine)
    timeline.after(random.between(0, 2_000), () => {
      if (!wire.isCalm && world.alive.length < 4) call(world.start())
    })
  }
  often(
    weather.kill,
    replace(machine => world.kill(machine)),
  )
  often(
    weather.stop,
    replace(machine => world.stop(machine)),
  )
  often(weather.stall, () => stall(world, one()))
  often(weather.clock, () => setClock(world, one()))
  often(weather.outage, () => breakWire(world))
  often(weather.plan, () => changePlan(world))
  often(weather.restore, () => backUp(world))
  often(weather.storeClock, () => {
    world.storeSkew = jump(world)
    world.say(() => `the store's clock is ${world.storeSkew} ms ahead`)
  })
}

/** Collects garbage, or is short of CPU. */
const stall = ({ random, timeline }: World, machine: Machine | undefined): void => {
  if (machine !== undefined) machine.stalledUntil = timeline.now + random.between(10, 3_000)
}

const setClock = (world: World, machine: Machine | undefined): void => {
  if (machine !== undefined) machine.skew = jump(world)
}

const jump = ({ random }: World): number => {
  const most = random.pick([1_000, 30_000, furthestJump])
  return random.between(-most, most)
}

const breakWire = ({ wire, random, timeline }: World): void => {
  wire.state = random.pick(['silent', 'refusing'])
  timeline.after(random.between(50, 4_000), () => {
    wire.state = 'open'
  })
}

const changePlan = (world: World): void => {
  const account = world.accounts[world.random.whole(0, world.accounts.length - 1)]
  if (account !== undefined) world.changePlan(account, Math.ceil(account.limit * world.random.between(0.2, 2.5)))
}

const backUp = (world: World): void => {
  const putBack = world.store.backup()
  world.timeline.after(world.random.between(100, 5_000), () => {
    if (!world.wire.isCalm) world.restore(putBack)
  })
}
