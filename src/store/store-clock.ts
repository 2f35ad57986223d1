import type { Clock } from '../services/clock.ts'
import { dayMs } from '../util/dates.ts'
import type { StoreDay } from './store.ts'

/** A clock that jumps further than this is not followed by a process that has not lived through the difference. */
export const maxClockJumpMs = dayMs

/** A store may have been unused for this time. At its first use, a clock that is further ahead of the store is not followed. */
export const maxUnusedMs = 90 * dayMs

/** The time of a store in ms since 1970, by the day that it names. */
export const storeTimeOf = ({ today, endsInMs }: StoreDay): number => (today + 1) * dayMs - endsInMs

/** The time of a store, and by how much the clock differs from it; 0 while the clock is followed. */
interface ClockReading {
  readonly now: number
  readonly ignoredJumpMs: number
}

/**
 * The time of a store by a clock that may jump: the clock of the machine, or that of Redis. One wrong date would otherwise take
 * the store's day to a far year for good, because the day never goes back.
 */
export class StoreClock {
  readonly #clock: Pick<Clock, 'monotonic'>
  #lastNow: number | undefined
  #readAt = 0

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** The time by this process alone: the last time that it read, and what it has lived through since. Undefined before. */
  get expectedNow(): number | undefined {
    return this.#lastNow === undefined ? undefined : this.#lastNow + this.#clock.monotonic() - this.#readAt
  }

  /** `stored`: the last time that any process recorded. `isInUse`: other processes follow that time now. */
  read(clockNow: number, stored: number | undefined, isInUse: () => boolean): ClockReading {
    const now = this.expectedNow === undefined ? firstNow(clockNow, stored, isInUse) : followJump(clockNow, this.expectedNow, stored)
    this.observe(now)
    return { now, ignoredJumpMs: clockNow - now }
  }

  observe(now: number): void {
    this.#lastNow = now
    this.#readAt = this.#clock.monotonic()
  }
}

/** A process that was suspended for days follows the clock when another process, which was not, has recorded its time. */
const followJump = (clockNow: number, expectedNow: number, stored = expectedNow): number =>
  [expectedNow, stored].some(time => Math.abs(clockNow - time) <= maxClockJumpMs) ? clockNow : Math.floor(expectedNow)

const firstNow = (clockNow: number, stored: number | undefined, isInUse: () => boolean): number => {
  const aheadMs = stored === undefined ? 0 : clockNow - stored
  if (stored === undefined || aheadMs <= maxClockJumpMs) return clockNow
  return aheadMs > maxUnusedMs || isInUse() ? stored : clockNow
}
