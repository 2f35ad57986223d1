import { hash } from 'node:crypto'
import { readFileSync, watch } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import type { Clock, Timer } from './clock.ts'

/** The files must have been the same for so long: editors and tools write several files, and a file in several steps. */
const settleMs = 200

/** The files are read this often whatever the operating system reports: some file systems report nothing. */
const pollIntervalMs = 5_000

/** Files that are watched. */
interface WatchedContent {
  /** The directories that hold the files. */
  readonly folders: readonly string[]
  /** The paths of the files, as of now. */
  files(): readonly string[]
}

/**
 * Reports changes of files. Directories are watched, not files: editors replace a file by another of its name, and Kubernetes replaces
 * a link to the directory of a ConfigMap. A watched file would then report nothing any more.
 */
export class ContentWatch {
  readonly #watched: WatchedContent
  readonly #clock: Clock
  #onChange = () => {}
  #watchers: readonly FSWatcher[] = []
  #poll: Timer | undefined
  #settling: Timer | undefined
  #seen: string
  #known: string

  constructor(watched: WatchedContent, clock: Clock) {
    this.#watched = watched
    this.#clock = clock
    this.#seen = this.#known = contentOf(watched)
  }

  /** From now on `onChange` is called when the content has changed, and is settled. */
  start(onChange: () => void): void {
    this.#onChange = onChange
    this.#poll = this.#clock.every(pollIntervalMs, () => this.#check())
    this.#watchFolders()
    this.#check()
  }

  /** The content as it is now is known: another change is needed for the next report. */
  acknowledge(): void {
    this.#settling?.cancel()
    this.#seen = this.#known = contentOf(this.#watched)
  }

  stop(): void {
    this.#poll?.cancel()
    this.#settling?.cancel()
    for (const watcher of this.#watchers) watcher.close()
  }

  /** Anew after each change: a directory may have been replaced by another of its name. */
  #watchFolders(): void {
    for (const watcher of this.#watchers) watcher.close()
    this.#watchers = this.#watched.folders.flatMap(folder => {
      try {
        // A failure is left to the poll.
        return [watch(folder, { persistent: false }, () => this.#check()).on('error', () => undefined)]
      } catch {
        return []
      }
    })
  }

  #check(): void {
    const content = contentOf(this.#watched)
    if (content === this.#seen) return
    this.#seen = content
    this.#settling?.cancel()
    this.#settling = this.#clock.after(settleMs, () => this.#settle())
  }

  #settle(): void {
    const content = contentOf(this.#watched)
    if (content !== this.#seen) return this.#check()
    if (content === this.#known) return
    this.#known = content
    this.#watchFolders()
    this.#onChange()
  }
}

/** A hash of all files, with their names: what is kept of a private key must not be the key. */
const contentOf = ({ files }: Pick<WatchedContent, 'files'>): string =>
  hash('sha256', JSON.stringify(files().map(file => [file, readIfExists(file)])), 'base64url')

const readIfExists = (file: string): string | null => {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return null
  }
}
