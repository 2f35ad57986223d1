import type { Clock, Timer } from '../services/clock.ts'

/** A clock that a test advances. */
export class TestClock implements Clock {
  #now: number
  #monotonic = 1000
  readonly #timers = new Set<{ at: number; run: () => void; every?: number }>()

  constructor(now = Date.UTC(2026, 0, 15, 12)) {
    this.#now = now
  }

  now = (): number => this.#now
  monotonic = (): number => this.#monotonic

  /** Timers that have neither run nor been canceled. */
  get timerCount(): number {
    return this.#timers.size
  }

  /** When the next timer is due, in monotonic ms; undefined without timers. */
  get nextTimerAt(): number | undefined {
    return this.#timers.size === 0 ? undefined : Math.min(...Array.from(this.#timers, ({ at }) => at))
  }

  after = (ms: number, run: () => void): Timer => this.#addTimer({ at: this.#monotonic + ms, run })
  every = (ms: number, run: () => void): Timer => this.#addTimer({ at: this.#monotonic + ms, run, every: ms })

  /** Sets the system clock; monotonic time does not change. */
  shiftWallClock(ms: number): void {
    this.#now += ms
  }

  /** Advances time; timers that are due run in order. */
  advance(ms: number): void {
    const end = this.#monotonic + ms
    for (;;) {
      const due = [...this.#timers].filter(timer => timer.at <= end).sort((a, b) => a.at - b.at)[0]
      if (due === undefined) break
      this.#advanceTo(due.at)
      if (due.every === undefined) this.#timers.delete(due)
      else due.at += due.every
      due.run()
    }
    this.#advanceTo(end)
  }

  /** Advances time while the process is stopped: each timer that was due meanwhile runs afterwards, once. */
  stall(ms: number): void {
    this.#advanceTo(this.#monotonic + ms)
    const due = [...this.#timers].filter(timer => timer.at <= this.#monotonic).sort((a, b) => a.at - b.at)
    for (const timer of due) {
      if (timer.every === undefined) this.#timers.delete(timer)
      else timer.at = this.#monotonic + timer.every
      timer.run()
    }
  }

  #advanceTo(to: number): void {
    this.#now += to - this.#monotonic
    this.#monotonic = to
  }

  #addTimer(timer: { at: number; run: () => void; every?: number }): Timer {
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }
}
