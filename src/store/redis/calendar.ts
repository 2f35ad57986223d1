import type { Moment } from '../store.ts'

/** What this process has heard of the store's days. A day that has begun for it never goes back. */
export interface Calendar {
  /** What each script that needs the time begins with: the time in ms, empty for Redis's own, and the latest day. */
  words(): readonly [string, number]
  hear<T extends Moment>(moment: T): T
}

export const openCalendar = (now: (() => number) | undefined): Calendar => {
  let latest = 0
  return {
    words: () => [now === undefined ? '' : String(now()), latest],
    hear(moment) {
      latest = Math.max(latest, moment.today)
      return moment
    },
  }
}
