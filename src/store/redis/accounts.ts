import { changed } from '../change.ts'
import type { AccountRow, AccountStore, HashedKey, Holder, KeyRow } from '../store.ts'
import type { Connection } from './connection.ts'
import { keys, news } from './layout.ts'
import type { News } from './news.ts'
import * as scripts from './scripts.ts'
import type { Script } from './scripts.ts'

/** Rows are read as this very program has written them: JSON of these types. */
export const accountsIn = (redis: Connection, { watch, teller, tell }: News): AccountStore => {
  const change = async (script: Script, at: readonly string[], words: readonly string[]): Promise<boolean> => {
    const isDone = (await redis.run(script, [...at, keys.changes], [...words, news, teller])) === 1
    if (isDone) tell()
    return isDone
  }
  const rowAt = async (key: string, field: string) => (await redis.send('HGET', key, field)) as string | null

  const accountById = async (id: string) => parse<AccountRow>(await rowAt(keys.accounts, id))

  /** Undefined when there is no row; else the row as it is afterwards. `next` gives the row itself to leave it. */
  const edit = async <T>(key: string, field: string, next: (row: T) => T): Promise<T | undefined> => {
    for (;;) {
      const text = await rowAt(key, field)
      if (text === null) return undefined
      const row = JSON.parse(text) as T
      const wanted = next(row)
      if (wanted === row) return row
      if (await change(scripts.replace, [key], [field, text, JSON.stringify(wanted)])) return wanted
    }
  }
  const editKey = async (id: string, next: (row: KeyRow) => KeyRow) => {
    const hash = await rowAt(keys.keyIds, id)
    return hash === null ? undefined : edit<KeyRow>(keys.keys, hash, next)
  }

  return {
    watch,
    changes: async () => Number((await redis.send('GET', keys.changes)) ?? 0),
    addAccount: row => change(scripts.addAccount, [keys.names, keys.accounts], [row.name, row.id, JSON.stringify(row)]),
    changeAccount: (id, wish) => edit<AccountRow>(keys.accounts, id, row => changed(row, wish)),
    async account(idOrName) {
      const found = await accountById(idOrName)
      if (found !== undefined) return found
      const id = await rowAt(keys.names, idOrName)
      return id === null ? undefined : accountById(id)
    },
    async accounts() {
      const rows = ((await redis.send('HVALS', keys.accounts)) as string[]).map(text => JSON.parse(text) as AccountRow)
      return rows.sort((a, b) => (a.name < b.name ? -1 : 1))
    },
    async addKey(hash, row) {
      const at = [keys.keys, keys.keyIds, keys.keysOf(row.account)]
      await change(scripts.addKey, at, [hash, JSON.stringify(row), row.id])
    },
    changeKey: (id, wish) => editKey(id, row => changed(row, wish)),
    revokeKey: (id, time) => editKey(id, row => (row.revoked === undefined ? { ...row, revoked: time } : row)),
    async keys(account) {
      const rows = (await hashedKeys(redis, account)).map(({ key }) => key)
      return rows.sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))
    },
    async holder(hash) {
      const [key, account] = ((await redis.run(scripts.holder, [keys.keys, keys.accounts], [hash])) as (string | null)[]).map(parse)
      return key && account ? ({ key, account } as Holder) : undefined
    },
  }
}

/** An account's keys with the hashes of their texts, in any order. */
export const hashedKeys = async (redis: Connection, account: string): Promise<readonly HashedKey[]> => {
  const hashes = (await redis.send('SMEMBERS', keys.keysOf(account))) as string[]
  if (hashes.length === 0) return []
  const rows = (await redis.send('HMGET', keys.keys, ...hashes)) as (string | null)[]
  return hashes.flatMap((hash, i) => {
    const key = parse<KeyRow>(rows[i] ?? null)
    return key === undefined ? [] : [{ hash, key }]
  })
}

const parse = <T>(text: string | null): T | undefined => (text === null ? undefined : (JSON.parse(text) as T))
