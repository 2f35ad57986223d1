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
export class Leave implements Signal {
  aborted = false
  /** Most have one listener at most. */
  #first: (() => void) | undefined
  #more: Set<() => void> | undefined

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const listeners = [this.#first, ...(this.#more ?? [])]
    this.#first = undefined
    this.#more = undefined
    for (const listener of listeners) listener?.()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#first === undefined) this.#first = listener
    else (this.#more ??= new Set()).add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#first === listener) this.#first = undefined
    else this.#more?.delete(listener)
  }
}

const known = new WeakMap<Signal, AbortSignal>()

/** A real AbortSignal, for libraries that want one; the same one each time, as a socket's signal lasts for many calls. */
export const toAbortSignal = (signal: Signal): AbortSignal => {
  if (signal instanceof AbortSignal) return signal
  const made = known.get(signal)
  if (made !== undefined) return made
  const end = new AbortController()
  // Each call under way may listen.
  setMaxListeners(Infinity, end.signal)
  if (signal.aborted) end.abort()
  else signal.addEventListener('abort', () => end.abort())
  known.set(signal, end.signal)
  return end.signal
}
