import { existsSync } from 'node:fs'
import { chmod, open as openFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createFolder } from '../../util/files.ts'
import { readAccounts, scanKeys } from '../accounts.ts'
import { StoreError } from '../store.ts'
import { assertIntactFiles } from './data-folder.ts'
import { readEnvironment } from './lmdb-environment.ts'
import type { Rows } from './lmdb-environment.ts'
import { scanSource } from './lmdb-engine.ts'

/** What a backup contains. The members are those of `store backup --json`. */
export interface BackupSummary {
  readonly accounts: number
  readonly keys: number
  readonly bytes: number
}

/**
 * Writes the store in `path`, as it is at one moment, to the new folder `target`; processes use the store meanwhile. The folder appears
 * under its name when it is complete, on disk, and has been opened and read. Rejects with StoreError, or with the reason of the signal, and leaves
 * nothing behind.
 */
export const backupLmdbStore = async (path: string, target: string, signal?: AbortSignal): Promise<BackupSummary> => {
  if (!existsSync(join(path, 'data.mdb'))) throw new StoreError(`no store in ${path}`)
  if (existsSync(target)) throw new StoreError(`${target} exists already: a backup is a new folder, such as backup-$(date +%F)`)
  await assertIntactFiles(path)
  const partial = `${target}.partial-${process.pid}`
  const removePartial = () => rm(partial, { recursive: true, force: true }).catch(() => undefined)
  // LMDB cannot be stopped, and goes on with files that are removed: what comes after it fails. Another signal ends the process, and leaves nothing either.
  signal?.addEventListener('abort', removePartial)
  try {
    signal?.throwIfAborted()
    createFolder(partial, 0o700)
    await readEnvironment(path, (_, root) => root.backup(partial, true))
    await sync(join(partial, 'data.mdb'))
    const summary = await readEnvironment(partial, summarize)
    await rm(join(partial, 'lock.mdb'), { force: true }) // of the look at the copy
    signal?.throwIfAborted()
    signal?.removeEventListener('abort', removePartial)
    await rename(partial, target)
    await sync(dirname(target))
    return { ...summary, bytes: (await stat(join(target, 'data.mdb'))).size }
  } catch (cause) {
    await removePartial()
    signal?.throwIfAborted()
    throw new StoreError(`cannot write the backup to ${target}: ${(cause as Error).message}`, { cause })
  } finally {
    signal?.removeEventListener('abort', removePartial)
  }
}

/** Reads every account and every key. */
const summarize = async (rows: Rows): Promise<Pick<BackupSummary, 'accounts' | 'keys'>> => {
  const source = scanSource(rows)
  let keys = 0
  for await (const _ of scanKeys(source)) keys += 1
  return { accounts: (await readAccounts(source)).length, keys }
}

/** Readable for its owner alone, and on disk. */
const sync = async (path: string): Promise<void> => {
  const file = await openFile(path, 'r')
  try {
    if (!(await file.stat()).isDirectory()) await chmod(path, 0o600)
    await file.sync()
  } finally {
    await file.close()
  }
}
