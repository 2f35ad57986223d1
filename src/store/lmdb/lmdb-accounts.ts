import type { RootDatabase } from 'lmdb'
import { applyChange } from '../apply-change.ts'
import type { AccountRow, AccountStore, KeyRow } from '../store.ts'
import type { Transactions } from './transactions.ts'

export const lmdbAccountStore = (root: RootDatabase, transactions: Transactions): AccountStore => {
  const accounts = root.openDB<AccountRow, string>({ name: 'accounts' })
  const idsByName = root.openDB<string, string>({ name: 'account-names' })
  const keys = root.openDB<KeyRow, string>({ name: 'keys' })
  const hashesById = root.openDB<string, string>({ name: 'key-ids' })
  const hashesByAccount = root.openDB<string, [string, number, string]>({ name: 'account-keys' })
  const { watch, change, changes } = openChangeCounter(root, transactions)

  const account = (id: string | undefined) => (id ? accounts.get(id) : undefined)
  const key = (hash: string | undefined) => (hash ? keys.get(hash) : undefined)

  const editKey = (id: string, edit: (row: KeyRow) => KeyRow) =>
    change(() => {
      const hash = hashesById.get(id)
      const row = key(hash)
      if (hash === undefined || row === undefined) return undefined
      const next = edit(row)
      if (next !== row) keys.put(hash, next)
      return next
    })

  return {
    subscribe: watch,
    changeCount: changes,
    addAccount: row =>
      change(() => {
        if (idsByName.get(row.name) !== undefined) return false
        accounts.put(row.id, row)
        idsByName.put(row.name, row.id)
        return true
      }),
    changeAccount: (id, wish) =>
      change(() => {
        const row = account(id)
        if (row === undefined) return undefined
        const next = applyChange(row, wish)
        accounts.put(id, next)
        return next
      }),
    account: idOrName => account(idOrName) ?? account(idsByName.get(idOrName)),
    accounts: () => Array.from(idsByName.getRange(), ({ value }) => account(value)).filter(row => row !== undefined),
    addKey: (hash, row) =>
      change(() => {
        keys.put(hash, row)
        hashesById.put(row.id, hash)
        hashesByAccount.put([row.account, row.created, row.id], hash)
      }),
    changeKey: (id, wish) => editKey(id, row => applyChange(row, wish)),
    revokeKey: (id, time) => editKey(id, row => (row.revoked === undefined ? { ...row, revoked: time } : row)),
    keys: id =>
      Array.from(hashesByAccount.getRange({ start: [id], end: [id, Infinity] }), ({ value }) => key(value)).filter(
        row => row !== undefined,
      ),
    findKey(hash) {
      const found = key(hash)
      const owner = account(found?.account)
      return found && owner && { key: found, account: owner }
    },
  }
}

/** Tells listeners of this process. That other processes changed something is found by looking how many changes there were. */
const openChangeCounter = (root: RootDatabase, transactions: Transactions) => {
  const meta = root.openDB<number, string>({ name: 'meta' })
  const listeners = new Set<() => void>()
  const changes = (): number => meta.get('changes') ?? 0
  return {
    changes,
    watch(onChange: () => void) {
      listeners.add(onChange)
      return () => {
        listeners.delete(onChange)
      }
    },
    async change<T>(write: () => T): Promise<T> {
      const result = await transactions.run(() => {
        const value = write()
        meta.put('changes', changes() + 1)
        return value
      })
      for (const onChange of listeners) onChange()
      return result
    },
  }
}
