import { dayMs, hourMs } from '../../util/dates.ts'
import { readDay, retainDay } from './redis-ledger-scripts.ts'
import { script } from './redis-scripts.ts'

/** A process without reports for this time does not repeat its last one. */
const lastReportRetentionMs = 3 * dayMs

/** Writes the seq of a process's last report, and drops those of processes that have ended, some at a time. */
const recordReport = `
local function recordReport(key, processes, process, seq)
  redis.call('SET', key, seq)
  redis.call('ZADD', processes, text(now), process)
  local prefix = string.sub(key, 1, -1 - string.len(process))
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', processes, '-inf', '(' .. text(now - ${lastReportRetentionMs}), 'LIMIT', 0, 100)) do
    redis.call('DEL', prefix .. old)
    redis.call('ZREM', processes, old)
  end
end
`

/**
 * KEYS: lastReport, reportingProcesses, hoursOfAllAccounts; usage for each count; hoursOfAccount and hourTotals for each account and
 * hour; reportedUse and reportedDays for each account and day. ARGV from 4: seq, the retention in hours, the text behind seq, the
 * process, the number of counts, that of accounts and hours; group, calls and credits for each count; account, hour, calls and credits
 * for each account and hour; day and credits for each account and day. Returns the last seq before, and the hours that have expired.
 */
export const reportUsage = script(`${readDay}${retainDay}${recordReport}
local last = redis.call('GET', KEYS[1]) or '0'
local previousSeq = tonumber(string.match(last, '^%d+'))
local seq = tonumber(ARGV[4])
if seq == previousSeq then return { tonumber(string.match(last, ' after (%d+)') or seq) } end
if seq < previousSeq then return { previousSeq } end
recordReport(KEYS[1], KEYS[2], ARGV[7], ARGV[4] .. ' after ' .. text(previousSeq) .. ARGV[6])
local key, at = 4, 10
for i = 1, tonumber(ARGV[8]) do
  local group, calls, credits = unpack(ARGV, at, at + 2)
  redis.call('HINCRBY', KEYS[key], group .. ' calls', calls)
  redis.call('HINCRBY', KEYS[key], group .. ' credits', credits)
  key, at = key + 1, at + 3
end
for i = 1, tonumber(ARGV[9]) do
  local account, hour, calls, credits = unpack(ARGV, at, at + 3)
  redis.call('ZADD', KEYS[key], hour, hour)
  redis.call('ZADD', KEYS[3], hour, account .. ':' .. hour)
  redis.call('HINCRBY', KEYS[key + 1], hour .. ' calls', calls)
  redis.call('HINCRBY', KEYS[key + 1], hour .. ' credits', credits)
  key, at = key + 2, at + 4
end
for i = key, #KEYS, 2 do
  redis.call('HINCRBY', KEYS[i], ARGV[7], ARGV[at + 1])
  retainDay(KEYS[i], KEYS[i + 1], ARGV[at])
  at = at + 2
end
local before = math.floor(now / ${hourMs}) - tonumber(ARGV[5])
return { previousSeq, unpack(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(before), 'LIMIT', 0, 500)) }
`)

/**
 * Records what a process has reported to another store. KEYS: lastReport, reportingProcesses, reportedUse, reportedDays. ARGV from 4:
 * process, day, credits, its last report.
 */
export const restoreReportedUse = script(`${readDay}${retainDay}${recordReport}
redis.call('HSET', KEYS[3], ARGV[4], ARGV[6])
retainDay(KEYS[3], KEYS[4], ARGV[5])
if redis.call('EXISTS', KEYS[1]) == 0 then recordReport(KEYS[1], KEYS[2], ARGV[4], ARGV[7]) end
return 1
`)

/**
 * KEYS: reportedUse of one account's day, usage of hours of the day, lastReport of each process. ARGV: how many keys there are before
 * lastReport, and the processes. Returns the credits of the usage, then what each process has reported: its credits, and its lastReport,
 * empty when it has none.
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
