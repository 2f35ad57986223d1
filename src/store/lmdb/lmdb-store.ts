import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Database } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import type { Engine } from '../engine.ts'
import { openEngineStore } from '../engine-store.ts'
import { noContents, readContents } from '../store-contents.ts'
import { StoreError } from '../store.ts'
import type { Store, StoreContents } from '../store.ts'
import { assertIntactFiles, prepareDataFolder, readUsedShares } from './data-folder.ts'
import { FolderWatch } from './folder-watch.ts'
import { openLmdbEngine, scanSource } from './lmdb-engine.ts'
import { oneAtATime, openEnvironment, openRows, readEnvironment } from './lmdb-environment.ts'
import type { Rows } from './lmdb-environment.ts'
import { toStoreError, Transactions } from './transactions.ts'

/**
 * The embedded store: a folder that several processes of one machine open at once. Reads are synchronous; writes run on
 * their own thread and resolve when they are on disk.
 */
export const openLmdbFolder = async (path: string, clock: Clock): Promise<Engine> => {
  const transactions = await oneAtATime(async () => {
    await prepareDataFolder(path)
    const environment = await openEnvironment(path)
    return new Transactions(environment, path, new FolderWatch(path, clock))
  })
  try {
    const rows = await oneAtATime(() => openTables(transactions, path))
    return openLmdbEngine(rows, transactions, clock, () => readUsedShares(path))
  } catch (error) {
    await transactions.close()
    throw await toStoreError(error, path)
  }
}

export const openLmdbStore = async (path: string, clock: Clock): Promise<Store> => openEngineStore(await openLmdbFolder(path, clock), clock)

/** A table is created once, which needs room on the disk. A folder of another version gets none. */
const openTables = async (transactions: Transactions, path: string): Promise<Rows> => {
  const { environment } = transactions
  if (environment.rows !== undefined) return environment.rows
  await checkVersion(environment.root.openDB<number, string>({ name: 'meta' }), transactions, path)
  environment.rows = openRows(environment.root)
  return environment.rows
}

/** Incremented when an older Tollgate would misread the rows. */
const schemaVersion = 2

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
      'run the Tollgate that wrote it, or name another folder',
  )
}

/** The accounts in a folder, opened read-only. None when the folder has no store. */
export const inspectLmdbStore = async (path: string): Promise<StoreContents> => {
  // LMDB creates a missing lock file, for readers too.
  if (!['data.mdb', 'lock.mdb'].every(file => existsSync(join(path, file)))) return noContents
  try {
    await assertIntactFiles(path)
    return await readEnvironment(path, rows => readContents(scanSource(rows), []))
  } catch {
    return noContents
  }
}
