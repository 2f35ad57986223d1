import { existsSync, mkdirSync, statSync } from 'node:fs'
import nodeModule from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'

/** Since Node.js 22.8 and 22.10, which @types/node 20 does not know. */
const { enableCompileCache, flushCompileCache } = nodeModule as {
  readonly enableCompileCache?: (folder: string) => unknown
  readonly flushCompileCache?: () => void
}

/**
 * Keeps the compiled code of modules that are loaded from now on in the user's cache folder, which a start after this one reads: a seventh less
 * CPU. Node.js 20 keeps none. Node's own folder is one of /tmp, where another user could have left code. NODE_COMPILE_CACHE=DIR names another
 * folder; NODE_DISABLE_COMPILE_CACHE=1 turns it off.
 */
export const keepCompiledCode = (env: Readonly<NodeJS.ProcessEnv>): void => {
  if (enableCompileCache === undefined) return
  // Coverage needs what only a compilation tells.
  if ([env.NODE_DISABLE_COMPILE_CACHE, env.NODE_V8_COVERAGE].some(value => value !== undefined && value !== '')) return
  const folder = cacheFolder(env)
  if (folder !== undefined && makePrivateFolder(folder)) enableCompileCache(folder)
}

/** Writes the code that has been compiled until now. Node.js by itself writes no sooner than a process ends in order. */
export const saveCompiledCode = (): void => flushCompileCache?.()

const cacheFolder = ({ NODE_COMPILE_CACHE: own = '', XDG_CACHE_HOME: folder = '' }: Readonly<NodeJS.ProcessEnv>): string | undefined => {
  if (own !== '') return resolve(own)
  const parent = isAbsolute(folder) ? folder : homeCacheFolder()
  return parent === undefined ? undefined : join(parent, 'tollgate')
}

/** Undefined where HOME is empty or relative: the code of whoever owns the current folder would run. */
const homeCacheFolder = (): string | undefined => {
  try {
    const home = homedir()
    return isAbsolute(home) ? join(home, '.cache') : undefined
  } catch {
    return undefined // a user without an entry in the list of users
  }
}

/**
 * True when the folder is there, perhaps made now, and no other user can write to it: what it holds is executed. `sudo` may keep HOME,
 * and then root neither reads nor writes the other user's folder.
 */
export const makePrivateFolder = (folder: string): boolean => {
  try {
    return makeFolder(folder) && isOwn(folder) && (isWindows || (statSync(folder).mode & othersWriteBits) === 0)
  } catch {
    return false // a folder that cannot be made or read
  }
}

const isWindows = process.platform === 'win32'

/** The permissions of the group and of all others to write. */
const othersWriteBits = 0o022

/** False below a folder of another user. Not `recursive`: with that, Node.js never returns below /proc. */
const makeFolder = (folder: string): boolean => {
  if (existsSync(folder)) return true
  const parent = dirname(folder)
  if (!makeFolder(parent) || !isOwn(parent)) return false
  mkdirSync(folder, { mode: 0o700 })
  return true
}

const isOwn = (folder: string): boolean => isWindows || statSync(folder).uid === process.getuid?.()
