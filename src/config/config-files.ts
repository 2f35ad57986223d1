import { readdirSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import type { Clock } from '../services/clock.ts'
import { ContentWatch } from '../services/content-watch.ts'
import { processUser } from '../util/files.ts'

/** The names of all files in a directory, sorted; none when it cannot be read. */
export const fileNamesIn = (dir: string): readonly string[] => {
  try {
    return readdirSync(dir).sort()
  } catch {
    return []
  }
}

/** Why there is no directory under the path; undefined where there is one, and where there is nothing. */
export const directoryError = (path: string): string | undefined => {
  try {
    readdirSync(path)
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EACCES') return `the directory cannot be read: permission denied; let ${processUser()} read it`
    return directoryErrorMessages[String(code)]
  }
}

const directoryErrorMessages: Readonly<Record<string, string>> = {
  ENOTDIR: 'this is a file, not a directory',
  ELOOP: 'the symbolic links of this directory form a loop',
}

/** The names of the YAML files in a directory, without `.yaml`. */
export const yamlBaseNames = (dir: string): readonly string[] =>
  fileNamesIn(dir)
    .filter(file => file.endsWith('.yaml') && !file.startsWith('.'))
    .map(file => file.slice(0, -'.yaml'.length))

/** A path as operators see it: relative to the current directory when it lies inside. */
export const displayPath = (path: string): string => {
  const inside = relative(process.cwd(), path)
  return inside === '' || inside.startsWith('..') ? path : inside
}

/** Watches the YAML files of a configuration directory. */
export type FileWatch = Pick<ContentWatch, 'start' | 'acknowledge' | 'stop'>

export const openFileWatch = (dir: string, clock: Clock): FileWatch => {
  const folders = ['', 'networks', 'methods'].map(name => resolve(dir, name))
  const files = () => folders.flatMap(folder => yamlBaseNames(folder).map(name => join(folder, `${name}.yaml`)))
  return new ContentWatch({ folders, files }, clock)
}
