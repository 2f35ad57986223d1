import type { RootDatabase } from 'lmdb'
import { StoreFault } from '../store.ts'

/** Runs steps on the databases of one folder. Each step is atomic among all processes that have the folder open. */
export class Commits {
  readonly #root: RootDatabase
  readonly #path: string
  readonly #running = new Set<Promise<unknown>>()
  #closed = false

  constructor(root: RootDatabase, path: string) {
    this.#root = root
    this.#path = path
  }

  /** Resolves when what the step wrote is on disk. A step reads and thinks first and writes last. */
  async run<T>(step: () => T): Promise<T> {
    // Without this check a step on a closed folder would wait for ever.
    if (this.#closed) throw new StoreFault('the store is closed')
    const running = this.#root.transaction(step)
    this.#running.add(running)
    try {
      return await running
    } catch (error) {
      throw await explain(error, this.#path)
    } finally {
      this.#running.delete(running)
    }
  }

  /** After all steps, also those that nobody waits for any more: with one under way the process could not exit. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await Promise.allSettled(this.#running)
    await this.#root.close()
  }
}

/** A commit that failed carries its reason as a promise that rejects, which must be caught. */
const explain = async (error: unknown, path: string): Promise<unknown> => {
  if (!(error instanceof Error && 'commitError' in error)) return error
  const cause: unknown = await Promise.resolve(error.commitError).catch((reason: unknown) => reason)
  const reason = (cause instanceof Error ? cause.message : String(cause)).replace(/: Attempting to write page.*/, '')
  return new StoreFault(`cannot write to the store in ${path}: ${reason}${isFull(reason) ? '; make room on its disk' : ''}`, { cause })
}

/** The disk, the quota of a user, or what one file may take; LMDB has its own word for the last. */
const isFull = (reason: string): boolean => /No space left|quota exceeded|File too large|MAP_FULL/i.test(reason)
