import { hash } from 'node:crypto'
import { ledgerRetentionDays, processTimeoutMs } from '../store.ts'
import type { StoreDay } from '../store.ts'
import { dayMs, hourMs } from '../../util/dates.ts'

/** A Lua script, which Redis runs as one atomic step and caches by the hash of its text. Needs Redis 5 or later, or Valkey. */
export interface Script {
  readonly text: string
  readonly sha: string
}

const script = (text: string): Script => ({ text, sha: hash('sha1', text) })

/** The days that this process knows of. A day that has begun for it never goes back. */
export interface RedisDayClock {
  /** What each script that needs the time takes first: the time in ms, empty for that of Redis, and the latest day. */
  scriptArgs(): readonly [string, number]
  observe<T extends StoreDay>(day: T): T
}

export const openDayClock = (now: (() => number) | undefined): RedisDayClock => {
  let latestDay = 0
  return {
    scriptArgs: () => [now === undefined ? '' : String(now()), latestDay],
    observe(storeDay) {
      latestDay = Math.max(latestDay, storeDay.today)
      return storeDay
    },
  }
}

/**
 * Begins each script that needs the time; scriptArgs() gives its arguments. The clock is that of Redis, unless a test gives
 * the time in ARGV 1. The day is never before ARGV 2, the latest day that the caller knows.
 */
const readDay = `
local now = tonumber(ARGV[1])
if now == nil then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local today = math.max(math.floor(now / ${dayMs}), tonumber(ARGV[2]))
local endsIn = (today + 1) * ${dayMs} - now
-- As Lua writes it, a large number is 1e+15; as an integer of the protocol, the client misreads its last digit.
local function text(number) return string.format('%.0f', number) end
`

/**
 * applyLeaseRequest() on the day of one account. A LeaseRequest has other names for `need` (minCredits), `want`
 * (desiredCredits), `share` (shareDivisor) and `told` (counters.granted).
 * KEYS: day. ARGV from 3: process, seq, day, need, want, limit, share; granted, returned, used, or three empty texts.
 */
export const requestLease = script(`${readDay}
local process, seq, day = 'p:' .. ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local need, want, limit, share = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local row = redis.call('HMGET', KEYS[1], 'leased', process)
local leased = tonumber(row[1] or 0)
local granted, returned, used, last = string.match(row[2] or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
granted, returned, used, last = tonumber(granted), tonumber(returned), tonumber(used), tonumber(last)
if seq > last then
  local told = tonumber(ARGV[10]) or returned + used
  local heals, returns = math.max(granted, told), math.max(returned, tonumber(ARGV[11]) or 0)
  leased = leased + (heals - granted) - (returns - returned)
  local left, unseen, grant = limit - leased, heals - told, 0
  if day == today and want > unseen and need - unseen <= left then
    grant = math.max(0, need - unseen, math.min(want - unseen, math.floor(left / share)))
  end
  leased, granted, returned, used = leased + grant, heals + grant, returns, tonumber(ARGV[12]) or used
  local entry = text(granted) .. ' ' .. text(returned) .. ' ' .. text(used) .. ' ' .. text(seq)
  redis.call('HSET', KEYS[1], 'leased', text(leased), process, entry)
  redis.call('PEXPIRE', KEYS[1], text((day + ${ledgerRetentionDays}) * ${dayMs} - now))
end
return { today, endsIn, text(granted), text(returned), text(used), text(limit - leased) }
`)

/** KEYS: processes, latestDay. ARGV 3: process. Returns today, endsIn, and the number of live processes. */
export const heartbeat = script(`${readDay}
today = math.max(today, tonumber(redis.call('GET', KEYS[2]) or 0))
redis.call('SET', KEYS[2], text(today))
redis.call('ZADD', KEYS[1], text(now), ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now - ${processTimeoutMs}))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. text(now + ${processTimeoutMs}), '+inf')
return { today, (today + 1) * ${dayMs} - now, redis.call('ZCARD', KEYS[1]) }
`)

/** KEYS: processes, latestDay. Returns today, endsIn, and then the live processes. */
export const listLiveProcesses = script(`${readDay}
today = math.max(today, tonumber(redis.call('GET', KEYS[2]) or 0))
local found = redis.call('ZRANGEBYSCORE', KEYS[1], text(now - ${processTimeoutMs}), text(now + ${processTimeoutMs}))
return { today, (today + 1) * ${dayMs} - now, unpack(found) }
`)

/** Ends each script that changes accounts or keys. The last of KEYS is `changes`; the last of ARGV are the channel and the publisher. */
const publishChange = `redis.call('INCR', KEYS[#KEYS])
redis.call('PUBLISH', ARGV[#ARGV - 1], ARGV[#ARGV])
return 1
`

/** KEYS: names, accounts. ARGV: name, id, row. */
export const addAccount = script(`
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
${publishChange}`)

/** KEYS: keys, keyIds, keysOf. ARGV: hash, row, id. */
export const addKey = script(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[3], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[1])
${publishChange}`)

/** Replaces a row, unless it has changed since it was read. KEYS: accounts or keys. ARGV: field, old row, new row. */
export const replaceRow = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
${publishChange}`)

/** KEYS: keys, accounts. ARGV: hash. Returns the row of the key, and that of its account. */
export const findKey = script(`
local key = redis.call('HGET', KEYS[1], ARGV[1])
if not key then return {} end
return { key, redis.call('HGET', KEYS[2], cjson.decode(key).account) }
`)

/**
 * KEYS: lastReport, hoursOfAllAccounts, then usage and hoursOfAccount for each count. ARGV from 3: seq, the retention in
 * hours, the TTL of lastReport in ms, then account, hour, group, calls and credits for each count. Returns the last seq
 * before, and the hours that have expired.
 */
export const reportUsage = script(`${readDay}
local had = tonumber(redis.call('GET', KEYS[1]) or 0)
if tonumber(ARGV[3]) <= had then return { had } end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[5])
for i = 3, #KEYS, 2 do
  local at = 6 + (i - 3) / 2 * 5
  local account, hour, group, calls, credits = unpack(ARGV, at, at + 4)
  redis.call('HINCRBY', KEYS[i], group .. ' calls', calls)
  redis.call('HINCRBY', KEYS[i], group .. ' credits', credits)
  redis.call('ZADD', KEYS[i + 1], hour, hour)
  redis.call('ZADD', KEYS[2], hour, account .. ':' .. hour)
end
local before = math.floor(now / ${hourMs}) - tonumber(ARGV[4])
return { had, unpack(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(before), 'LIMIT', 0, 500)) }
`)

/** Drops one account's hour. KEYS: usage, hoursOfAccount, hoursOfAllAccounts. ARGV: hour, account. */
export const dropHour = script(`
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[2] .. ':' .. ARGV[1])
return 1
`)

/**
 * Raises the reported height of a network, publishes it to all gateways when it is new, and returns the greatest.
 * KEYS: height. ARGV: height, time to live in ms, channel, `<sender> <network>`.
 */
export const raiseHeight = script(`
local height, known = tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or 0)
if height <= known then return known end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[1] .. ' ' .. ARGV[4])
return height
`)

/** Removes a greater height than this one: the chain is shorter. KEYS: height. ARGV: height. */
export const lowerHeight = script(`
if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then redis.call('DEL', KEYS[1]) end
return 0
`)
