import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { applyChange } from '../store.ts'
import type { AccountStore, HashedKey, KeyRow, StoreContents } from '../store.ts'
import { assertIntactFiles } from './data-folder.ts'
import { readEnvironment } from './lmdb-environment.ts'
import { openAccountsTable, openKeysTable } from './lmdb-tables.ts'
import type { LmdbTables } from './lmdb-tables.ts'
import type { Transactions } from './transactions.ts'

export const lmdbAccountStore = (tables: LmdbTables, transactions: Transactions): AccountStore => {
  const { change, ...changes } = openChangeCounter(tables, transactions)
  return { ...changes, ...accountRows(tables, change), ...keyRows(tables, change) }
}

/** Runs `write` as one transaction that counts as a change. */
type RunWrite = <T>(write: () => T) => Promise<T>

const accountRows = (tables: LmdbTables, change: RunWrite) => {
  const { accounts, accountIdsByName } = tables
  const account = (id: string | undefined) => (id ? accounts.get(id) : undefined)
  return {
    addAccount: row =>
      change(() => {
        if (accountIdsByName.get(row.name) !== undefined) return false
        accounts.put(row.id, row)
        accountIdsByName.put(row.name, row.id)
        return true
      }),
    changeAccount: (id, accountChange) =>
      change(() => {
        const row = account(id)
        if (row === undefined) return undefined
        const changed = applyChange(row, accountChange)
        accounts.put(id, changed)
        return changed
      }),
    removeAccount: (id, deleteAt) =>
      change(() => {
        const row = account(id)
        if (row?.deleteAt !== deleteAt) return false
        for (const hashed of hashedKeys(tables, id)) removeKey(tables, hashed)
        accountIdsByName.remove(row.name)
        accounts.remove(id)
        return true
      }),
    account: idOrName => account(idOrName) ?? account(accountIdsByName.get(idOrName)),
    accounts: () => Array.from(accountIdsByName.getRange(), ({ value }) => account(value)).filter(row => row !== undefined),
  } satisfies Partial<AccountStore>
}

const keyRows = (tables: LmdbTables, change: RunWrite) => {
  const { accounts, keys, keyHashesById, keyHashesByAccount } = tables
  const editKey = (id: string, edit: (row: KeyRow) => KeyRow) =>
    change(() => {
      const hash = keyHashesById.get(id)
      const row = hash && keys.get(hash)
      if (!hash || !row) return undefined
      const edited = edit(row)
      if (edited !== row) keys.put(hash, edited)
      return edited
    })

  const findKey = (hash: string) => {
    const key = keys.get(hash)
    const account = key && accounts.get(key.account)
    return key && account && { key, account }
  }
  return {
    addKey: (hash, row) =>
      change(() => {
        keys.put(hash, row)
        keyHashesById.put(row.id, hash)
        keyHashesByAccount.put([row.account, row.created, row.id], hash)
      }),
    changeKey: (id, keyChange) => editKey(id, row => applyChange(row, keyChange)),
    revokeKey: (id, time) => editKey(id, row => (row.revoked === undefined ? { ...row, revoked: time } : row)),
    keys: id => hashedKeys(tables, id).map(({ key }) => key),
    findKey,
    findKeyById(id) {
      const hash = keyHashesById.get(id)
      return hash === undefined ? undefined : findKey(hash)
    },
  } satisfies Partial<AccountStore>
}

const removeKey = ({ keys, keyHashesById, keyHashesByAccount }: LmdbTables, { hash, key }: HashedKey): void => {
  keys.remove(hash)
  keyHashesById.remove(key.id)
  keyHashesByAccount.remove([key.account, key.created, key.id])
}

/** An account's keys in the order of their creation. */
export const hashedKeys = ({ keys, keyHashesByAccount }: LmdbTables, account: string): readonly HashedKey[] =>
  [...keyHashesByAccount.getRange({ start: [account], end: [account, Infinity] })].flatMap(({ value: hash }) => {
    const key = keys.get(hash)
    return key === undefined ? [] : [{ hash, key }]
  })

/** Notifies the subscribers of this process. Changes of other processes are found by the change count. */
const openChangeCounter = ({ meta }: LmdbTables, transactions: Transactions) => {
  const listeners = new Set<() => void>()
  const changeCount = (): number => meta.get('changes') ?? 0
  return {
    changeCount,
    subscribe(onChange: () => void) {
      listeners.add(onChange)
      return () => {
        listeners.delete(onChange)
      }
    },
    async change<T>(write: () => T): Promise<T> {
      const result = await transactions.run(() => {
        const value = write()
        meta.put('changes', changeCount() + 1)
        return value
      })
      for (const onChange of listeners) onChange()
      return result
    },
  }
}

/** The accounts in a folder, opened read-only. None when the folder has no store. */
export const inspectLmdbStore = async (path: string): Promise<StoreContents> => {
  const nothing = { accounts: [], hasKeyRates: false, warnings: [] }
  // LMDB creates a missing lock file, for readers too.
  if (!['data.mdb', 'lock.mdb'].every(file => existsSync(join(path, file)))) return nothing
  try {
    await assertIntactFiles(path)
    return await readEnvironment(path, root => {
      const accounts = Array.from(openAccountsTable(root).getRange(), ({ value }) => value)
      let hasKeyRates = false
      for (const { value } of openKeysTable(root).getRange()) hasKeyRates ||= value.rate !== undefined
      return { accounts, hasKeyRates, warnings: [] }
    })
  } catch {
    return nothing
  }
}
