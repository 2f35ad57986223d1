import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Database } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import { createSemaphore } from '../../util/async.ts'
import { readAccounts, scanKeys } from '../accounts.ts'
import { openEngineStore } from '../engine-store.ts'
import { StoreError } from '../store.ts'
import type { Store, StoreContents } from '../store.ts'
import { assertIntactFiles, prepareDataFolder } from './data-folder.ts'
import { FolderWatch } from './folder-watch.ts'
import { openLmdbEngine, scanSource } from './lmdb-engine.ts'
import { openEnvironment, openRows, readEnvironment } from './lmdb-environment.ts'
import { toStoreError, Transactions } from './transactions.ts'

/**
 * The embedded store: a folder that several processes of one machine open at once. Reads are synchronous; writes run on
 * their own thread and resolve when they are on disk.
 */
export const openLmdbStore = (path: string, clock: Clock): Promise<Store> => oneAtATime(() => openFolder(path, clock))

/** The folder is examined while no other open() of this process is under way: assertNotLocked() says why. */
const oneAtATime = createSemaphore(1)

const openFolder = async (path: string, clock: Clock): Promise<Store> => {
  await prepareDataFolder(path)
  const environment = openEnvironment(path)
  const watch = new FolderWatch(path, clock)
  const transactions = new Transactions(environment, path, watch)
  try {
    // A table is created once, which needs room on the disk. A folder of another version gets none.
    if (environment.rows === undefined) {
      await checkVersion(environment.root.openDB<number, string>({ name: 'meta' }), transactions, path)
      environment.rows = openRows(environment.root)
    }
    return openEngineStore(openLmdbEngine(environment.rows, transactions, clock), clock)
  } catch (error) {
    await transactions.close()
    throw await toStoreError(error, path)
  }
}

/** Incremented when an older Tollgate would misread the rows. */
const schemaVersion = 1

const checkVersion = async (meta: Database<number, string>, transactions: Transactions, path: string): Promise<void> => {
  const found =
    meta.get('version') ??
    (await transactions.run(() => {
      const first = meta.get('version')
      if (first === undefined) meta.put('version', schemaVersion)
      return first ?? schemaVersion
    }))
  if (found === schemaVersion) return
  throw new StoreError(
    `the store in ${path} has version ${found}, and this Tollgate reads version ${schemaVersion}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another folder',
  )
}

/** The accounts in a folder, opened read-only. None when the folder has no store. */
export const inspectLmdbStore = async (path: string): Promise<StoreContents> => {
  const nothing = { accounts: [], hasKeyRates: false, warnings: [] }
  // LMDB creates a missing lock file, for readers too.
  if (!['data.mdb', 'lock.mdb'].every(file => existsSync(join(path, file)))) return nothing
  try {
    await assertIntactFiles(path)
    return await readEnvironment(path, async root => {
      const source = scanSource(openRows(root))
      const accounts = await readAccounts(source)
      let hasKeyRates = false
      for await (const { rate } of scanKeys(source)) hasKeyRates ||= rate !== undefined
      return { accounts, hasKeyRates, warnings: [] }
    })
  } catch {
    return nothing
  }
}
