import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { Commit, Engine, TableRead } from '../engine.ts'
import { RedisClient } from './redis-client.ts'
import { RedisConnection, parsePairs } from './redis-connection.ts'
import { outOfSyncError } from './redis-errors.ts'
import { changesChannelOf, parseTableKey, tableKey, tableKeyPattern, usageTagOf, usageTags } from './redis-layout.ts'
import { readUsedShares } from './redis-limits.ts'
import { script } from './redis-scripts.ts'
import type { Script } from './redis-scripts.ts'

/** In place of the clock of Redis, in tests. */
export type TestTime = Pick<Clock, 'now' | 'monotonic'>

/**
 * Begins both scripts. ARGV begins with the number of the request, which the reply repeats, and the time in ms, which only a test gives.
 * As Lua writes it, a large number is 1e+15.
 */
const begin = `
local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end
local reply = { take(), 1 }
local now = tonumber(take())
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
reply[3] = string.format('%.0f', now)
`

/** KEYS: the tables. ARGV: for each table the number of fields, -1 for all, and the fields; or -2, and the member of the rows before that names them. */
const readTables = script(`${begin}
for i = 1, #KEYS do
  local count = tonumber(take())
  local rows = {}
  if count == -1 then
    rows = redis.call('HGETALL', KEYS[i])
  else
    local member = count == -2 and take()
    for j = 1, member and #reply[i + 2] / 2 or count do
      local field = member and cjson.decode(reply[i + 2][2 * j])[member] or take()
      local value = redis.call('HGET', KEYS[i], field)
      if value then
        rows[#rows + 1] = field
        rows[#rows + 1] = value
      end
    end
  end
  reply[i + 3] = rows
end
return reply
`)

/**
 * Engine.commit(). KEYS: the tables, which ARGV names by their position. ARGV: the range of time, or empty texts; then, each list after its
 * length, guards (table, field, kind, value), puts (table, field, value), adds and sums (the same), dels (table, field), drops (table); then the
 * channel, or an empty text, and the message. The first write is one that Redis refuses without memory: later ones of a script are not.
 * Most numbers of a sum are 0, the buckets of latencies: to format them too would take a third of the time.
 */
const commitTables = script(`${begin}
local fromMs, toMs = tonumber(take()), tonumber(take())
if fromMs and (now < fromMs or now >= toMs) then reply[2] = 0 end
local function key() return KEYS[tonumber(take())] end
local concat = table.concat
for _ = 1, take() do
  local table = key()
  local found = redis.call('HGET', table, take())
  local kind, value = take(), take()
  reply[#reply + 1] = found
  local isMet
  if kind == 'is' then isMet = found == value
  elseif kind == 'none' then isMet = not found
  else isMet = tonumber(found or 0) <= tonumber(value) end
  if not isMet then reply[2] = 0 end
end
if reply[2] == 0 then return reply end
for _ = 1, take() do
  local table, field = key(), take()
  redis.call('HSET', table, field, take())
end
for _ = 1, take() do
  local table, field = key(), take()
  redis.call('HINCRBY', table, field, take())
end
for _ = 1, take() do
  local table, field = key(), take()
  local sums = {}
  for number in string.gmatch(redis.call('HGET', table, field) or '', '%S+') do sums[#sums + 1] = number end
  local i = 0
  for number in string.gmatch(take(), '%S+') do
    i = i + 1
    if number ~= '0' then sums[i] = string.format('%.0f', (sums[i] or 0) + number)
    elseif not sums[i] then sums[i] = '0' end
  end
  redis.call('HSET', table, field, concat(sums, ' '))
end
for _ = 1, take() do
  local table = key()
  redis.call('HDEL', table, take())
end
for _ = 1, take() do redis.call('DEL', key()) end
local channel = take()
if channel ~= '' then redis.call('PUBLISH', channel, take()) end
return reply
`)

export const openRedisEngine = (redis: RedisClient, { address, clock, testTime, warnings }: RedisEngineOptions): Engine => {
  const feed = openChangeFeed(address, clock)
  const changes = openWhenUsed(() => new RedisClient(address, clock))
  let requests = 0
  /** With the reply to another request, a caller would get the session of somebody else, and an account the credits of another. */
  const run = async (runnable: Script, keys: readonly string[], args: readonly string[], isReplicated = false): Promise<ScriptReply> => {
    const id = `${(requests += 1)}`
    const allArgs = [id, testTime === undefined ? '' : String(testTime.now()), ...args]
    const reply = isReplicated
      ? await (await changes.client()).runReplicatedScript(runnable, keys, allArgs)
      : await redis.runScript(runnable, keys, allArgs)
    if (!Array.isArray(reply) || reply[0] !== id) throw outOfSyncError()
    const [, isDone, clockNow, ...rest] = reply as [string, number, string, ...unknown[]] // as both scripts return them
    return { isDone: isDone === 1, clockNow: Number(clockNow), rest }
  }
  return {
    // A lease costs a round trip over the network.
    horizonMs: 10_000,
    warnings,
    usedShares: () => readUsedShares(redis),
    usageTags,
    usageTagOf,
    async read(tag, reads) {
      const args = reads.flatMap(formatFields)
      const keys = reads.map(({ table }) => tableKey(tag, table))
      const { clockNow, rest } = await run(readTables, keys, args)
      return { clockNow, tables: rest.map(rows => new Map(parsePairs(rows))) }
    },
    async *scan(tag, table) {
      yield* scanTable(redis, tag, table)
    },
    async *tables() {
      for await (const key of redis.scanKeys(tableKeyPattern)) {
        const found = parseTableKey(key)
        if (found !== undefined) yield found
      }
    },
    async commit(tag, commit) {
      const { keys, args } = formatCommit(tag, commit)
      // Also one that fails may be written.
      const { notifies } = commit
      const notify = notifies === undefined ? () => undefined : () => feed.notify(notifies)
      const channel = notifies === undefined ? '' : feed.channel
      // A key that was revoked must not be valid again on the replica that takes the place of this Redis.
      const committed = run(commitTables, keys, [...args, channel, `${feed.publisherId} ${notifies}`], notifies !== undefined)
      const { isDone, clockNow, rest } = await committed.finally(notify)
      return { isDone, clockNow, found: rest.map(value => (value === null ? undefined : String(value))) }
    },
    watch: feed.subscribe,
    // It may run on another machine.
    mayRun: () => true,
    async close() {
      await Promise.all([redis.close(), changes.close(), feed.close()])
    },
  }
}

