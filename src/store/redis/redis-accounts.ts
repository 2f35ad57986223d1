import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import { StoreError, applyChange } from '../store.ts'
import type { AccountRow, AccountStore, HashedKey, KeyRow, KeyWithAccount } from '../store.ts'
import { RedisConnection } from './redis-connection.ts'
import { outOfSyncError } from './redis-errors.ts'
import { changesChannelOf, redisKeys } from './redis-layout.ts'
import { dropLedger } from './redis-ledger.ts'
import * as scripts from './redis-scripts.ts'

/** Rows are JSON of these types, written by this program. */
export const redisAccountStore = (redis: RedisConnection, changeFeed: ChangeFeed): AccountStore => {
  const rows = openRows(redis, changeFeed)
  const changeCount = openChangeCount(redis)
  return {
    subscribe: changeFeed.subscribe,
    changeCount,
    ...accountRows(redis, rows),
    ...keyRows(redis, rows, changeCount),
  }
}

/**
 * Fails while Redis does not have the accounts and keys that it had, until it has some again: it has restarted without its data, or an empty
 * replica has been promoted. Such a Redis would say of every key that it is unknown.
 */
const openChangeCount = (redis: RedisConnection) => {
  let hasChanges = false
  return async (): Promise<number> => {
    const count = (await redis.sendCommand('GET', redisKeys.changes)) as string | null
    if (count === null && hasChanges) throw new StoreError('redis has lost its accounts and keys: restore them, or add them anew')
    if (count !== null) hasChanges = true
    return Number(count)
  }
}

type Rows = ReturnType<typeof openRows>

const openRows = (redis: RedisConnection, { channel, publisherId, notify }: ChangeFeed) => {
  const runChange = async (script: scripts.Script, scriptKeys: readonly string[], args: readonly string[]): Promise<boolean> => {
    const isDone = (await redis.runScript(script, [...scriptKeys, redisKeys.changes], [...args, channel, publisherId])) === 1
    if (isDone) notify()
    return isDone
  }
  const rowAt = async (key: string, field: string) => (await redis.sendCommand('HGET', key, field)) as string | null

  /** Undefined when there is no row; else the new row. `edit` returns the row itself to leave it unchanged. */
  const updateRow = async <T>(key: string, field: string, edit: (row: T) => T): Promise<T | undefined> => {
    for (;;) {
      const text = await rowAt(key, field)
      if (text === null) return undefined
      const row = JSON.parse(text) as T
      const updated = edit(row)
      if (updated === row) return row
      if (await runChange(scripts.replaceRow, [key], [field, text, JSON.stringify(updated)])) return updated
    }
  }
  return { runChange, rowAt, updateRow }
}

const accountRows = (redis: RedisConnection, { runChange, rowAt, updateRow }: Rows) => {
  const accountById = async (id: string) => parseRow<AccountRow>(await rowAt(redisKeys.accounts, id))
  return {
    addAccount: row => runChange(scripts.addAccount, [redisKeys.names, redisKeys.accounts], [row.name, row.id, JSON.stringify(row)]),
    changeAccount: (id, change) => updateRow<AccountRow>(redisKeys.accounts, id, row => applyChange(row, change)),
    async removeAccount(id, deleteAt) {
      const scriptKeys = [redisKeys.names, redisKeys.accounts, redisKeys.keys, redisKeys.keyIds, redisKeys.keysOfAccount(id)]
      for (;;) {
        const text = await rowAt(redisKeys.accounts, id)
        const row = parseRow<AccountRow>(text)
        if (text === null || row?.deleteAt !== deleteAt) return false
        // The ledger first: a removal that is cut off is done again only while the account is there. No day of it counts, as it has been
        // suspended for a week.
        const keyIds = (await hashedKeys(redis, id)).map(({ key }) => key.id)
        await Promise.all([id, ...keyIds].map(each => dropLedger(redis, each)))
        if (await runChange(scripts.removeAccount, scriptKeys, [row.name, id, text])) return true
      }
    },
    async account(idOrName) {
      const found = await accountById(idOrName)
      if (found !== undefined) return found
      const id = await rowAt(redisKeys.names, idOrName)
      return id === null ? undefined : accountById(id)
    },
    async accounts() {
      return (await readAccountRows(redis)).sort((a, b) => (a.name < b.name ? -1 : 1))
    },
  } satisfies Partial<AccountStore>
}

