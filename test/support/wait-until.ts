import { setTimeout } from 'node:timers/promises'
import { bounded } from './bounded.ts'

const timeoutMs = 30_000

/** Between two looks at a condition that may be a call of a gateway: more often would take the CPU that it waits for. */
const maxPauseMs = 16

/** Waits for real sockets. Rejects after 30 s, which a loaded machine may need. */
export const waitUntil = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  const name = String(condition)
  const endsAt = performance.now() + timeoutMs
  for (let pauseMs = 1; !(await bounded(name, condition())); pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    if (performance.now() > endsAt) throw new Error(`did not happen within ${timeoutMs / 1_000} s: ${name}`)
    await setTimeout(pauseMs)
  }
}
