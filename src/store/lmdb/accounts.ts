import type { RootDatabase } from 'lmdb'
import { changed } from '../change.ts'
import type { AccountRow, AccountStore, KeyRow } from '../store.ts'
import type { Commits } from './commits.ts'

export const accountsIn = (root: RootDatabase, commits: Commits): AccountStore => {
  const accounts = root.openDB<AccountRow, string>({ name: 'accounts' })
  const accountIds = root.openDB<string, string>({ name: 'account-names' })
  const keys = root.openDB<KeyRow, string>({ name: 'keys' })
  const hashes = root.openDB<string, string>({ name: 'key-ids' })
  const hashesOf = root.openDB<string, [string, number, string]>({ name: 'account-keys' })
  const { watch, change, changes } = watched(root, commits)

  const account = (id: string | undefined) => (id ? accounts.get(id) : undefined)
  const key = (hash: string | undefined) => (hash ? keys.get(hash) : undefined)

  const editKey = (id: string, edit: (row: KeyRow) => KeyRow) =>
    change(() => {
      const hash = hashes.get(id)
      const row = key(hash)
      if (hash === undefined || row === undefined) return undefined
      const next = edit(row)
      if (next !== row) keys.put(hash, next)
      return next
    })

  return {
    watch,
    changes,
    addAccount: row =>
      change(() => {
        if (accountIds.get(row.name) !== undefined) return false
        accounts.put(row.id, row)
        accountIds.put(row.name, row.id)
        return true
      }),
    changeAccount: (id, wish) =>
      change(() => {
        const row = account(id)
        if (row === undefined) return undefined
        const next = changed(row, wish)
        accounts.put(id, next)
        return next
      }),
    account: idOrName => account(idOrName) ?? account(accountIds.get(idOrName)),
    accounts: () => Array.from(accountIds.getRange(), ({ value }) => account(value)).filter(row => row !== undefined),
    addKey: (hash, row) =>
      change(() => {
        keys.put(hash, row)
        hashes.put(row.id, hash)
        hashesOf.put([row.account, row.created, row.id], hash)
      }),
    changeKey: (id, wish) => editKey(id, row => changed(row, wish)),
    revokeKey: (id, time) => editKey(id, row => (row.revoked === undefined ? { ...row, revoked: time } : row)),
    keys: id =>
      Array.from(hashesOf.getRange({ start: [id], end: [id, Infinity] }), ({ value }) => key(value)).filter(row => row !== undefined),
    holder(hash) {
      const found = key(hash)
      const owner = account(found?.account)
      return found && owner && { key: found, account: owner }
    },
  }
}

/** Tells listeners of this process. That other processes changed something is found by looking how many changes there were. */
const watched = (root: RootDatabase, commits: Commits) => {
  const meta = root.openDB<number, string>({ name: 'meta' })
  const listeners = new Set<() => void>()
  const changes = (): number => meta.get('changes') ?? 0
  return {
    changes,
    watch(listener: () => void) {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    async change<T>(step: () => T): Promise<T> {
      const result = await commits.run(() => {
        const done = step()
        meta.put('changes', changes() + 1)
        return done
      })
      for (const tell of listeners) tell()
      return result
    },
  }
}
