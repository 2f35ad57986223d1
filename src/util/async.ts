import type { Clock, Timer } from '../services/clock.ts'

/** A value that is mostly known at once. To await a known value costs a turn of the microtask queue. */
export type MaybePromise<T> = T | Promise<T>

/** Calls `next` with the value: at once when it is known, otherwise when it resolves. */
export const thenMaybe = <T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> =>
  value instanceof Promise ? value.then(next) : next(value)

/** Calls that come while a run is in flight share that run. The next call after it starts a new one, with its arguments. */
export const singleFlight = <Args extends readonly unknown[], T>(run: (...args: Args) => Promise<T>): ((...args: Args) => Promise<T>) => {
  let inFlight: Promise<T> | undefined
  return (...args) =>
    (inFlight ??= run(...args).finally(() => {
      inFlight = undefined
    }))
}

/** See openOnce(). */
export interface OpenOnce<Args extends readonly unknown[], T> {
  (...args: Args): Promise<T>
  /** What has been opened, or is being opened; undefined without a call, and where it could not be opened. */
  opened(): Promise<T | undefined>
}

/** The first call opens it, and later calls share that; the next call after a failure tries again. */
export const openOnce = <Args extends readonly unknown[], T>(open: (...args: Args) => Promise<T>): OpenOnce<Args, T> => {
  let opening: Promise<T> | undefined
  const openOrShare = (...args: Args): Promise<T> =>
    (opening ??= open(...args).catch((error: unknown) => {
      opening = undefined
      throw error
    }))
  return Object.assign(openOrShare, { opened: async () => opening?.catch(() => undefined) })
}

/** As singleFlight(), but calls that come while a run is in flight share the next run: it begins after all of them. */
export const nextFlight = <T>(run: () => Promise<T>): (() => Promise<T>) => {
  let [running, next]: (Promise<T> | undefined)[] = []
  const start = (): Promise<T> => {
    next = undefined
    return (running = run().finally(() => {
      running = undefined
    }))
  }
  return () => next ?? (running === undefined ? start() : (next = running.then(start, start)))
}

/** One run for all calls within this time of its start. */
export const shareFor = <T>(maxAgeMs: number, run: () => Promise<T>, clock: Pick<Clock, 'monotonic'>): (() => Promise<T>) => {
  let startedAt = -Infinity
  let running: Promise<T> | undefined
  return () => {
    const now = clock.monotonic()
    if (running === undefined || now - startedAt >= maxAgeMs) [running, startedAt] = [run(), now]
    return running
  }
}

/** Work that begins when it is its turn. The lowest rank is first, which is 0 unless given. */
export type Semaphore = <T>(work: () => Promise<T>, rank?: number) => Promise<T>

/** Lets so much work be under way at once; the rest waits in line: within a rank, first come, first served. */
export const createSemaphore = (maxConcurrent: number): Semaphore => {
  const waiting: { readonly rank: number; start(): void }[] = []
  let available = maxConcurrent
  return async (work, rank = 0) => {
    if (available > 0) available -= 1
    else await new Promise<void>(start => waiting.splice(waiting.findLastIndex(each => each.rank <= rank) + 1, 0, { rank, start }))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) available += 1
      else next.start()
    }
  }
}

/** Resolves after `ms`. */
export const sleep = (clock: Pick<Clock, 'after'>, ms: number): Promise<void> => new Promise(resolve => void clock.after(ms, resolve))

/** The promise did not settle in time. */
export class TimeoutError extends Error {
  constructor(timeoutMs: number) {
    super(`no answer for ${timeoutMs} ms`)
    this.name = 'TimeoutError'
  }
}

/** The timeout is counted in so many steps. */
const stepCount = 10

/**
 * Rejects with TimeoutError when the promise takes longer than `timeoutMs`; what it settles with after that is ignored.
 * The timeout is counted in steps, and a step takes at least one turn of the event loop: a process that is busy for longer
 * than the timeout does not take what arrived meanwhile for late.
 */
export const withTimeout = <T>(clock: Clock, timeoutMs: number, promise: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let timer: Timer
    const wait = (stepsLeft: number): void => {
      timer = clock.after(timeoutMs / stepCount, () => (stepsLeft > 1 ? wait(stepsLeft - 1) : reject(new TimeoutError(timeoutMs))))
    }
    wait(stepCount)
    promise.then(resolve, reject).finally(() => timer.cancel())
  })

/** The same, but resolves with the fallback on a timeout. Other errors of the promise still reject. */
export const withTimeoutOr = async <T, Fallback>(
  clock: Clock,
  timeoutMs: number,
  promise: Promise<T>,
  fallback: () => Fallback,
): Promise<T | Fallback> => {
  try {
    return await withTimeout(clock, timeoutMs, promise)
  } catch (error) {
    if (error instanceof TimeoutError) return fallback()
    throw error
  }
}

export interface BackoffOptions {
  readonly minMs: number
  readonly maxMs: number
}

/** The delay after so many failed attempts, from 1 on: as Backoff, for attempts of which only the number is known. */
export const backoffDelayMs = ({ minMs, maxMs }: BackoffOptions, attempts: number): number => Math.min(maxMs, minMs * 2 ** (attempts - 1))

/** Whether the next attempt is due, by times in ms since 1970. One that is further away than any delay was planned before the clock went back. */
export const isAttemptDue = ({ maxMs }: BackoffOptions, nextAttempt: number, now: number): boolean =>
  nextAttempt <= now || nextAttempt > now + maxMs

/** A delay, shortened by up to a half: gateways do not connect to a node again at the same moment. `random` is from 0 to below 1. */
export const withJitter = (delayMs: number, random: () => number): number => delayMs * (1 - 0.5 * random())

/** Exponential backoff: each delay is twice the one before, from `minMs` up to `maxMs`. */
export class Backoff {
  readonly #options: BackoffOptions
  #attempts = 0

  constructor(options: BackoffOptions) {
    this.#options = options
  }

  /** The next delay in ms. */
  next(): number {
    const delayMs = backoffDelayMs(this.#options, this.#attempts + 1)
    if (delayMs < this.#options.maxMs) this.#attempts += 1
    return delayMs
  }

  /** The next delay is `minMs` again. */
  reset(): void {
    this.#attempts = 0
  }
}

/** Counts what is under way; whoever stops waits until there is nothing. */
export class InFlight {
  #count = 0
  readonly #waiting: (() => void)[] = []

  begin(): void {
    this.#count += 1
  }

  end(): void {
    this.#count -= 1
    if (this.#count === 0 && this.#waiting.length > 0) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  whenIdle(): Promise<void> {
    return this.#count === 0 ? Promise.resolve() : new Promise(resolve => this.#waiting.push(resolve))
  }
}
