import { Cancellation } from '../../src/plugin/plugin.ts'
import type { Clock, Reply, Signal } from '../../src/plugin/plugin.ts'

export type Attempt = (signal: Signal) => Promise<Reply>

export interface HedgeOptions {
  readonly clock: Clock
  /** Ends both. */
  readonly signal: Signal
  /** In ms, before the second is asked. */
  readonly delayMs: number
  /** Is the reply one to give back? Otherwise the other one is waited for. */
  isFinal(reply: Reply): boolean
  /** Which of two to give back when neither is good. */
  better(one: Reply, other: Reply): Reply
}

/** Asks `first`, and when it takes longer than `delay` what `second` gives. The first good reply ends the other. */
export const hedge = (
  first: Attempt,
  second: () => Attempt | undefined,
  { clock, signal, delayMs, isFinal, better }: HedgeOptions,
): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const cancellations = new Set<Cancellation>()
    let best: Reply | undefined
    const cancelAll = (): void => cancellations.forEach(cancellation => cancellation.abort())
    const settle = (reply: Reply): void => {
      timer.cancel()
      signal.removeEventListener('abort', cancelAll)
      cancelAll()
      resolve(reply)
    }
    const start = (attempt: Attempt): void => {
      const end = new Cancellation()
      cancellations.add(end)
      if (signal.aborted) end.abort()
      attempt(end).then(reply => {
        cancellations.delete(end)
        best = best === undefined || isFinal(reply) ? reply : better(best, reply)
        if (isFinal(reply) || cancellations.size === 0) settle(best)
      }, reject)
    }
    const timer = clock.after(delayMs, () => {
      const ask = second()
      if (ask !== undefined) start(ask)
    })
    signal.addEventListener('abort', cancelAll)
    start(first)
  })
