import { hash } from 'node:crypto'
import { readFileSync, watch } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Clock, Timer } from '../services/clock.ts'
import { yamlBaseNames } from './config-files.ts'

/** The files must have been the same for so long: editors and tools write several files, and a file in several steps. */
const settleMs = 200

/** The files are read this often whatever the operating system reports: some file systems report nothing. */
const pollIntervalMs = 5_000

/** Watches the YAML files of a configuration directory. */
export interface FileWatch {
  /** From now on `onChange` is called when the content of the files has changed, and is settled. */
  start(onChange: () => void): void
  /** The files as they are now are known: another change is needed for the next report. */
  acknowledge(): void
  stop(): void
}

/**
 * Directories are watched, not files: editors replace a file by another of its name, and Kubernetes replaces a link to the
 * directory of a ConfigMap. A watched file would then report nothing any more.
 */
export const openFileWatch = (dir: string, clock: Clock): FileWatch => new DirectoryWatch(resolve(dir), clock)

class DirectoryWatch implements FileWatch {
  readonly #dir: string
  readonly #clock: Clock
  #onChange = () => {}
  #watchers: readonly FSWatcher[] = []
  #poll: Timer | undefined
  #settling: Timer | undefined
  #seen: string
  #known: string

  constructor(dir: string, clock: Clock) {
    this.#dir = dir
    this.#clock = clock
    this.#seen = this.#known = contentOf(dir)
  }

  start(onChange: () => void): void {
    this.#onChange = onChange
    this.#poll = this.#clock.every(pollIntervalMs, () => this.#check())
    this.#watchDirectories()
    this.#check()
  }

  acknowledge(): void {
    this.#settling?.cancel()
    this.#seen = this.#known = contentOf(this.#dir)
  }

  stop(): void {
    this.#poll?.cancel()
    this.#settling?.cancel()
    for (const watcher of this.#watchers) watcher.close()
  }

  /** Anew after each change: a directory may have been replaced by another of its name. */
  #watchDirectories(): void {
    for (const watcher of this.#watchers) watcher.close()
    this.#watchers = foldersOf(this.#dir).flatMap(folder => {
      try {
        // A failure is left to the poll.
        return [watch(folder, { persistent: false }, () => this.#check()).on('error', () => undefined)]
      } catch {
        return []
      }
    })
  }

  #check(): void {
    const content = contentOf(this.#dir)
    if (content === this.#seen) return
    this.#seen = content
    this.#settling?.cancel()
    this.#settling = this.#clock.after(settleMs, () => this.#settle())
  }

  #settle(): void {
    const content = contentOf(this.#dir)
    if (content !== this.#seen) return this.#check()
    if (content === this.#known) return
    this.#known = content
    this.#watchDirectories()
    this.#onChange()
  }
}

const foldersOf = (dir: string): readonly string[] => [dir, join(dir, 'networks'), join(dir, 'methods')]

/** A hash of all YAML files, with their names. */
const contentOf = (dir: string): string => {
  const files = foldersOf(dir).flatMap(folder => yamlBaseNames(folder).map(name => join(folder, `${name}.yaml`)))
  return hash('sha256', JSON.stringify(files.map(file => [file, readIfExists(file)])), 'base64url')
}

const readIfExists = (file: string): string | null => {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return null
  }
}
