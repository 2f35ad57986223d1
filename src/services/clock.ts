/** The only source of time. Tests pass a clock that they advance themselves. */
export interface Clock {
  /** Milliseconds since 1970, UTC; may jump when the system clock is set. */
  now(): number
  /** Milliseconds since a fixed moment; never jumps and never goes back. */
  monotonic(): number
  /**
   * Runs once, after `ms` and after the I/O that is pending by then: data that arrived in time is read before a timeout
   * runs, however busy the process is. A timer does not keep the process alive. More than 24.8 days are 24.8 days.
   */
  after(ms: number, run: () => void): Timer
  /** Runs every `ms` until canceled, after the I/O that is pending by then. */
  every(ms: number, run: () => void): Timer
}

/** A timer of the clock. */
export interface Timer {
  cancel(): void
}

/** A Node.js timer that is set for longer runs at once. */
const maxTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: Date.now,
  monotonic: performance.now.bind(performance),
  after: (ms, run) => startTimer(setTimeout, ms, run),
  every: (ms, run) => startTimer(setInterval, ms, run),
}

type SetTimer = (run: () => void, ms: number) => NodeJS.Timeout

/** In a turn of the event loop timers come first, then I/O, then immediates. */
const startTimer = (set: SetTimer, ms: number, run: () => void): Timer => {
  let immediate: NodeJS.Immediate | undefined
  const onDue = (): void => {
    immediate = setImmediate(run)
  }
  const timer = set(onDue, Math.min(ms, maxTimerMs)).unref()
  return {
    cancel() {
      // Clears intervals too.
      clearTimeout(timer)
      clearImmediate(immediate)
    },
  }
}
