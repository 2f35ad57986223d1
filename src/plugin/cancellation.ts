import { setMaxListeners } from 'node:events'

/** Ends work that nobody waits for any more: an AbortSignal, or the little of one that is needed here. */
export interface Signal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * What an AbortController is, for next to nothing where that takes 3 us with a listener: each call that reaches a node has
 * several, and few are ever used. Listeners are called once, in no certain order.
 */
export class Cancellation implements Signal {
  aborted = false
  /** Most have one listener at most. */
  #firstListener: (() => void) | undefined
  #otherListeners: Set<() => void> | undefined

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const listeners = [this.#firstListener, ...(this.#otherListeners ?? [])]
    this.#firstListener = undefined
    this.#otherListeners = undefined
    for (const listener of listeners) listener?.()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#firstListener === undefined) this.#firstListener = listener
    else (this.#otherListeners ??= new Set()).add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#firstListener === listener) this.#firstListener = undefined
    else this.#otherListeners?.delete(listener)
  }
}

const abortSignals = new WeakMap<Signal, AbortSignal>()

/** A real AbortSignal, for libraries that want one; the same one each time, as a socket's signal lasts for many calls. */
export const toAbortSignal = (signal: Signal): AbortSignal => {
  if (signal instanceof AbortSignal) return signal
  const existing = abortSignals.get(signal)
  if (existing !== undefined) return existing
  const controller = new AbortController()
  // Each call under way may listen.
  setMaxListeners(Infinity, controller.signal)
  if (signal.aborted) controller.abort()
  else signal.addEventListener('abort', () => controller.abort())
  abortSignals.set(signal, controller.signal)
  return controller.signal
}
