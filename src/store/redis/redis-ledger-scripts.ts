import { dayMs } from '../../util/dates.ts'
import { ledgerRetentionDays, processTimeoutMs } from '../store.ts'
import { maxClockJumpMs, maxUnusedMs } from '../store-clock.ts'
import { script } from './redis-scripts.ts'

/**
 * Begins each script that needs the time; scriptArgs() gives its arguments. The clock is that of Redis, unless a test gives
 * the time in ARGV 1. It is not followed where it differs too much from ARGV 3, the time that the caller expects, as in
 * StoreClock. The day is never before ARGV 2, the latest day that the caller knows.
 */
export const readDay = `
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
 * Redis expires keys by its own clock, and one wrong date would drop what credits and counts depend on. So rows of days do not expire:
 * of each account the latest ones are retained, by their number. Rows of an older Tollgate have a time to live.
 */
export const retainDay = `
local function retainDay(row, days, day)
  redis.call('PERSIST', row)
  if redis.call('ZADD', days, day, day) == 0 then return end
  for _, old in ipairs(redis.call('ZRANGE', days, 0, -${ledgerRetentionDays + 1})) do
    redis.call('DEL', (string.gsub(row, '%d+$', old)))
    redis.call('ZREM', days, old)
  end
end
`

/**
 * applyLeaseRequest() on the day of one account, with its names.
 * KEYS: ledgerDay, ledgerDays, latestLedgerDay. ARGV from 4: process, seq, day, minCredits, desiredCredits, limit, shareDivisor; granted,
 * returned and used of the counters, or three empty texts. Returns today, endsIn, granted, returned, used, what remains of the limit, and seq.
 */
export const requestLease = script(`${readDay}${retainDay}
local process, seq, day = 'p:' .. ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local minCredits, desiredCredits, limit, shareDivisor = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local row = redis.call('HMGET', KEYS[1], 'leased', process)
local leased = tonumber(row[1] or 0)
local granted, returned, used, lastSeq = string.match(row[2] or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
granted, returned, used, lastSeq = tonumber(granted), tonumber(returned), tonumber(used), tonumber(lastSeq)
if seq > lastSeq then
  local seenGranted = tonumber(ARGV[11]) or returned + used
  local allGranted, allReturned = math.max(granted, seenGranted), math.max(returned, tonumber(ARGV[12]) or 0)
  leased = leased + (allGranted - granted) - (allReturned - returned)
  local remaining, unseenGrant, grant = limit - leased, allGranted - seenGranted, 0
  if day == today and desiredCredits > unseenGrant and minCredits - unseenGrant <= remaining then
    grant = math.max(0, minCredits - unseenGrant, math.min(desiredCredits - unseenGrant, math.floor(remaining / shareDivisor)))
  end
  leased, granted, returned, used = leased + grant, allGranted + grant, allReturned, tonumber(ARGV[13]) or used
  local entry = text(granted) .. ' ' .. text(returned) .. ' ' .. text(used) .. ' ' .. text(seq)
  redis.call('HSET', KEYS[1], 'leased', text(leased), process, entry)
  local latest = redis.call('GET', KEYS[3])
  if latest then
    redis.call('ZADD', KEYS[2], latest, latest)
    redis.call('DEL', KEYS[3])
  end
  retainDay(KEYS[1], KEYS[2], text(day))
end
return { today, endsIn, text(granted), text(returned), text(used), text(limit - leased), text(seq) }
`)

/** readDay, and what the store has recorded. KEYS: processes, latestDay, time. Heartbeats are by the clock, also where it is wrong. */
const readStoredDay = `${readDay}
local from, to = text(clock - ${processTimeoutMs}), text(clock + ${processTimeoutMs})
local latest = tonumber(redis.call('GET', KEYS[2]) or 0)
local stored = tonumber(redis.call('GET', KEYS[3]) or latest * ${dayMs})
if not expected and stored > 0 then
  local isInUse = redis.call('ZCOUNT', KEYS[1], from, to) > 0
  if clock - stored > (isInUse and ${maxClockJumpMs} or ${maxUnusedMs}) then now = stored end
elseif expected and stored > 0 and math.abs(clock - stored) <= ${maxClockJumpMs} then
  now = clock
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
 * Drops rows of one account. KEYS: the days that have a row; of the ledger latestLedgerDay too. ARGV: the day after which rows are
 * dropped, and what their keys begin with.
 */
export const dropDays = script(`
local latest = KEYS[2] and redis.call('GET', KEYS[2])
local dropped = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf')
if latest and tonumber(latest) > tonumber(ARGV[1]) then
  dropped[#dropped + 1] = latest
  redis.call('DEL', KEYS[2])
end
for _, day in ipairs(dropped) do
  redis.call('DEL', ARGV[2] .. day)
  redis.call('ZREM', KEYS[1], day)
end
return #dropped
`)
