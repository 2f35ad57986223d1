import type { Clock } from '../../services/clock.ts'
import type { StoreDay } from '../store.ts'
import { StoreClock, storeTimeOf } from '../store-clock.ts'
import type { RedisConnection } from './redis-connection.ts'
import { outOfSyncError } from './redis-errors.ts'
import { redisKeys } from './redis-layout.ts'
import * as scripts from './redis-ledger-scripts.ts'

/** In place of the clock of Redis, in tests. */
export type TestTime = Pick<Clock, 'now' | 'monotonic'>

/** The days that this process knows of. A day that has begun for it never goes back. */
export interface RedisDayClock {
  /**
   * What each script that needs the time takes first: the time in ms, empty for that of Redis; the latest day; and the time that
   * the process expects, empty until it knows.
   */
  scriptArgs(): readonly [string, number, string]
  observe<T extends StoreDay>(day: T): T
  /** False until observe(). */
  isSynced(): boolean
}

export const openRedisDayClock = (clock: Clock, testTime: TestTime | undefined): RedisDayClock => {
  const storeClock = new StoreClock(testTime ?? clock)
  let latestDay = 0
  return {
    scriptArgs: () => [testTime === undefined ? '' : String(testTime.now()), latestDay, String(storeClock.expectedNow ?? '')],
    observe(storeDay) {
      latestDay = Math.max(latestDay, storeDay.today)
      storeClock.observe(storeTimeOf(storeDay))
      return storeDay
    },
    isSynced: () => storeClock.expectedNow !== undefined,
  }
}

/** Integers of a reply; with `hasMore`, those that it begins with. Another reply would be stored, or sent to Redis again. */
export const parseIntegers = (reply: unknown, count: number, { hasMore = false } = {}): readonly number[] => {
  const texts: readonly unknown[] = Array.isArray(reply) ? (hasMore ? reply.slice(0, count) : reply) : []
  const integers = texts.map(text => (text === null || text === '' ? NaN : Number(text)))
  if (integers.length === count && integers.every(Number.isSafeInteger)) return integers
  throw outOfSyncError()
}

export const processKeys = [redisKeys.processes, redisKeys.latestDay, redisKeys.time]

type LiveProcessesReply = [today: number, endsInMs: number, ...processes: string[]]

export const listLiveProcesses = async (
  redis: RedisConnection,
  { scriptArgs, observe }: RedisDayClock,
): Promise<StoreDay & { readonly processes: readonly string[] }> => {
  const reply = await redis.runScript(scripts.listLiveProcesses, processKeys, scriptArgs())
  const [today, endsInMs] = parseIntegers(reply, 2, { hasMore: true }) as [number, number]
  const [, , ...processes] = reply as LiveProcessesReply
  return observe({ today, endsInMs, processes })
}

/** For scripts that cannot read what the store has recorded of its time, because that is in another slot of a cluster. */
export const syncDayClock = async (redis: RedisConnection, dayClock: RedisDayClock): Promise<void> => {
  if (!dayClock.isSynced()) await listLiveProcesses(redis, dayClock)
}
