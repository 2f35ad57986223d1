import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import { unexpired } from '../record-store.ts'
import type { RecordKind, RecordStore, StoredRecord } from '../record-store.ts'
import { StoreError } from '../store.ts'
import type { Copyable, Store, StoreContents } from '../store.ts'
import { hashedKeys, openChangeFeed, findKeyRate, readAccountRows, redisAccountStore } from './redis-accounts.ts'
import { RedisConnection } from './redis-connection.ts'
import { listLiveProcesses, openRedisDayClock } from './redis-day-clock.ts'
import type { RedisDayClock, TestTime } from './redis-day-clock.ts'
import { outOfSyncError } from './redis-errors.ts'
import { layoutVersion, redisKeys, rightsChannel } from './redis-layout.ts'
import { readLedgerDay, redisLedgerStore } from './redis-ledger.ts'
import { publishNothing, putRecord, takeRecord } from './redis-scripts.ts'
import { parseHourCounts, parseHourMember, redisUsageStore, restoreReportedUse } from './redis-usage.ts'

/**
 * The store for many machines: a Redis 5 or later, or a Valkey. The day is that of Redis's own clock; tests replace the
 * clock by `testTime`.
 */
export const openRedisStore = async (address: RedisAddress, clock: Clock, testTime?: TestTime): Promise<Store> => {
  const redis = new RedisConnection(address, clock)
  await redis.open()
  let warnings: readonly string[]
  try {
    await checkRights(redis)
    await checkVersion(redis, address)
    await checkEvictionPolicy(redis, address)
    warnings = await persistenceWarnings(redis, address)
  } catch (error) {
    await redis.close()
    throw error
  }
  const dayClock = openRedisDayClock(clock, testTime)
  const changeFeed = openChangeFeed(address, clock)
  return {
    warnings,
    ...redisAccountStore(redis, changeFeed),
    ...redisLedgerStore(redis, dayClock),
    ...redisUsageStore(redis, dayClock),
    ...copyableRedis(redis, dayClock),
    ...redisRecordStore(redis, clock, testTime),
    async close() {
      await Promise.all([redis.close(), changeFeed.close()])
    },
  }
}

/** A script that fails in the middle leaves what it has written: an account, say, of which the command says that it was not added. */
const checkRights = (redis: RedisConnection): Promise<unknown> => redis.runScript(publishNothing, [], [rightsChannel])

const checkVersion = async (redis: RedisConnection, address: RedisAddress): Promise<void> => {
  await redis.sendCommand('SETNX', redisKeys.version, String(layoutVersion))
  const found = await redis.sendCommand('GET', redisKeys.version)
  if (found === String(layoutVersion)) return
  throw new StoreError(
    `the store in redis at ${address.url} has version ${String(found)}, and this Tollgate reads version ${layoutVersion}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another database',
  )
}

/** Without writing anything. Nothing when Redis cannot be read: it may be unreachable from this machine. */
export const inspectRedisStore = async (address: RedisAddress, clock: Clock): Promise<StoreContents> => {
  const redis = new RedisConnection(address, clock)
  try {
    await redis.open()
    const [accounts, hasKeyRates] = [await readAccountRows(redis), await findKeyRate(redis)]
    return { accounts, hasKeyRates, warnings: await persistenceWarnings(redis, address) }
  } catch {
    return { accounts: [], hasKeyRates: false, warnings: [] }
  } finally {
    await redis.close()
  }
}

/** Credits whose lease Redis evicts would be served twice. */
const checkEvictionPolicy = async (redis: RedisConnection, address: RedisAddress): Promise<void> => {
  // Not every provider allows INFO.
  const info = String(await redis.sendCommand('INFO', 'memory').catch(() => ''))
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction'
  if (policy === 'noeviction' || /^maxmemory:0\r?$/m.test(info)) return
  throw new StoreError(
    `redis at ${address.url} would drop balances and keys when its memory is full: ` +
      `set its maxmemory-policy to noeviction (it is ${policy})`,
  )
}

const persistenceWarnings = async (redis: RedisConnection, { url }: RedisAddress): Promise<readonly string[]> => {
  // Not every provider allows INFO.
  const info = String(await redis.sendCommand('INFO', 'persistence').catch(() => ''))
  if (!/^aof_enabled:0\r?$/m.test(info)) return []
  return [
    `redis at ${url} has \`appendonly no\`: a restart loses accounts, keys and balances since its last snapshot; set \`appendonly yes\``,
  ]
}

