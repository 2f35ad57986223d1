import type { RootDatabase } from 'lmdb'
import { StoreError } from '../store.ts'

/** Runs steps on the databases of one folder. Each step is atomic among all processes that have the folder open. */
export class Transactions {
  readonly #root: RootDatabase
  readonly #path: string
  readonly #pending = new Set<Promise<unknown>>()
  #closed = false

  constructor(root: RootDatabase, path: string) {
    this.#root = root
    this.#path = path
  }

  /** Resolves when what the step wrote is on disk. A step reads and thinks first and writes last. */
  async run<T>(write: () => T): Promise<T> {
    // Without this check a step on a closed folder would wait for ever.
    if (this.#closed) throw new StoreError('the store is closed')
    const committed = this.#root.transaction(write)
    this.#pending.add(committed)
    try {
      return await committed
    } catch (error) {
      throw await toStoreError(error, this.#path)
    } finally {
      this.#pending.delete(committed)
    }
  }

  /** After all steps, also those that nobody waits for any more: with one under way the process could not exit. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await Promise.allSettled(this.#pending)
    await this.#root.close()
  }
}

/** A commit that failed carries its reason as a promise that rejects, which must be caught. */
const toStoreError = async (error: unknown, path: string): Promise<unknown> => {
  if (!(error instanceof Error && 'commitError' in error)) return error
  const cause: unknown = await Promise.resolve(error.commitError).catch((reason: unknown) => reason)
  const reason = (cause instanceof Error ? cause.message : String(cause)).replace(/: Attempting to write page.*/, '')
  return new StoreError(`cannot write to the store in ${path}: ${reason}${isDiskFull(reason) ? '; make room on its disk' : ''}`, { cause })
}

/** The disk, the quota of a user, or what one file may take; LMDB has its own word for the last. */
const isDiskFull = (reason: string): boolean => /No space left|quota exceeded|File too large|MAP_FULL/i.test(reason)
