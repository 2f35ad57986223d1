import { hash } from 'node:crypto'

/** A Lua script, which Redis runs as one atomic step and caches by the hash of its text. Needs Redis 5 or later, or Valkey. */
export interface Script {
  readonly text: string
  readonly sha: string
}

export const script = (text: string): Script => ({ text, sha: hash('sha1', text) })

/** Fails where a script may not publish. ARGV: channel. */
export const publishNothing = script(`
redis.call('TIME')
return redis.call('PUBLISH', ARGV[1], '')
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
