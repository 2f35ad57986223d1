import type { StoreDay } from '../../store/store.ts'
import { dayMs } from '../../util/dates.ts'
import type { Log } from '../log.ts'

/**
 * The store's day on the monotonic clock of this process. A day never begins later here than it does in the store, and
 * never goes back.
 */
export class DayBoundary {
  /** Days since 1970, UTC, as far as today() knows; -1 until the store has responded. Changed by this class alone, and read by each charge. */
  day = -1
  /** When that day ends; Infinity while it is not known. */
  midnightAt = Infinity
  readonly #log: Log
  #dayKnownAt = -Infinity
  #isClockBehind = false

  constructor(log: Log) {
    this.#log = log
  }

  /** Begins the next day when it is due. */
  today(now: number): number {
    if (now >= this.midnightAt) {
      this.day += 1
      this.midnightAt = Infinity
    }
    return this.day
  }

  /**
   * Takes over the day of a response. Midnight is counted from when the request was sent, so that it comes early rather
   * than late. A store reads its clock in whole milliseconds: its day may end up to 1 ms sooner than it reports.
   */
  update(sentAt: number, { today, endsInMs }: StoreDay): void {
    if (sentAt < this.#dayKnownAt || today < this.day) return
    const isClockBehind = endsInMs > dayMs + maxClockSkewMs
    if (isClockBehind && !this.#isClockBehind) {
      this.#log.warn({ day: today, endsInMs }, "system clock is behind the store's current UTC day; the day is extended")
    }
    this.#isClockBehind = isClockBehind
    this.#dayKnownAt = sentAt
    this.day = today
    this.midnightAt = sentAt + endsInMs - 1
  }
}

/** Smaller corrections of a clock are ordinary, and are not logged. */
const maxClockSkewMs = 1_000
