import { setImmediate, setTimeout } from 'node:timers/promises'
import { systemClock } from '../services/clock.ts'
import type { Clock, Timer } from '../services/clock.ts'
import { singleFlight } from '../util/async.ts'

interface TestTimer {
  at: number
  readonly run: () => void
  readonly every?: number
}

/** A clock that a test advances. */
export class TestClock implements Clock {
  #now: number
  #monotonic = 1000
  readonly #timers = new Set<TestTimer>()

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
    return this.#nextTimer()?.at
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
      const due = this.#nextTimer()
      if (due === undefined || due.at > end) break
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

  /** Of those that are due at the same time, the first that was set. Nothing is sorted or copied: in a day, a timer of a second runs 86,400 times. */
  #nextTimer(): TestTimer | undefined {
    let next: TestTimer | undefined
    for (const timer of this.#timers) if (next === undefined || timer.at < next.at) next = timer
    return next
  }

  #advanceTo(to: number): void {
    this.#now += to - this.#monotonic
    this.#monotonic = to
  }

  #addTimer(timer: TestTimer): Timer {
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }
}

/** A call that takes longer by the test's clock is stuck: no timeout of the gateway is as long. */
const maxSettleMs = 120_000

/** How long a call may wait without a timer of the clock, in ms of the system's clock. */
const maxIdleMs = 2_000
const idleStepMs = 5

/** Turns of the event loop within which everything happens that needs no time. */
const turnsPerStep = 4

/** Advances the clock of a test, and lets everything that is due happen before the next timer. */
export class ClockDriver {
  readonly #clock: TestClock

  constructor(clock: TestClock) {
    this.#clock = clock
  }

  /** Advances by `ms`, timer by timer. */
  async advance(ms: number): Promise<void> {
    const end = this.#clock.monotonic() + ms
    await letEventLoopTurn()
    for (;;) {
      // One turn: a day has 100,000 timers.
      await nextTurn()
      const next = this.#clock.nextTimerAt
      if (next === undefined || next > end) break
      this.#advanceTo(next)
    }
    this.#advanceTo(end)
    await letEventLoopTurn()
  }

  /** The promise's value. While it is pending and nothing else happens, the clock jumps to the next timer. */
  async settle<T>(work: Promise<T>, describeStuck: () => string): Promise<T> {
    let isSettled = false
    const settled = work.finally(() => {
      isSettled = true
    })
    settled.catch(() => undefined) // it is returned below
    const end = this.#clock.monotonic() + maxSettleMs
    let idleMs = 0
    await letEventLoopTurn()
    while (!isSettled) {
      const hasTimer = await this.#jump()
      idleMs = hasTimer ? 0 : idleMs + idleStepMs
      if (idleMs > maxIdleMs || this.#clock.monotonic() > end) throw new Error(describeStuck())
    }
    return settled
  }

  /** False when there is no timer to jump to. */
  readonly #jump = singleFlight(async (): Promise<boolean> => {
    const next = this.#clock.nextTimerAt
    if (next === undefined) await setTimeout(idleStepMs)
    else this.#advanceTo(next)
    await letEventLoopTurn()
    return next !== undefined
  })

  #advanceTo(at: number): void {
    this.#clock.advance(Math.max(0, at - this.#clock.monotonic()))
  }
}

/** Ends once nothing is under way that needs no time of the clock: a plugin computes in turns of the event loop, or loads a module. */
const letEventLoopTurn = async (): Promise<void> => {
  const end = systemClock.monotonic() + maxWorkMs
  for (let idleTurns = 0; idleTurns < turnsPerStep && systemClock.monotonic() < end; ) {
    await nextTurn()
    idleTurns = isWorking() ? 0 : idleTurns + 1
  }
}

/** Work that goes on for longer does not end by itself, in ms of the system's clock. */
const maxWorkMs = 2_000

/** Of all clocks of the process. */
let waitingForTurns = 0

const nextTurn = async (): Promise<void> => {
  waitingForTurns += 1
  await setImmediate()
  waitingForTurns -= 1
}

const isWorking = (): boolean => {
  const resources = process.getActiveResourcesInfo()
  const turnCount = resources.filter(resource => resource === 'Immediate').length
  return turnCount > waitingForTurns || resources.some(resource => /^(FSReq|CloseReq)/.test(resource))
}
