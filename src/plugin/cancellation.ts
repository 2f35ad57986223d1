import { setMaxListeners } from 'node:events'
import { getOrCreate } from '../util/get-or-create.ts'
import { onAbort } from '../util/on-abort.ts'

/** Cancels work that nobody waits for any more: an AbortSignal, or the part of one that is needed here. */
export interface Signal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * A cheap AbortController: an AbortController with a listener takes 3 us, each call that reaches a node has several, and
 * few are ever aborted. Listeners are called once, in no defined order.
 */
export class Cancellation implements Signal {
  aborted = false
  /** Most cancellations have one listener at most. */
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

/** An AbortSignal, for libraries that need one; the same one each time, as the signal of a WebSocket lasts for many calls. */
export const toAbortSignal = (signal: Signal): AbortSignal =>
  signal instanceof AbortSignal ? signal : getOrCreate(abortSignals, signal, createAbortSignal)

const createAbortSignal = (signal: Signal): AbortSignal => {
  const controller = new AbortController()
  // Each call in flight may listen.
  setMaxListeners(Infinity, controller.signal)
  onAbort(signal, () => controller.abort())
  return controller.signal
}
