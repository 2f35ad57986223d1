import { setTimeout } from 'node:timers/promises'
import { bounded } from './bounded.ts'

const timeoutMs = 30_000

const dayMs = 86_400_000
/** What is counted by the day is read within this time of a test's start. */
const minDayMs = 20_000

/** Waits for the next UTC day where this one is about to end: for tests of what is counted by the day. */
export const untilDayLasts = async (): Promise<void> => {
  const leftMs = dayMs - (Date.now() % dayMs)
  // A clock that is adjusted may be a moment behind the timer.
  if (leftMs < minDayMs) await setTimeout(leftMs + 100)
}

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
