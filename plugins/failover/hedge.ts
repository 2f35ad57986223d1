import type { Clock, Reply } from '../../src/plugin.ts'

export type Ask = (signal: AbortSignal) => Promise<Reply>

export interface HedgeTerms {
  readonly clock: Clock
  /** Ends both. */
  readonly signal: AbortSignal
  /** In ms, before the second is asked. */
  readonly delay: number
  /** Is the reply one to give back? Otherwise the other one is waited for. */
  isGood(reply: Reply): boolean
}

/** Asks `first`, and when it takes longer than `delay` what `second` gives. The first good reply ends the other. */
export const hedge = (
  first: Ask, second: () => Ask | undefined, { clock, signal, delay, isGood }: HedgeTerms,
): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const ends = new Set<AbortController>()
    const settle = (reply: Reply): void => {
      timer.cancel()
      for (const end of ends) end.abort()
      resolve(reply)
    }
    const start = (ask: Ask): void => {
      const end = new AbortController()
      ends.add(end)
      ask(AbortSignal.any([signal, end.signal])).then(reply => {
        ends.delete(end)
        if (isGood(reply) || ends.size === 0) settle(reply)
      }, reject)
    }
    const timer = clock.after(delay, () => {
      const ask = second()
      if (ask !== undefined) start(ask)
    })
    start(first)
  })
