import { setTimeout as sleep } from 'node:timers/promises'
import { StoreError } from '../store.ts'
import type { FolderWatch } from './folder-watch.ts'
import { isNewest } from './lmdb-environment.ts'
import type { LmdbEnvironment } from './lmdb-environment.ts'
import { maxLockWaitMs } from './store-lock.ts'

const retryIntervalMs = 5

/** Runs transactions on one folder; each is atomic among all processes that have the folder open. */
export class Transactions {
  readonly environment: LmdbEnvironment
  readonly #path: string
  readonly #watch: FolderWatch
  readonly #pending = new Set<Promise<unknown>>()
  #isClosed = false

  /** `watch` is stopped by close(). */
  constructor(environment: LmdbEnvironment, path: string, watch: FolderWatch) {
    this.environment = environment
    this.#path = path
    this.#watch = watch
  }

  /** Throws after close(): LMDB never settles a transaction on a closed folder. And while the files are gone. */
  assertUsable(): void {
    if (this.#isClosed) throw new StoreError('the store is closed')
    this.#watch.assertPresent()
  }

  /** Resolves when the writes are on disk. `write` must do all its reads before its writes. */
  async run<T>(write: () => T): Promise<T> {
    this.assertUsable()
    const committed = this.#runOnNewest(write)
    this.#pending.add(committed)
    try {
      return await committed
    } catch (error) {
      throw await toStoreError(error, this.#path)
    } finally {
      this.#pending.delete(committed)
    }
  }

  /** A process that opens the folder makes LMDB forget the last commits for a moment (openNewest() says why): nothing is written meanwhile. */
  async #runOnNewest<T>(write: () => T): Promise<T> {
    const { root } = this.environment
    for (let waitedMs = 0; waitedMs < maxLockWaitMs; waitedMs += retryIntervalMs) {
      const done = await root.transaction(() => (isNewest(root) ? { result: write() } : undefined))
      if (done !== undefined) return done.result
      await sleep(retryIntervalMs)
    }
    throw new StoreError(
      `cannot write to the store in ${this.#path}: a process was ended while it opened the store; \`tollgate accounts list\` repairs it`,
    )
  }

  /** Waits for all transactions, also those that no caller waits for: the process cannot exit during a transaction. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#watch.stop()
    await Promise.allSettled(this.#pending)
    await this.environment.release()
  }
}

/** The error of a failed commit has its reason as a promise that rejects, which must be caught. */
export const toStoreError = async (error: unknown, path: string): Promise<unknown> => {
  const isCommitError = error instanceof Error && 'commitError' in error
  if (!isCommitError && !isLmdbError(error)) return error
  const cause: unknown = isCommitError ? await Promise.resolve(error.commitError).catch((reason: unknown) => reason) : error
  const reason = (cause instanceof Error ? cause.message : String(cause)).replace(/: Attempting to write page.*/, '')
  return new StoreError(`cannot write to the store in ${path}: ${reason}${isDiskFull(reason) ? '; make room on its disk' : ''}`, { cause })
}

/** LMDB numbers its errors, as the system does; Node names them. */
const isLmdbError = (error: unknown): boolean => error instanceof Error && 'code' in error && typeof error.code === 'number'

/** The disk, a user's quota, or the maximum size of a file (MAP_FULL in LMDB). */
const isDiskFull = (reason: string): boolean => /No space left|quota exceeded|File too large|MAP_FULL/i.test(reason)
