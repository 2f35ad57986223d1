import { statSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import type { Database, RootDatabase } from 'lmdb'
import { createSemaphore } from '../../util/async.ts'
import { StoreError } from '../store.ts'
import { identityOf } from './folder-watch.ts'
import { assertNotLocked } from './store-lock.ts'

export type RowKey = [tag: string, table: string, field: string]
export type Rows = Database<string, RowKey>

const rowsTable = { name: 'rows', encoding: 'string' } as const

/** Every row of the folder. Texts stay readable with any LMDB tool. */
export const openRows = (root: RootDatabase): Rows => root.openDB<string, RowKey>(rowsTable)

/** What all stores of this process have in common that are open on one folder. */
export interface LmdbEnvironment {
  readonly root: RootDatabase
  /** Undefined until they have been opened. */
  rows: Rows | undefined
  /** To be called once by each store. The environment is closed with the last of them. */
  release(): Promise<void>
}

interface HeldEnvironment extends LmdbEnvironment {
  holders: number
}

/** The open environments, by the identity of their data file: another file may have taken its place in the folder. */
const environments = new Map<string, HeldEnvironment>()

/**
 * One folder is examined, opened or closed at a time. A process that closes any descriptor of lock.mdb loses all its locks on it, and assertNotLocked()
 * closes one, as LMDB does with its last environment: an environment that is opened meanwhile would have no locks. The next process to open the
 * folder would begin lock.mdb anew, and no commit of this process would succeed again.
 */
export const oneAtATime = createSemaphore(1)

/**
 * Opens the folder, which a process may have open once only. To open a table takes the lock of writers, and stops the event loop until the
 * lock is free: for ever, if a transaction of the same process has the lock and waits for the event loop. To be called within oneAtATime().
 */
export const openEnvironment = async (path: string): Promise<LmdbEnvironment> => {
  const dataFile = join(path, 'data.mdb')
  const found = statSync(dataFile, { bigint: true, throwIfNoEntry: false })
  const held = found && environments.get(identityOf(found))
  if (held !== undefined) {
    held.holders += 1
    return held
  }
  await assertNotLocked(path)
  const root = await openNewest(path)
  const identity = identityOf(statSync(dataFile, { bigint: true }))
  const environment: HeldEnvironment = {
    root,
    rows: undefined,
    holders: 1,
    release: () =>
      oneAtATime(async () => {
        environment.holders -= 1
        if (environment.holders > 0) return
        environments.delete(identity)
        await root.close()
      }),
  }
  environments.set(identity, environment)
  return environment
}

/**
 * LMDB reads the number of the last transaction from the data file when it opens it, and then writes this number to lock.mdb, without a lock:
 * what other processes have committed in between is forgotten. The next writer would overwrite it, or fail with MDB_BAD_TXN. To open the
 * folder again repairs the number.
 */
const openNewest = async (path: string): Promise<RootDatabase> => {
  for (;;) {
    const root = openRoot(path)
    if (root.transactionSync(() => isNewest(root))) return root
    await root.close()
  }
}

/** Whether the current transaction of writers has begun with all that is committed: else it must write nothing. */
export const isNewest = (root: RootDatabase): boolean => root.getWriteTxnId() === lastCommitted(root) + 1

/** Missing in the types of lmdb, whose getStats() counts all free pages besides. */
const lastCommitted = (root: RootDatabase): number =>
  (root as unknown as { readonly env: { info(): { readonly lastTxnId: number } } }).env.info().lastTxnId

/** Missing in the types of lmdb. */
const fileMode = { permissionsMode: 0o600 }

/**
 * Addresses, not memory. A file that grows beyond its map gets another map of twice its size, and the pages of the maps before stay resident: with
 * a map as long as the file, a store that grew from 13 to 35 MB took 58 MB.
 */
const mapBytes = 64 * 1024 ** 3

const openRoot = (path: string): RootDatabase => {
  try {
    return open({
      path,
      // A dot in the folder's name would otherwise make it a file.
      noSubdir: false,
      maxDbs: 32,
      mapSize: mapBytes,
      ...fileMode,
      // Rows stay readable with any LMDB tool.
      encoding: 'json',
      // A commit resolves when it is on disk. With overlapping syncs none was faster, and close() hung on a full disk.
      overlappingSync: false,
      // Batching leaves a rejected promise that cannot be caught: on a full disk it would end the process.
      eventTurnBatching: false,
    })
  } catch (cause) {
    throw new StoreError(`cannot open the store in ${path}: ${(cause as Error).message}`, { cause })
  }
}

/** Reads a folder that has a store, whoever else has it open. Writes nothing. */
export const readEnvironment = async <T>(path: string, read: (rows: Rows, root: RootDatabase) => T | Promise<T>): Promise<T> => {
  const environment = await oneAtATime(() => openEnvironment(path))
  try {
    const rows = await oneAtATime(async () => environment.rows ?? findRows(environment.root))
    if (rows === undefined) throw new StoreError(`no store in ${path}`)
    return await read(rows, environment.root)
  } finally {
    await environment.release()
  }
}

/** Missing in the types of lmdb, as is what openDB() then returns. */
const unlessMissing = { create: false }

const findRows = (root: RootDatabase): Rows | undefined => root.openDB<string, RowKey>({ ...rowsTable, ...unlessMissing })
