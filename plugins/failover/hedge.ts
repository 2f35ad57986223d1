import { Leave } from '../../src/plugin.ts'
import type { Clock, Reply, Signal } from '../../src/plugin.ts'

export type Ask = (signal: Signal) => Promise<Reply>

export interface HedgeTerms {
  readonly clock: Clock
  /** Ends both. */
  readonly signal: Signal
  /** In ms, before the second is asked. */
  readonly delay: number
  /** Is the reply one to give back? Otherwise the other one is waited for. */
  isGood(reply: Reply): boolean
  /** Which of two to give back when neither is good. */
  better(one: Reply, other: Reply): Reply
}

/** Asks `first`, and when it takes longer than `delay` what `second` gives. The first good reply ends the other. */
export const hedge = (first: Ask, second: () => Ask | undefined, { clock, signal, delay, isGood, better }: HedgeTerms): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const ends = new Set<Leave>()
    let best: Reply | undefined
    const endAll = (): void => ends.forEach(end => end.abort())
    const settle = (reply: Reply): void => {
      timer.cancel()
      signal.removeEventListener('abort', endAll)
      endAll()
      resolve(reply)
    }
    const start = (ask: Ask): void => {
      const end = new Leave()
      ends.add(end)
      if (signal.aborted) end.abort()
      ask(end).then(reply => {
        ends.delete(end)
        best = best === undefined || isGood(reply) ? reply : better(best, reply)
        if (isGood(reply) || ends.size === 0) settle(best)
      }, reject)
    }
    const timer = clock.after(delay, () => {
      const ask = second()
      if (ask !== undefined) start(ask)
    })
    signal.addEventListener('abort', endAll)
    start(first)
  })
