import type { Clock } from '../../services/clock.ts'
import { dayMs, hourMs } from '../../util/dates.ts'
import { maxClockJumpMs, maxUnusedMs, StoreClock } from '../store-clock.ts'
import { ledgerRetentionDays, processTimeoutMs } from '../store.ts'
import type { StoreDay } from '../store.ts'
import { script } from './redis-scripts.ts'

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

export const openDayClock = (clock: Clock, testTime: TestTime | undefined): RedisDayClock => {
  const storeClock = new StoreClock(testTime ?? clock)
  let latestDay = 0
  return {
    scriptArgs: () => [testTime === undefined ? '' : String(testTime.now()), latestDay, String(storeClock.expectedNow ?? '')],
    observe(storeDay) {
      latestDay = Math.max(latestDay, storeDay.today)
      storeClock.observe((storeDay.today + 1) * dayMs - storeDay.endsInMs)
      return storeDay
    },
    isSynced: () => storeClock.expectedNow !== undefined,
  }
}

/**
 * Begins each script that needs the time; scriptArgs() gives its arguments. The clock is that of Redis, unless a test gives
 * the time in ARGV 1. It is not followed where it differs too much from ARGV 3, the time that the caller expects, as in
 * StoreClock. The day is never before ARGV 2, the latest day that the caller knows.
 */
const readDay = `
local now, expected = tonumber(ARGV[1]), tonumber(ARGV[3])
if now == nil then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local clock = now
if expected and math.abs(clock - expected) > ${maxClockJumpMs} then now = math.floor(expected) end
local today = math.max(math.floor(now / ${dayMs}), tonumber(ARGV[2]))
local endsIn = (today + 1) * ${dayMs} - now
-- As Lua writes it, a large number is 1e+15; as an integer of the protocol, the client misreads its last digit.
local function text(number) return string.format('%.0f', number) end
`

/**
 * applyLeaseRequest() on the day of one account. A LeaseRequest has other names for `need` (minCredits), `want`
 * (desiredCredits), `share` (shareDivisor) and `told` (counters.granted). The row of the latest day does not expire.
 * KEYS: ledgerDay, latestLedgerDay. ARGV from 4: process, seq, day, need, want, limit, share; granted, returned, used, or three empty texts.
 */
export const requestLease = script(`${readDay}
local process, seq, day = 'p:' .. ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local need, want, limit, share = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local row = redis.call('HMGET', KEYS[1], 'leased', process)
local leased = tonumber(row[1] or 0)
local granted, returned, used, last = string.match(row[2] or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
granted, returned, used, last = tonumber(granted), tonumber(returned), tonumber(used), tonumber(last)
if seq > last then
  local told = tonumber(ARGV[11]) or returned + used
  local heals, returns = math.max(granted, told), math.max(returned, tonumber(ARGV[12]) or 0)
  leased = leased + (heals - granted) - (returns - returned)
  local left, unseen, grant = limit - leased, heals - told, 0
  if day == today and want > unseen and need - unseen <= left then
    grant = math.max(0, need - unseen, math.min(want - unseen, math.floor(left / share)))
  end
  leased, granted, returned, used = leased + grant, heals + grant, returns, tonumber(ARGV[13]) or used
  local entry = text(granted) .. ' ' .. text(returned) .. ' ' .. text(used) .. ' ' .. text(seq)
  redis.call('HSET', KEYS[1], 'leased', text(leased), process, entry)
  local latest = tonumber(redis.call('GET', KEYS[2]) or day)
  local function expire(key, ofDay) redis.call('PEXPIRE', key, text((ofDay + ${ledgerRetentionDays}) * ${dayMs} - now)) end
  if day < latest then
    expire(KEYS[1], day)
  else
    if latest < day then expire(string.gsub(KEYS[1], '%d+$', text(latest)), latest) end
    redis.call('PERSIST', KEYS[1])
    redis.call('SET', KEYS[2], text(day))
  end
end
return { today, endsIn, text(granted), text(returned), text(used), text(limit - leased) }
`)

/** readDay, and what the store has recorded. KEYS: processes, latestDay, time. Heartbeats are by the clock, also where it is wrong. */
const readStoredDay = `${readDay}
local from, to = text(clock - ${processTimeoutMs}), text(clock + ${processTimeoutMs})
local latest = tonumber(redis.call('GET', KEYS[2]) or 0)
local stored = tonumber(redis.call('GET', KEYS[3]) or latest * ${dayMs})
if not expected and stored > 0 then
  local isInUse = redis.call('ZCOUNT', KEYS[1], from, to) > 0
  if clock - stored > (isInUse and ${maxClockJumpMs} or ${maxUnusedMs}) then now = stored end
end
today = math.max(math.floor(now / ${dayMs}), latest, tonumber(ARGV[2]))
endsIn = (today + 1) * ${dayMs} - now
`

