import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'
import type { AccountRow } from '../store.ts'
import { assertLmdbFile } from './data-folder.ts'

/** The accounts in a folder, read and nothing else. None when it is no store. */
export const readLmdbAccounts = async (path: string): Promise<readonly AccountRow[]> => {
  // Both, as LMDB makes the lock when it is missing, also for readers.
  if (!['data.mdb', 'lock.mdb'].every(file => existsSync(join(path, file)))) return []
  try {
    await assertLmdbFile(join(path, 'data.mdb'))
    const root = open({ path, noSubdir: false, maxDbs: 32, encoding: 'json', readOnly: true })
    try {
      return Array.from(root.openDB<AccountRow, string>({ name: 'accounts' }).getRange(), ({ value }) => value)
    } finally {
      await root.close()
    }
  } catch {
    return []
  }
}
