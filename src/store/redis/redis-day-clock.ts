import type { StoreDay } from '../store.ts'

/** What this process has heard of the store's days. A day that has begun for it never goes back. */
export interface RedisDayClock {
  /** What each script that needs the time begins with: the time in ms, empty for Redis's own, and the latest day. */
  scriptArgs(): readonly [string, number]
  observe<T extends StoreDay>(day: T): T
}

export const openDayClock = (now: (() => number) | undefined): RedisDayClock => {
  let latestDay = 0
  return {
    scriptArgs: () => [now === undefined ? '' : String(now()), latestDay],
    observe(moment) {
      latestDay = Math.max(latestDay, moment.today)
      return moment
    },
  }
}
