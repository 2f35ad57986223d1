import { open } from 'lmdb'
import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import { lmdbAccountStore } from './lmdb-accounts.ts'
import { Transactions } from './transactions.ts'
import { lmdbCopySource } from './lmdb-copy-source.ts'
import { prepareDataFolder } from './data-folder.ts'
import { lmdbLedgerStore } from './lmdb-ledger.ts'
import { lmdbUsageStore } from './lmdb-usage.ts'
import { StoreError } from '../store.ts'
import type { Store } from '../store.ts'

/**
 * The embedded store: a folder that several processes of one machine open at once. Reads answer at once; writes happen
 * on a thread of their own and resolve when they are on disk.
 */
export const openLmdbStore = async (path: string, clock: Clock): Promise<Store> => {
  await prepareDataFolder(path)
  const root = openEnvironment(path)
  const commits = new Transactions(root, path)
  await checkVersion(root.openDB<number, string>({ name: 'meta' }), commits, path)
  return {
    ...lmdbAccountStore(root, commits),
    ...lmdbLedgerStore(root, commits, clock),
    ...lmdbUsageStore(root, commits, clock),
    ...lmdbCopySource(root, clock),
    close: () => commits.close(),
  }
}

/** Changes when rows change so that an older Tollgate would misread them. */
const schemaVersion = 1

const openEnvironment = (path: string): RootDatabase => {
  try {
    return open({
      path,
      // A dot in the folder's name would otherwise make it a file.
      noSubdir: false,
      maxDbs: 32,
      // Rows stay readable with any LMDB tool.
      encoding: 'json',
      // A commit resolves when it is on disk. With overlapping syncs none was faster, and close() hung on a full disk.
      overlappingSync: false,
      // Batching leaves a promise behind that nobody can catch: on a full disk it would end the process.
      eventTurnBatching: false,
    })
  } catch (cause) {
    throw new StoreError(`cannot open the store in ${path}: ${(cause as Error).message}`, { cause })
  }
}

const checkVersion = async (meta: Database<number, string>, commits: Transactions, path: string): Promise<void> => {
  const found =
    meta.get('version') ??
    (await commits.run(() => {
      const first = meta.get('version')
      if (first === undefined) meta.put('version', schemaVersion)
      return first ?? schemaVersion
    }))
  if (found === schemaVersion) return
  await commits.close()
  throw new StoreError(
    `the store in ${path} has version ${found}, and this Tollgate reads version ${schemaVersion}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another folder',
  )
}
