import { open } from 'lmdb'
import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../services/clock.ts'
import { accountsIn } from './lmdb/accounts.ts'
import { Commits } from './lmdb/commits.ts'
import { copiesOf } from './lmdb/copy.ts'
import { prepareFolder } from './lmdb/folder.ts'
import { ledgerIn } from './lmdb/ledger.ts'
import { usageIn } from './lmdb/usage.ts'
import { StoreFault } from './store.ts'
import type { Store } from './store.ts'

/**
 * The embedded store: a folder that several processes of one machine open at once. Reads answer at once; writes happen
 * on a thread of their own and resolve when they are on disk.
 */
export const openLmdb = async (path: string, clock: Clock): Promise<Store> => {
  await prepareFolder(path)
  const root = openFolder(path)
  const commits = new Commits(root, path)
  await checkVersion(root.openDB<number, string>({ name: 'meta' }), commits, path)
  return {
    ...accountsIn(root, commits),
    ...ledgerIn(root, commits, clock),
    ...usageIn(root, commits, clock),
    ...copiesOf(root, clock),
    close: () => commits.close(),
  }
}

/** Changes when rows change so that an older Tollgate would misread them. */
const version = 1

const openFolder = (path: string): RootDatabase => {
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
    throw new StoreFault(`cannot open the store in ${path}: ${(cause as Error).message}`, { cause })
  }
}

const checkVersion = async (meta: Database<number, string>, commits: Commits, path: string): Promise<void> => {
  const found =
    meta.get('version') ??
    (await commits.run(() => {
      const first = meta.get('version')
      if (first === undefined) meta.put('version', version)
      return first ?? version
    }))
  if (found === version) return
  await commits.close()
  throw new StoreFault(
    `the store in ${path} has version ${found}, and this Tollgate reads version ${version}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another folder',
  )
}
