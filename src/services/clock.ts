/** The only place that reads the time. Tests pass one that they turn by hand. */
export interface Clock {
  /** Milliseconds since 1970, UTC; may jump when somebody sets the machine's clock. */
  now(): number
  /** Milliseconds from some fixed moment; never jumps and never goes back. */
  monotonic(): number
  /**
   * Runs once, later, and not before what has arrived by then has been read: what was in time is never taken for late,
   * however busy the process is. A waiting timer does not keep the process alive.
   */
  after(ms: number, run: () => void): Timer
  /** Runs again and again until cancelled. */
  every(ms: number, run: () => void): Timer
}

export interface Timer {
  cancel(): void
}

/** In ms: a timer of Node.js that is set for longer runs at once. */
const maxTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    let immediate: NodeJS.Immediate | undefined
    // In a turn of the event loop timers come first, then what has arrived, then immediates.
    const timer = setTimeout(
      () => {
        immediate = setImmediate(run)
      },
      Math.min(ms, maxTimerMs),
    ).unref()
    return {
      cancel() {
        clearTimeout(timer)
        clearImmediate(immediate)
      },
    }
  },
  every(ms, run) {
    const timer = setInterval(run, ms).unref()
    return { cancel: () => clearInterval(timer) }
  },
}