const keyRows = (redis: RedisConnection, { runChange, rowAt, updateRow }: Rows, changeCount: () => Promise<number>) => {
  /** Of a key that Redis does not have. Fails when Redis has lost all keys. */
  const unknownKey = async (): Promise<undefined> => void (await changeCount())
  const updateKey = async (id: string, edit: (row: KeyRow) => KeyRow) => {
    const hash = await rowAt(redisKeys.keyIds, id)
    return hash === null ? undefined : updateRow<KeyRow>(redisKeys.keys, hash, edit)
  }
  const findKey = async (hash: string): Promise<KeyWithAccount | undefined> => {
    const reply = await redis.runScript(scripts.findKey, [redisKeys.keys, redisKeys.accounts], [hash])
    const [foundHash, ...rows] = Array.isArray(reply) ? (reply as (string | null)[]) : []
    // With the reply to another look-up, the caller would use the account of somebody else.
    if (foundHash !== hash) throw outOfSyncError()
    const [key, account] = rows.map(parseRow)
    return key && account ? ({ key, account } as KeyWithAccount) : unknownKey()
  }
  return {
    async addKey(hash, row) {
      const scriptKeys = [redisKeys.keys, redisKeys.keyIds, redisKeys.keysOfAccount(row.account)]
      await runChange(scripts.addKey, scriptKeys, [hash, JSON.stringify(row), row.id])
    },
    changeKey: (id, change) => updateKey(id, row => applyChange(row, change)),
    revokeKey: (id, time) => updateKey(id, row => (row.revoked === undefined ? { ...row, revoked: time } : row)),
    async keys(account) {
      const rows = (await hashedKeys(redis, account)).map(({ key }) => key)
      return rows.sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))
    },
    findKey,
    async findKeyById(id) {
      const hash = await rowAt(redisKeys.keyIds, id)
      const found = await (hash === null ? unknownKey() : findKey(hash))
      if (found !== undefined && found.key.id !== id) throw outOfSyncError()
      return found
    },
  } satisfies Partial<AccountStore>
}

/** An account's keys, in any order. */
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

export const readAccountRows = async (redis: RedisConnection): Promise<AccountRow[]> => {
  const texts = (await redis.sendCommand('HVALS', redisKeys.accounts)) as string[]
  return texts.map(text => JSON.parse(text) as AccountRow)
}

/** Does a key have a rate of its own? Read in parts: a store may have very many keys. */
export const findKeyRate = async (redis: RedisConnection): Promise<boolean> => {
  let cursor = '0'
  do {
    const [next, fields] = (await redis.sendCommand('HSCAN', redisKeys.keys, cursor, 'COUNT', '1000')) as [string, string[]]
    const rows = fields.filter((_, i) => i % 2 === 1)
    if (rows.some(text => parseRow<KeyRow>(text)?.rate !== undefined)) return true
    cursor = next
  } while (cursor !== '0')
  return false
}

/** Notifies of changes of accounts and keys, in this process and in all others. */
interface ChangeFeed extends Pick<AccountStore, 'subscribe'> {
  readonly channel: string
  /** Identifies the messages of this process, which it need not receive. */
  readonly publisherId: string
  /** Notifies the subscribers in this process. */
  notify(): void
  close(): Promise<void>
}

/** Connects at the first subscription. Changes that are missed while the connection is lost are made up for by one notification. */
export const openChangeFeed = (address: RedisAddress, clock: Clock): ChangeFeed => {
  const channel = changesChannelOf(address)
  const publisherId = randomBytes(8).toString('hex')
  const listeners = new Set<() => void>()
  const notify = () => {
    for (const onChange of listeners) onChange()
  }
  let connection: RedisConnection | undefined

  const onMessage = (publisher: string) => {
    if (publisher !== publisherId) notify()
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
    subscribe(onChange) {
      connection ??= connect()
      listeners.add(onChange)
      return () => {
        listeners.delete(onChange)
      }
    },
    close: async () => connection?.close(),
  }
}
