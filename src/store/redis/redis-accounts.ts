import { applyChange } from '../apply-change.ts'
import type { AccountRow, AccountStore, HashedKey, KeyWithAccount, KeyRow } from '../store.ts'
import type { RedisConnection } from './redis-connection.ts'
import { redisKeys, changesChannel } from './redis-layout.ts'
import type { ChangeFeed } from './change-feed.ts'
import * as scripts from './redis-scripts.ts'
import type { Script } from './redis-scripts.ts'

/** Rows are read as this very program has written them: JSON of these types. */
export const redisAccountStore = (redis: RedisConnection, { subscribe, publisherId, notify }: ChangeFeed): AccountStore => {
  const runChange = async (script: Script, keysOfScript: readonly string[], args: readonly string[]): Promise<boolean> => {
    const isDone = (await redis.runScript(script, [...keysOfScript, redisKeys.changes], [...args, changesChannel, publisherId])) === 1
    if (isDone) notify()
    return isDone
  }
  const rowAt = async (key: string, field: string) => (await redis.sendCommand('HGET', key, field)) as string | null

  const accountById = async (id: string) => parseRow<AccountRow>(await rowAt(redisKeys.accounts, id))

  /** Undefined when there is no row; else the row as it is afterwards. `next` gives the row itself to leave it. */
  const updateRow = async <T>(key: string, field: string, next: (row: T) => T): Promise<T | undefined> => {
    for (;;) {
      const text = await rowAt(key, field)
      if (text === null) return undefined
      const row = JSON.parse(text) as T
      const updated = next(row)
      if (updated === row) return row
      if (await runChange(scripts.replaceRow, [key], [field, text, JSON.stringify(updated)])) return updated
    }
  }
  const updateKey = async (id: string, next: (row: KeyRow) => KeyRow) => {
    const hash = await rowAt(redisKeys.keyIds, id)
    return hash === null ? undefined : updateRow<KeyRow>(redisKeys.keys, hash, next)
  }

  return {
    subscribe,
    changeCount: async () => Number((await redis.sendCommand('GET', redisKeys.changes)) ?? 0),
    addAccount: row => runChange(scripts.addAccount, [redisKeys.names, redisKeys.accounts], [row.name, row.id, JSON.stringify(row)]),
    changeAccount: (id, wish) => updateRow<AccountRow>(redisKeys.accounts, id, row => applyChange(row, wish)),
    async account(idOrName) {
      const found = await accountById(idOrName)
      if (found !== undefined) return found
      const id = await rowAt(redisKeys.names, idOrName)
      return id === null ? undefined : accountById(id)
    },
    async accounts() {
      const rows = ((await redis.sendCommand('HVALS', redisKeys.accounts)) as string[]).map(text => JSON.parse(text) as AccountRow)
      return rows.sort((a, b) => (a.name < b.name ? -1 : 1))
    },
    async addKey(hash, row) {
      const at = [redisKeys.keys, redisKeys.keyIds, redisKeys.keysOfAccount(row.account)]
      await runChange(scripts.addKey, at, [hash, JSON.stringify(row), row.id])
    },
    changeKey: (id, wish) => updateKey(id, row => applyChange(row, wish)),
    revokeKey: (id, time) => updateKey(id, row => (row.revoked === undefined ? { ...row, revoked: time } : row)),
    async keys(account) {
      const rows = (await hashedKeys(redis, account)).map(({ key }) => key)
      return rows.sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))
    },
    async findKey(hash) {
      const [key, account] = (
        (await redis.runScript(scripts.findKey, [redisKeys.keys, redisKeys.accounts], [hash])) as (string | null)[]
      ).map(parseRow)
      return key && account ? ({ key, account } as KeyWithAccount) : undefined
    },
  }
}

/** An account's keys with the hashes of their texts, in any order. */
export const hashedKeys = async (redis: RedisConnection, account: string): Promise<readonly HashedKey[]> => {
  const hashes = (await redis.sendCommand('SMEMBERS', redisKeys.keysOfAccount(account))) as string[]
  if (hashes.length === 0) return []
  const rows = (await redis.sendCommand('HMGET', redisKeys.keys, ...hashes)) as (string | null)[]
  return hashes.flatMap((hash, i) => {
    const key = parseRow<KeyRow>(rows[i] ?? null)
    return key === undefined ? [] : [{ hash, key }]
  })
}

const parseRow = <T>(text: string | null): T | undefined => (text === null ? undefined : (JSON.parse(text) as T))