/** KEYS: processes, latestDay, time. ARGV 4: process. Returns today, endsIn, the number of live processes, and ignoredJumpMs. */
export const heartbeat = script(`${readStoredDay}
redis.call('SET', KEYS[2], text(today))
redis.call('SET', KEYS[3], text(now))
redis.call('ZADD', KEYS[1], text(clock), ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. from)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. to, '+inf')
return { today, endsIn, redis.call('ZCARD', KEYS[1]), clock - now }
`)

/** KEYS: processes, latestDay, time. Returns today, endsIn, and then the live processes. */
export const listLiveProcesses = script(`${readStoredDay}
return { today, endsIn, unpack(redis.call('ZRANGEBYSCORE', KEYS[1], from, to)) }
`)

/** KEYS: processes, latestDay, time. Makes the day of the clock that of the store. Returns the day before, and the new day. */
export const resetDay = script(`${readStoredDay}
local day = math.floor(clock / ${dayMs})
redis.call('SET', KEYS[2], text(day))
redis.call('SET', KEYS[3], text(clock))
redis.call('DEL', KEYS[1])
return { today, day }
`)

/**
 * KEYS: lastReport, hoursOfAllAccounts; usage for each count; hoursOfAccount and hourTotals for each account and hour; reportedUse
 * for each account and day. ARGV from 4: seq, the retention in hours, the TTL of lastReport in ms, the text behind seq, the process,
 * the number of counts, that of accounts and hours; group, calls and credits for each count; account, hour, calls and credits for
 * each account and hour; day and credits for each account and day. Returns the last seq before, and the hours that have expired.
 */
export const reportUsage = script(`${readDay}
local had = tonumber(string.match(redis.call('GET', KEYS[1]) or '0', '^%d+'))
if tonumber(ARGV[4]) <= had then return { had } end
redis.call('SET', KEYS[1], ARGV[4] .. ARGV[7], 'PX', ARGV[6])
local key, at = 3, 11
for i = 1, tonumber(ARGV[9]) do
  local group, calls, credits = unpack(ARGV, at, at + 2)
  redis.call('HINCRBY', KEYS[key], group .. ' calls', calls)
  redis.call('HINCRBY', KEYS[key], group .. ' credits', credits)
  key, at = key + 1, at + 3
end
for i = 1, tonumber(ARGV[10]) do
  local account, hour, calls, credits = unpack(ARGV, at, at + 3)
  redis.call('ZADD', KEYS[key], hour, hour)
  redis.call('ZADD', KEYS[2], hour, account .. ':' .. hour)
  redis.call('HINCRBY', KEYS[key + 1], hour .. ' calls', calls)
  redis.call('HINCRBY', KEYS[key + 1], hour .. ' credits', credits)
  key, at = key + 2, at + 4
end
for i = key, #KEYS do
  redis.call('HINCRBY', KEYS[i], ARGV[8], ARGV[at + 1])
  redis.call('PEXPIRE', KEYS[i], text((tonumber(ARGV[at]) + ${ledgerRetentionDays}) * ${dayMs} - now))
  at = at + 2
end
local before = math.floor(now / ${hourMs}) - tonumber(ARGV[5])
return { had, unpack(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(before), 'LIMIT', 0, 500)) }
`)

/**
 * KEYS: reportedUse of one account's day, usage of hours of the day, lastReport of each process. ARGV: how many keys there are before
 * lastReport, and the processes. Returns
 * the credits of the usage, then what each process has reported: its credits, and its lastReport, empty when it has none.
 */
export const readReportedUse = script(`
local counted, found = 0, {}
local dayKeys = tonumber(ARGV[1])
for i = 2, dayKeys do
  local row = redis.call('HGETALL', KEYS[i])
  for at = 1, #row, 2 do
    if string.sub(row[at], -8) == ' credits' then counted = counted + row[at + 1] end
  end
end
for i = 2, #ARGV do
  found[2 * i - 3] = redis.call('HGET', KEYS[1], ARGV[i]) or '0'
  found[2 * i - 2] = redis.call('GET', KEYS[dayKeys + i - 1]) or ''
end
return { string.format('%.0f', counted), unpack(found) }
`)

/** Drops one account's hour. KEYS: usage, hoursOfAccount, hoursOfAllAccounts, hourTotals. ARGV: hour, account. */
export const dropHour = script(`
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[2] .. ':' .. ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1] .. ' calls', ARGV[1] .. ' credits')
return 1
`)
