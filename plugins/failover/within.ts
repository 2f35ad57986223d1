import { isFailure, Leave } from '../../src/plugin.ts'
import type { Clock, Reply, Signal } from '../../src/plugin.ts'
import type { Ask } from './hedge.ts'

/** Asks for so many ms at most; undefined when they are over and nothing has come of it. */
export const within = async (ms: number, ask: Ask, clock: Clock, signal: Signal): Promise<Reply | undefined> => {
  if (ms <= 0) return undefined
  const end = new Leave()
  let isLate = false
  const leave = (): void => end.abort()
  const timer = clock.after(ms, () => {
    isLate = true
    leave()
  })
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave)
  try {
    const reply = await ask(end)
    return isLate && isFailure(reply) ? undefined : reply
  } finally {
    timer.cancel()
    signal.removeEventListener('abort', leave)
  }
}
