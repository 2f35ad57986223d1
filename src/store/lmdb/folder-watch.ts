import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../services/clock.ts'
import { singleFlight } from '../../util/async.ts'
import { StoreRemovedError } from '../store.ts'

const checkIntervalMs = 1_000

/** Without lock.mdb, the next process that opens the store would not know of this one. */
const fileNames = ['data.mdb', 'lock.mdb'] as const

/**
 * Checks that an open store still has its files in its folder. LMDB goes on with files that have been removed: all that it writes would be
 * lost with the process, and credits would be granted again by the store that takes their place.
 */
export class FolderWatch {
  readonly #path: string
  readonly #identities: readonly string[]
  readonly #cancel: () => void
  #isRemoved = false

  /** Begins at once: to be created when LMDB has opened the files. */
  constructor(path: string, clock: Clock) {
    this.#path = path
    this.#identities = fileNames.map(name => identityOf(statSync(join(path, name), { bigint: true })))
    const timer = clock.every(checkIntervalMs, () => void this.#check())
    this.#cancel = () => timer.cancel()
  }

  /** Throws while the files are gone, or others stand in their place. */
  assertPresent(): void {
    if (!this.#isRemoved) return
    throw new StoreRemovedError(
      `the store in ${this.#path} was removed or replaced while it was in use: put its files back where they were, or restart the gateway`,
    )
  }

  stop(): void {
    this.#cancel()
  }

  /** A disk that hangs gets no second check meanwhile. */
  readonly #check = singleFlight(async (): Promise<void> => {
    const found = await Promise.all(fileNames.map(name => stat(join(this.#path, name), { bigint: true }).then(identityOf, whyMissing)))
    this.#isRemoved = found.some((identity, i) => identity !== undefined && identity !== this.#identities[i])
  })
}

/** Of a file, whatever its name. */
export const identityOf = ({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): string => `${dev}:${ino}`

/** Undefined where it is not known whether the file is there. */
const whyMissing = ({ code }: NodeJS.ErrnoException): string | undefined => (code === 'ENOENT' || code === 'ENOTDIR' ? code : undefined)
