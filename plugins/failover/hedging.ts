import { Cancellation, isFailure, onAbort, releaseResult } from '../../src/plugin/plugin.ts'
import type { Reply, Signal, Timer } from '../../src/plugin/plugin.ts'
import type { Clock } from '../../src/plugin/internal.ts'
import { betterReply, isFinalReply } from './retries.ts'

/** A request to one node, which ends early when the signal aborts. */
export type Attempt = (signal: Signal) => Promise<Reply>

interface HedgeOptions {
  readonly clock: Clock
  /** Aborts both attempts. */
  readonly signal: Signal
  /** How long the first attempt may take before it is late. */
  readonly delayMs: number
  /** Gets a reply that was not final, where the other attempt has a better one. */
  onRejected(reply: Reply): void
}

/** Another attempt at a call that is late; undefined when there is none now. */
type OnLate = (isFirstTime: boolean) => Attempt | undefined

/**
 * Runs `first`, and when it is late also the attempt that `onLate` returns. Without one, `onLate` is called again each time that
 * `first` has taken twice as long. The first final reply wins, and ends the other attempt; without one, both are waited for.
 */
export const hedge = (first: Attempt, onLate: OnLate, options: HedgeOptions): Promise<Reply> =>
  new Promise((resolve, reject) => new HedgedRequest(options, resolve, reject).start(first, onLate))

/** One object for both attempts, as nearly all requests end with the first. */
class HedgedRequest {
  readonly #options: HedgeOptions
  readonly #resolve: (reply: Reply) => void
  readonly #reject: (bug: unknown) => void
  /** Ends whatever attempt is under way. */
  readonly #cancellation = new Cancellation()
  #attemptsInFlight = 0
  #best: Reply | undefined
  #isSettled = false
  #timer: Timer | undefined
  #stopListening: (() => void) | undefined

  constructor(options: HedgeOptions, resolve: (reply: Reply) => void, reject: (bug: unknown) => void) {
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
  }

  start(first: Attempt, onLate: OnLate): void {
    const { signal, delayMs } = this.#options
    this.#startTimer(delayMs, onLate, true)
    this.#stopListening = onAbort(signal, () => this.#cancellation.abort())
    this.#run(first)
  }

  #startTimer(delayMs: number, onLate: OnLate, isFirstTime: boolean): void {
    this.#timer = this.#options.clock.after(delayMs, () => {
      const attempt = onLate(isFirstTime)
      if (attempt !== undefined) this.#run(attempt)
      else this.#startTimer(isFirstTime ? delayMs : 2 * delayMs, onLate, false)
    })
  }

  #run(attempt: Attempt): void {
    this.#attemptsInFlight += 1
    attempt(this.#cancellation).then(
      reply => this.#onReply(reply),
      (bug: unknown) => this.#onBug(bug),
    )
  }

  #onReply(reply: Reply): void {
    this.#attemptsInFlight -= 1
    if (this.#isSettled) return releaseResult(reply)
    const isFinal = isFinalReply(reply) && !this.#mayHaveBeenSent(reply)
    const before = this.#best
    this.#best = before === undefined || isFinal ? reply : betterReply(before, reply)
    if (before !== undefined) this.#options.onRejected(this.#best === before ? reply : before)
    if (isFinal || this.#attemptsInFlight === 0) this.#settle(this.#best)
  }

  /** The caller has left before this node got the request, but the other one may have it. */
  #mayHaveBeenSent({ source }: Reply): boolean {
    return this.#options.signal.aborted && source === 'gateway' && this.#attemptsInFlight > 0
  }

  #onBug(bug: unknown): void {
    this.#attemptsInFlight -= 1
    if (this.#isSettled) return
    this.#end()
    this.#reject(bug)
  }

  #settle(reply: Reply): void {
    this.#end()
    this.#resolve(reply)
  }

  #end(): void {
    this.#isSettled = true
    this.#timer?.cancel()
    this.#stopListening?.()
    if (this.#attemptsInFlight > 0) this.#cancellation.abort()
  }
}

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
