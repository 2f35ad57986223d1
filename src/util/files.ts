import { existsSync, mkdirSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'

/**
 * Creates the folder, and the missing folders above it with the same mode. Throws where that is impossible; `recursive` of Node.js
 * 20 would not return where a file system has no place for folders, such as /proc: it repeats a mkdir() that fails with ENOENT.
 */
export const createFolder = (path: string, mode = 0o777): void => {
  if (isDirectory(path)) return
  createFolder(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (cause) {
    if (isDirectory(path)) return // another process has created it meanwhile
    throw new Error(describeFailure(path, cause as NodeJS.ErrnoException), { cause })
  }
}

export const isDirectory = (path: string): boolean => existsSync(path) && statSync(path).isDirectory()

const describeFailure = (path: string, { code, message }: NodeJS.ErrnoException): string => {
  if (code === 'EEXIST') return `${path} is a file, not a folder`
  return code === 'ENOENT' ? `no folder can be created in ${dirname(path)}` : message
}

/** Why a file cannot be read, in words, and what to do about missing permissions. */
export const describeReadError = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'EACCES') return `the file cannot be read: permission denied; let ${processUser()} read it`
  return readErrorMessages[code] ?? `the file cannot be read: ${code}`
}

const readErrorMessages: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'no such file',
  EISDIR: 'this is a directory, not a file',
  ELOOP: 'the symbolic links of this file form a loop',
}

/** Who needs permissions: `user alice`. */
export const processUser = (): string => {
  try {
    return `user ${userInfo().username}`
  } catch {
    // A container may run as a user without a name.
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}
