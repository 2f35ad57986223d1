import { readFile, readdir, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { StoreError } from '../store.ts'

/** A lock that is held for longer than this is stuck: a commit takes milliseconds. */
export const maxLockWaitMs = 5_000
const pollIntervalMs = 50

/**
 * Rejects when one process holds the lock of the store all the time. LMDB would wait for it without end, and stop the event loop
 * meanwhile. Costs a read of 16 KiB while nobody holds the lock. Must not run while this process has the store open, as it
 * closes a descriptor of lock.mdb: oneAtATime() says more.
 */
export const assertNotLocked = async (path: string, maxWaitMs = maxLockWaitMs): Promise<void> => {
  const first = await readLockState(path)
  for (let waitedMs = 0; first !== undefined && waitedMs < maxWaitMs; waitedMs += pollIntervalMs) {
    await setTimeout(pollIntervalMs)
    const state = await readLockState(path)
    if (state?.thread !== first.thread || state.transaction !== first.transaction) return
  }
  const holder = first && (await processOf(first.thread, join(path, 'lock.mdb')))
  if (holder === undefined) return
  throw new StoreError(
    `the store in ${path} is locked by process ${holder}, which has not released it for ${maxWaitMs / 1_000} s: end that process`,
  )
}

/** Who holds the lock of writers, or that of the table of readers, and the last transaction. */
interface LockState {
  readonly thread: number
  readonly transaction: bigint
}

/** Undefined while nobody holds a lock, and where locks are not those of glibc, whose owner stands in the file. */
const readLockState = async (path: string): Promise<LockState | undefined> => {
  const file = await readFile(join(path, 'lock.mdb')).catch(() => undefined)
  if (file === undefined || file.length < minLockFileBytes) return undefined
  const thread = mutexOffsets.map(offset => mutexOwner(file, offset)).find(owner => owner !== 0)
  return thread === undefined ? undefined : { thread, transaction: file.readBigUInt64LE(transactionOffsetBytes) }
}

/** struct MDB_txninfo of lmdb 3: the mutexes of readers and of writers. */
const mutexOffsets = [24, 64]
const transactionOffsetBytes = 8
const minLockFileBytes = 128

/** pthread_mutex_t of glibc: the lock word has the owner and two flags, and the owner stands in it a second time. */
const mutexOwner = (file: Buffer, offset: number): number => {
  const owner = file.readUInt32LE(offset) & 0x3fffffff
  return owner === file.readUInt32LE(offset + 8) ? owner : 0
}

/** The process of the thread, if it has the file open: after a crash of the machine the file names a thread of that time. */
const processOf = async (thread: number, file: string): Promise<number | undefined> => {
  try {
    const [, pid = ''] = /^Tgid:\s*(\d+)$/m.exec(await readFile(`/proc/${thread}/status`, 'utf8')) ?? []
    const path = await realpath(file)
    const open = await readdir(`/proc/${pid}/fd`)
    const links = await Promise.all(open.map(fd => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')))
    return links.includes(path) ? Number(pid) : undefined
  } catch {
    // No Linux, another user's process, or one that has ended.
    return undefined
  }
}
