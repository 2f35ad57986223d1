import { createSemaphore } from '../../util/async.ts'
import type { HeadsPacing } from './heads-types.ts'

/** Over all networks. Thousands of connections that are opened together block the event loop, and each answer comes late. */
const maxChainChecks = 128

/** Multiples of the golden ratio are spread evenly, however many there are. */
const phaseStep = (Math.sqrt(5) - 1) / 2

/** One for all networks of a process. The first network is polled again after a whole interval. */
export const openPacing = (): HeadsPacing => {
  let networks = 0
  return {
    checkInTurn: createSemaphore(maxChainChecks),
    nextPollPhase: () => 1 - ((networks++ * phaseStep) % 1),
  }
}
