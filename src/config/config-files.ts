import { readFileSync, readdirSync } from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
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

/** The files of a configuration: those on disk, or those that a gateway has accepted. */
export interface ConfigFiles {
  /** Sorted; none of a directory that cannot be read. */
  namesIn(dir: string): readonly string[]
  /** Throws the error of the system where there is no such file. */
  read(path: string): Buffer
}

export const filesOnDisk: ConfigFiles = { namesIn: fileNamesIn, read: path => readFileSync(path) }

/** Texts of files by their paths in the directory of the configuration. */
export type FileTexts = Readonly<Record<string, string>>

/** The files of a directory as they were read. */
export const filesOf = (root: string, texts: FileTexts): ConfigFiles => ({
  namesIn(dir) {
    const folder = relative(root, dir) + sep
    return Object.keys(texts)
      .flatMap(path => (path.startsWith(folder) ? path.slice(folder.length) : []))
      .sort()
  },
  read: path => Buffer.from(texts[relative(root, path)] ?? ''),
})

/** These files, and what has been read of them. */
export const recordTexts = (root: string, files: ConfigFiles): { readonly files: ConfigFiles; readonly texts: FileTexts } => {
  const texts: Record<string, string> = {}
  const read: ConfigFiles['read'] = path => {
    const bytes = files.read(path)
    texts[relative(root, path)] = bytes.toString()
    return bytes
  }
  return { files: { ...files, read }, texts }
}

/** The names of the YAML files in a directory, without `.yaml`. */
export const yamlBaseNames = (dir: string, files = filesOnDisk): readonly string[] =>
  files
    .namesIn(dir)
    .filter(file => file.endsWith('.yaml') && !file.startsWith('.'))
    .map(file => file.slice(0, -'.yaml'.length))

/** A path as operators see it: relative to the current directory when it lies inside. */
export const displayPath = (path: string): string => {
  const inside = relative(process.cwd(), path)
  return inside === '' || inside.startsWith('..') ? path : inside
}

/** Watches the YAML files of a configuration directory. */
export type FileWatch = Pick<ContentWatch, 'start' | 'acknowledge' | 'stop'>

/** To be opened before they are read: a change meanwhile is reported after start(). */
export const openFileWatch = (dir: string, clock: Clock): FileWatch => {
  const folders = ['', 'networks', 'methods'].map(name => resolve(dir, name))
  const files = () => folders.flatMap(folder => yamlBaseNames(folder).map(name => join(folder, `${name}.yaml`)))
  return new ContentWatch({ folders, files }, clock)
}