const copyableRedis = (redis: RedisConnection, dayClock: RedisDayClock): Copyable => ({
  countLiveProcesses: async () => (await listLiveProcesses(redis, dayClock)).processes.length,
  hashedKeys: account => hashedKeys(redis, account),
  dayRecords: (account, day) => readLedgerDay(redis, account, day),
  restoreReportedUse: (account, day, process, use) => restoreReportedUse(redis, dayClock, { account, day, process }, use),
  async *allUsageCounts(hours) {
    const range = hours === undefined ? ['-inf', '+inf'] : [String(hours.from), `(${hours.to}`]
    for (const member of (await redis.sendCommand('ZRANGEBYSCORE', redisKeys.hoursOfAllAccounts, ...range)) as string[]) {
      const { account, hour } = parseHourMember(member)
      yield* parseHourCounts(account, hour, await redis.sendCommand('HGETALL', redisKeys.usage(account, hour)))
    }
  },
})

/** Whether a record has expired is decided by the clock of the gateway, when the record is read. */
const redisRecordStore = (redis: RedisConnection, clock: Clock, testTime: TestTime | undefined): RecordStore => {
  const { now } = testTime ?? clock
  /** `replace`: only where the record is as it was found. */
  const write = async (kind: RecordKind, record: StoredRecord, mode: 'put' | 'add' | 'replace', found = record): Promise<boolean> => {
    const { id, account, expires } = record
    const keys = [redisKeys.record(kind, id), redisKeys.recordsOfAccount(kind, account), redisKeys.recordExpiry]
    const redisTime = testTime === undefined ? '' : String(testTime.now())
    const args = [kind, id, JSON.stringify(record), String(expires), mode, String(now()), JSON.stringify(found), redisTime]
    return (await redis.runScript(putRecord, keys, args)) === 1
  }
  /** Throws for the record of another id: with the reply to another command, a caller would get the session of somebody else. */
  const parseRecord = (text: string | null | undefined, id: string): StoredRecord | undefined => {
    if (text == null) return undefined
    const record = JSON.parse(text) as StoredRecord // written by this program
    if (record.id !== id) throw outOfSyncError()
    return record
  }
  const readAll = async (kind: RecordKind, ids: readonly string[]): Promise<readonly (StoredRecord | undefined)[]> => {
    const texts = (await redis.sendCommand('MGET', ...ids.map(id => redisKeys.record(kind, id)))) as (string | null)[]
    return ids.map((id, i) => unexpired(parseRecord(texts[i], id), now()))
  }
  return {
    async putRecord(kind, record) {
      await write(kind, record, 'put')
    },
    addRecord: (kind, record) => write(kind, record, 'add'),
    replaceRecord: (kind, found, value, expires = found.expires) => write(kind, { ...found, value, expires }, 'replace', found),
    async findRecord(kind, id) {
      return (await readAll(kind, [id]))[0]
    },
    async takeRecord(kind, id) {
      const record = parseRecord((await redis.runScript(takeRecord, [redisKeys.record(kind, id)], [])) as string | null, id)
      if (record === undefined) return undefined
      await redis.sendCommand('ZREM', redisKeys.recordsOfAccount(kind, record.account), id)
      return unexpired(record, now())
    },
    async records(kind, account) {
      const ids = (await redis.sendCommand('ZRANGEBYSCORE', redisKeys.recordsOfAccount(kind, account), `(${now()}`, '+inf')) as string[]
      if (ids.length === 0) return []
      const found = await readAll(kind, ids.sort())
      return found.filter(record => record !== undefined)
    },
  }
}
