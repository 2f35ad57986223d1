import { neverExpires } from '../record-store.ts'
import type { RecordKind, RecordStore, StoredRecord } from '../record-store.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys } from './redis-layout.ts'
import { putRecord, takeRecord } from './redis-scripts.ts'

/** Redis drops expired records by itself; their ids are dropped with the next write for the account. */
export const redisRecordStore = (redis: RedisConnection, now: () => number): RecordStore => {
  const write = async (kind: RecordKind, record: StoredRecord, mode: 'replace' | 'add'): Promise<boolean> => {
    const ttlMs = record.expires === neverExpires ? 0 : Math.max(1, Math.ceil(record.expires - now()))
    const keys = [redisKeys.record(kind, record.id), redisKeys.recordsOfAccount(kind, record.account)]
    return (await redis.runScript(putRecord, keys, [record.id, JSON.stringify(record), String(ttlMs), mode, String(now())])) === 1
  }
  const readAll = async (keys: readonly string[]): Promise<readonly (StoredRecord | undefined)[]> => {
    const texts = (await redis.sendCommand('MGET', ...keys)) as (string | null)[]
    return texts.map(text => {
      const record = text === null ? undefined : (JSON.parse(text) as StoredRecord) // written by this program
      return record !== undefined && record.expires > now() ? record : undefined
    })
  }
  return {
    async putRecord(kind, record) {
      await write(kind, record, 'replace')
    },
    addRecord: (kind, record) => write(kind, record, 'add'),
    async findRecord(kind, id) {
      return (await readAll([redisKeys.record(kind, id)]))[0]
    },
    async takeRecord(kind, id) {
      const text = (await redis.runScript(takeRecord, [redisKeys.record(kind, id)], [])) as string | null
      const record = text === null ? undefined : (JSON.parse(text) as StoredRecord) // written by this program
      if (record === undefined) return undefined
      await redis.sendCommand('ZREM', redisKeys.recordsOfAccount(kind, record.account), id)
      return record.expires > now() ? record : undefined
    },
    async records(kind, account) {
      const ids = (await redis.sendCommand('ZRANGEBYSCORE', redisKeys.recordsOfAccount(kind, account), `(${now()}`, '+inf')) as string[]
      if (ids.length === 0) return []
      const found = await readAll(ids.sort().map(id => redisKeys.record(kind, id)))
      return found.filter(record => record !== undefined)
    },
  }
}
