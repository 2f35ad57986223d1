import { access, constants, mkdir, open, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreError } from '../store.ts'

/** Creates the folder when it is missing. Rejects a folder that LMDB cannot use safely: LMDB would not notice, or crash. */
export const prepareDataFolder = async (path: string): Promise<void> => {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    throw new StoreError(`cannot use ${path} as the store's folder: ${(cause as Error).message}`, { cause })
  }
  assertLocalFilesystem(path, (await statfs(path)).type)
  await assertLmdbFile(join(path, 'data.mdb'))
}

/** Locks and memory maps are not shared between machines: two gateways would overwrite each other. */
export const assertLocalFilesystem = (path: string, type: number): void => {
  const name = networkFilesystems.get(type)
  if (name === undefined) return
  throw new StoreError(
    `the store's folder ${path} is on a network file system (${name}), which would corrupt it: ` +
      'let `store` in gateway.yaml name a folder on a local disk',
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

/** A missing or empty file is accepted; LMDB crashes on any other file that is not its own. */
export const assertLmdbFile = async (file: string): Promise<void> => {
  const found = await stat(file).catch(() => undefined)
  if (found === undefined || !found.isFile() || found.size === 0) return
  if ((await readHeader(file)).includes(lmdbMagic)) return
  throw new StoreError(
    `${file} is not a store, or it is damaged: restore it from a backup, or let \`store\` in gateway.yaml name another folder`,
  )
}

/** In the first bytes of each LMDB file, in the byte order of the machine. */
const lmdbMagic = Buffer.from(Uint32Array.of(0xbeefc0de).buffer)

const readHeader = async (path: string): Promise<Buffer> => {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
