import { hash } from 'node:crypto'
import { neverExpires } from '../record-store.ts'

/** A Lua script, which Redis runs as one atomic step and caches by the hash of its text. Needs Redis 5 or later, or Valkey. */
export interface Script {
  readonly text: string
  readonly sha: string
}

export const script = (text: string): Script => ({ text, sha: hash('sha1', text) })

/** Ends each script that changes accounts or keys. The last of KEYS is `changes`; the last of ARGV are the channel and the publisher. */
const publishChange = `redis.call('INCR', KEYS[#KEYS])
redis.call('PUBLISH', ARGV[#ARGV - 1], ARGV[#ARGV])
return 1
`

/** Fails where a script may not publish. ARGV: channel. */
export const publishNothing = script(`
redis.call('TIME')
return redis.call('PUBLISH', ARGV[1], '')
`)

/** KEYS: names, accounts. ARGV: name, id, row. */
export const addAccount = script(`
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
${publishChange}`)

/** Removes an account and its keys, unless it has changed since it was read. KEYS: names, accounts, keys, keyIds, keysOf. ARGV: name, id, row. */
export const removeAccount = script(`
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
for _, hash in ipairs(redis.call('SMEMBERS', KEYS[5])) do
  local key = redis.call('HGET', KEYS[3], hash)
  if key then redis.call('HDEL', KEYS[4], cjson.decode(key).id) end
  redis.call('HDEL', KEYS[3], hash)
end
redis.call('DEL', KEYS[5])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[2])
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

/** KEYS: keys, accounts. ARGV: hash. Returns the hash, the row of the key, and that of its account. */
export const findKey = script(`
local key = redis.call('HGET', KEYS[1], ARGV[1])
if not key then return { ARGV[1] } end
return { ARGV[1], key, redis.call('HGET', KEYS[2], cjson.decode(key).account) }
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

/** Stores the answer to a request between processes, and announces it. KEYS: peerReply. ARGV: answer, time to live in ms, channel, request. */
export const putPeerReply = script(`
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('PUBLISH', ARGV[3], ARGV[4])
`)

/** Removed with each write, during which Redis answers nobody else. */
const maxExpiredPerWrite = 10

/**
 * Writes a record, and removes others that have expired. Redis would expire them by its own clock, of which one wrong date would sign
 * everybody out: they are removed once they have expired by the clock of Redis and by that of the gateway.
 * Returns 0, and writes nothing, where `add` finds a record, and where `replace` does not find the record as it was read. KEYS: record,
 * recordsOfAccount, recordExpiry. ARGV: kind, id, record, when it expires, `put`, `add` or `replace`, the time of the gateway, the record
 * as it was read, and the time of Redis, which only a test gives.
 */
export const putRecord = script(`
local kind, id, record, expires, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6])
local known = ARGV[5] ~= 'put' and redis.call('GET', KEYS[1])
local exists = known and cjson.decode(known).expires > now
if ARGV[5] == 'add' and exists then return 0 end
if ARGV[5] == 'replace' and not (exists and known == ARGV[7]) then return 0 end

local prefix, member = string.sub(KEYS[1], 1, -#(kind .. ':' .. id) - 1), kind .. ':' .. id
local past = math.min(now, tonumber(ARGV[8]) or redis.call('TIME')[1] * 1000)
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', past, 'LIMIT', 0, ${maxExpiredPerWrite})) do
  redis.call('ZREM', KEYS[3], old)
  local text = redis.call('GET', prefix .. old)
  local found = text and cjson.decode(text)
  if found and found.expires <= past then
    redis.call('DEL', prefix .. old)
    redis.call('ZREM', prefix .. string.match(old, '^[^:]+') .. 's-of:' .. found.account, found.id)
  end
end

redis.call('SET', KEYS[1], record)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', past)
redis.call('ZADD', KEYS[2], expires, id)
if expires < ${neverExpires} then redis.call('ZADD', KEYS[3], expires, member) else redis.call('ZREM', KEYS[3], member) end
return 1
`)

/** Removes a record, or the answer of a process, and returns it. KEYS: record. */
export const takeRecord = script(`
local record = redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
return record
`)

/** What one process holds is refused to the calls of the others: of a bucket that is nearly empty it gets little for later. */
const tokensPerShare = 16

/**
 * Takes tokens of a bucket that gets `per second` of them back, or none when it has too few; of the tokens that are left, at most a
 * part more for later. KEYS: tokens. ARGV: per second, burst, tokens, most tokens. Returns those that were taken, the ms until there are
 * enough, and what is left.
 */
export const takeTokens = script(`
local rate, burst, wanted, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local known = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = burst
if known[1] then
  tokens = math.min(burst, known[1] + math.max(0, now - known[2]) / 1000 * rate)
  -- The clock went back: without this the bucket would get nothing until the clock has caught up.
  if now < tonumber(known[2]) then redis.call('HSET', KEYS[1], 'at', string.format('%.3f', now)) end
end
local missing = math.min(wanted, burst) - tokens
-- Sums of fractions are not exact.
if missing > 1e-6 then return { '0', string.format('%.3f', missing / rate * 1000), string.format('%.6f', tokens) } end
local taken = wanted + math.max(0, math.min(most - wanted, math.floor((tokens - wanted) / ${tokensPerShare})))
tokens = tokens - taken
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.3f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - tokens) / rate * 1000) + 1000)
return { tostring(taken), '0', string.format('%.6f', tokens) }
`)
