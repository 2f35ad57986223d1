import { Cancellation, isFailure, onAbort } from '../../src/plugin/plugin.ts'
import type { Clock, Reply, Signal } from '../../src/plugin/plugin.ts'

/** A request to one node, which ends early when the signal aborts. */
export type Attempt = (signal: Signal) => Promise<Reply>

export interface HedgeOptions {
  readonly clock: Clock
  /** Aborts both attempts. */
  readonly signal: Signal
  /** How long the first attempt may take before it is late. */
  readonly delayMs: number
  /** True for a reply that ends the other attempt; otherwise the other attempt is waited for. */
  isFinal(reply: Reply): boolean
  /** The better of two replies of which none is final. */
  better(one: Reply, other: Reply): Reply
}

/** Runs `first`, and when it is late also the attempt that `onLate` returns. The first final reply wins. */
export const hedge = (
  first: Attempt,
  onLate: () => Attempt | undefined,
  { clock, signal, delayMs, isFinal, better }: HedgeOptions,
): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const cancellations = new Set<Cancellation>()
    let best: Reply | undefined
    const cancelAll = (): void => cancellations.forEach(cancellation => cancellation.abort())
    const settle = (reply: Reply): void => {
      timer.cancel()
      stopListening()
      cancelAll()
      resolve(reply)
    }
    const start = (attempt: Attempt): void => {
      const cancellation = new Cancellation()
      cancellations.add(cancellation)
      if (signal.aborted) cancellation.abort()
      attempt(cancellation).then(reply => {
        cancellations.delete(cancellation)
        best = best === undefined || isFinal(reply) ? reply : better(best, reply)
        if (isFinal(reply) || cancellations.size === 0) settle(best)
      }, reject)
    }
    const timer = clock.after(delayMs, () => {
      const attempt = onLate()
      if (attempt !== undefined) start(attempt)
    })
    const stopListening = onAbort(signal, cancelAll)
    start(first)
  })

/** The reply to an attempt; undefined when it has failed because `timeoutMs` were over. */
export const attemptWithin = async (timeoutMs: number, attempt: Attempt, clock: Clock, signal: Signal): Promise<Reply | undefined> => {
  if (timeoutMs <= 0) return undefined
  const cancellation = new Cancellation()
  let isLate = false
  const timer = clock.after(timeoutMs, () => {
    isLate = true
    cancellation.abort()
  })
  const stopListening = onAbort(signal, () => cancellation.abort())
  try {
    const reply = await attempt(cancellation)
    return isLate && isFailure(reply) ? undefined : reply
  } finally {
    timer.cancel()
    stopListening()
  }
}
