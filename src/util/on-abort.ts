/** The part of an AbortSignal that onAbort() needs. */
interface AbortSource {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Calls the listener when the signal aborts: at once when it already has. Returns how to stop listening. */
export const onAbort = (signal: AbortSource, listener: () => void): (() => void) => {
  if (signal.aborted) {
    listener()
    return () => undefined
  }
  signal.addEventListener('abort', listener)
  return () => signal.removeEventListener('abort', listener)
}
