import { isFailure, Cancellation } from '../../src/plugin/plugin.ts'
import type { Clock, Reply, Signal } from '../../src/plugin/plugin.ts'
import type { Attempt } from './hedge.ts'

/** Asks for so many ms at most; undefined when they are over and nothing has come of it. */
export const attemptWithin = async (timeoutMs: number, attempt: Attempt, clock: Clock, signal: Signal): Promise<Reply | undefined> => {
  if (timeoutMs <= 0) return undefined
  const cancellation = new Cancellation()
  let isLate = false
  const cancel = (): void => cancellation.abort()
  const timer = clock.after(timeoutMs, () => {
    isLate = true
    cancel()
  })
  if (signal.aborted) cancel()
  else signal.addEventListener('abort', cancel)
  try {
    const reply = await attempt(cancellation)
    return isLate && isFailure(reply) ? undefined : reply
  } finally {
    timer.cancel()
    signal.removeEventListener('abort', cancel)
  }
}