/** A client whose commands wait for replicas: no other command waits with them. */
const openWhenUsed = (create: () => RedisClient) => {
  let opening: Promise<RedisClient> | undefined
  const open = async (): Promise<RedisClient> => {
    const client = create()
    try {
      await client.open()
      return client
    } catch (error) {
      opening = undefined
      await client.close()
      throw error
    }
  }
  return {
    client: () => (opening ??= open()),
    close: async () => (await opening?.catch(() => undefined))?.close(),
  }
}

interface RedisEngineOptions {
  readonly address: RedisAddress
  readonly clock: Clock
  readonly testTime: TestTime | undefined
  readonly warnings: readonly string[]
}

interface ScriptReply {
  readonly isDone: boolean
  readonly clockNow: number
  readonly rest: readonly unknown[]
}

/** In parts: a table may be large. */
export const scanTable = async function* (
  redis: RedisClient,
  tag: string,
  table: string,
): AsyncGenerator<readonly [field: string, value: string]> {
  let cursor = '0'
  do {
    const [next, rows] = (await redis.sendCommand('HSCAN', tableKey(tag, table), cursor, 'COUNT', '1000')) as [string, unknown]
    yield* parsePairs(rows)
    cursor = next
  } while (cursor !== '0')
}

const formatFields = ({ fields }: TableRead): readonly string[] => {
  if (fields === undefined) return ['-1']
  return 'member' in fields ? ['-2', fields.member] : [`${fields.length}`, ...fields]
}

const formatCommit = (tag: string, { guards = [], during, puts = [], adds = [], sums = [], dels = [], drops = [] }: Commit) => {
  const positions = new Map<string, string>()
  const position = (table: string): string => {
    const known = positions.get(table) ?? `${positions.size + 1}`
    positions.set(table, known)
    return known
  }
  const args: string[] = during === undefined || during.toMs === Infinity ? ['', ''] : [`${during.fromMs}`, `${during.toMs}`]
  args.push(`${guards.length}`)
  for (const guard of guards) {
    args.push(position(guard.table), guard.field)
    if ('atMost' in guard) args.push('atMost', guard.atMost === Infinity ? 'inf' : `${guard.atMost}`)
    else args.push(guard.is === undefined ? 'none' : 'is', guard.is ?? '')
  }
  args.push(`${puts.length}`)
  for (const { table, field, value } of puts) args.push(position(table), field, value)
  args.push(`${adds.length}`)
  for (const { table, field, by } of adds) args.push(position(table), field, `${by}`)
  args.push(`${sums.length}`)
  for (const { table, field, by } of sums) args.push(position(table), field, by.join(' '))
  args.push(`${dels.length}`)
  for (const { table, field } of dels) args.push(position(table), field)
  args.push(`${drops.length}`)
  for (const table of drops) args.push(position(table))
  return { keys: Array.from(positions.keys(), table => tableKey(tag, table)), args }
}

/** Connects at the first subscription. Changes that are missed while the connection is lost are made up for by one notification. */
const openChangeFeed = (address: RedisAddress, clock: Clock) => {
  const channel = changesChannelOf(address)
  /** Identifies the messages of this process, which it need not receive. */
  const publisherId = randomBytes(8).toString('hex')
  const listeners = new Set<(notifies?: string) => void>()
  const notify = (notifies?: string) => {
    for (const onChange of listeners) onChange(notifies)
  }
  let connection: RedisConnection | undefined

  const onMessage = (message: string) => {
    const [publisher, ...notifies] = message.split(' ')
    if (publisher !== publisherId) notify(notifies.join(' '))
  }
  const connect = (): RedisConnection => {
    let isFirst = true
    const onReady = () => {
      // Each time, because the first SUBSCRIBE may have been lost.
      void subscriber.subscribe(channel, onMessage)
      if (!isFirst) notify()
      isFirst = false
    }
    const subscriber = new RedisConnection(address, clock, { retryInitialConnect: true, onReady })
    // Rejects at close() only.
    subscriber.open().catch(() => {})
    return subscriber
  }
  return {
    channel,
    publisherId,
    notify,
    subscribe(onChange: (notifies?: string) => void) {
      connection ??= connect()
      listeners.add(onChange)
      return () => {
        listeners.delete(onChange)
      }
    },
    close: async () => connection?.close(),
  }
}
