import { statSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import type { Database, RootDatabase } from 'lmdb'
import { StoreError } from '../store.ts'
import { identityOf } from './folder-watch.ts'

export type RowKey = [tag: string, table: string, field: string]
export type Rows = Database<string, RowKey>

/** Every row of the folder. Texts stay readable with any LMDB tool. */
export const openRows = (root: RootDatabase): Rows => root.openDB<string, RowKey>({ name: 'rows', encoding: 'string' })

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
 * Opens the folder, which a process may have open once only. To open a table takes the lock of writers, and stops the event loop until the
 * lock is free: for ever, if a transaction of the same process has the lock and waits for the event loop.
 */
export const openEnvironment = (path: string): LmdbEnvironment => {
  const dataFile = join(path, 'data.mdb')
  const found = statSync(dataFile, { bigint: true, throwIfNoEntry: false })
  const held = found && environments.get(identityOf(found))
  if (held !== undefined) {
    held.holders += 1
    return held
  }
  const root = openRoot(path)
  const identity = identityOf(statSync(dataFile, { bigint: true }))
  const environment: HeldEnvironment = {
    root,
    rows: undefined,
    holders: 1,
    async release() {
      environment.holders -= 1
      if (environment.holders > 0) return
      environments.delete(identity)
      await root.close()
    },
  }
  environments.set(identity, environment)
  return environment
}

/** Missing in the types of lmdb. */
const fileMode = { permissionsMode: 0o600 }

const openRoot = (path: string): RootDatabase => {
  try {
    return open({
      path,
      // A dot in the folder's name would otherwise make it a file.
      noSubdir: false,
      maxDbs: 32,
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

/** Opens the folder for reading alone, whoever else has it open. */
export const readEnvironment = async <T>(path: string, read: (root: RootDatabase) => T | Promise<T>): Promise<T> => {
  const root = open({ path, noSubdir: false, maxDbs: 32, encoding: 'json', readOnly: true })
  try {
    return await read(root)
  } finally {
    await root.close()
  }
}
