import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { access, chmod, constants, link, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFolder, processUser } from '../../util/files.ts'
import { StoreError } from '../store.ts'
import type { UsedShares } from '../store.ts'
import { assertIntactDataFile } from './data-file-check.ts'

/** Creates the folder when it is missing. Rejects a folder that LMDB cannot use safely: LMDB would not notice, or crash. */
export const prepareDataFolder = async (path: string): Promise<void> => {
  try {
    createFolder(path, 0o700)
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw new StoreError(`cannot use ${path} as the store's folder: ${(cause as Error).message}${permissionHint(cause)}`, { cause })
  }
  assertLocalFilesystem(path, (await statfs(path)).type)
  await assertIntactFiles(path)
  await prepareFiles(path)
  for (const name of ['data.mdb', 'lock.mdb']) await assertAccess(join(path, name), constants.R_OK | constants.W_OK)
}

/** Of what the store could grow to: its file, and what is free on the disk for the user of this process. */
export const readUsedShares = async (path: string): Promise<UsedShares> => {
  const [{ blocks }, { bavail, bsize }] = await Promise.all([stat(join(path, 'data.mdb')), statfs(path)])
  const used = blocks * bytesPerBlock
  return { disk: used / (used + bavail * bsize) }
}

/** Of stat(2), whatever the file system has. */
const bytesPerBlock = 512

/** Locks and memory maps are not shared between machines: two gateways would overwrite each other. */
export const assertLocalFilesystem = (path: string, type: number): void => {
  const name = networkFilesystems.get(type)
  if (name === undefined) return
  throw new StoreError(
    `the store's folder ${path} is on a network file system (${name}), which would corrupt it: name a folder on a local disk`,
  )
}

/** By the type that statfs(2) returns. */
const networkFilesystems: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x564c, 'NCP'],
  [0x01021997, '9P'],
  [0x5346414f, 'AFS'],
  [0x73757245, 'Coda'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x7461636f, 'OCFS2'],
  [0x01161970, 'GFS2'],
])

/** Rejects a folder whose files LMDB would crash on. A store that does not exist yet is accepted. */
export const assertIntactFiles = async (path: string): Promise<void> => {
  const data = join(path, 'data.mdb')
  if (!(await stat(data).catch(() => undefined))?.isFile()) return
  await assertAccess(data, constants.R_OK)
  await assertIntactDataFile(data)
}

/** Rejects a file of another user, on which LMDB would crash. A file that does not exist yet is accepted. */
const assertAccess = async (file: string, mode: number): Promise<void> => {
  try {
    await access(file, mode)
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return
    throw new StoreError(`cannot use the store: ${(cause as Error).message}; let ${processUser()} read and write this file`, { cause })
  }
}

/** Creates what LMDB itself would create with a hole in it, or with rights for other users. */
const prepareFiles = async (path: string): Promise<void> => {
  const data = join(path, 'data.mdb')
  const found = await stat(data).catch(() => undefined)
  try {
    if (found === undefined) await writeZeros(join(path, temporaryName()), newStoreBytes, rm)
    if (!existsSync(join(path, 'lock.mdb')))
      await writeZeros(join(path, temporaryName()), lockFileBytes, temporary => linkUnlessExists(temporary, join(path, 'lock.mdb')))
  } catch (cause) {
    throw new StoreError(`cannot create the store in ${path}: ${(cause as Error).message}${roomHint(cause)}`, { cause })
  }
  if (found?.isFile() && (found.mode & 0o077) !== 0) {
    // Fails where another user owns the file: its rights stay as they are.
    await chmod(data, 0o600).catch(() => undefined)
  }
}

/** Zeros that take room, so that a full disk is an error here: LMDB, which maps its files, would crash. */
const writeZeros = async (file: string, bytes: number, use: (file: string) => Promise<void>): Promise<void> => {
  try {
    await writeFile(file, Buffer.alloc(bytes), { flag: 'wx', mode: 0o600 })
    await use(file)
  } finally {
    await rm(file, { force: true })
  }
}

/** Complete from the moment that it exists: another process may open the store at the same time. */
const linkUnlessExists = async (from: string, to: string): Promise<void> => {
  try {
    await link(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

const temporaryName = () => `${randomBytes(8).toString('hex')}.tmp`

const permissionHint = (cause: unknown): string =>
  ['EACCES', 'EPERM', 'EROFS'].includes(codeOf(cause))
    ? `; let ${processUser()} write there, or let \`store\` in gateway.yaml name another folder`
    : ''

/** Of the error, or of the one that it was made of. */
const codeOf = (error: unknown): string => {
  const { code, cause } = error as NodeJS.ErrnoException
  return code ?? (cause === undefined ? '' : codeOf(cause))
}

const roomHint = (cause: unknown): string =>
  ['ENOSPC', 'EDQUOT', 'EFBIG'].includes((cause as NodeJS.ErrnoException).code ?? '') ? '; make room on its disk' : ''

/** All tables of a new store need half of it. */
const newStoreBytes = 131_072
/** Room for 254 readers, where LMDB itself takes 8,272 bytes for 126. */
const lockFileBytes = 16_384
