import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import nodeModule, { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cachedDataVersionTag } from 'node:v8'
import { Script } from 'node:vm'
import { crc32 } from 'node:zlib'
import { withDefaultFlags } from './gc-hints.ts'

/** Since Node.js 22.8 and 22.10, which @types/node 20 does not know. */
const { enableCompileCache, flushCompileCache } = nodeModule as {
  readonly enableCompileCache?: (folder: string) => unknown
  readonly flushCompileCache?: () => void
}

/**
 * Keeps the compiled code of modules that are loaded from now on in the user's cache folder, which a start after this one reads: a
 * quarter less CPU, a seventh with Node.js 24. Node's own folder is one of /tmp, where another user could have left code. NODE_COMPILE_CACHE=DIR names another
 * folder; NODE_DISABLE_COMPILE_CACHE=1 turns it off.
 */
export const keepCompiledCode = (env: Readonly<NodeJS.ProcessEnv>): void => {
  // Coverage needs what only a compilation tells.
  if ([env.NODE_DISABLE_COMPILE_CACHE, env.NODE_V8_COVERAGE].some(value => value !== undefined && value !== '')) return
  const folder = cacheFolder(env)
  if (folder === undefined || !makePrivateFolder(folder)) return
  if (enableCompileCache === undefined) save = keepCommonJsCode(folder)
  else {
    enableCompileCache(folder)
    save = flushCompileCache
  }
}

/** Writes the code that has been compiled until now, where none is kept. Node.js by itself writes no sooner than a process ends in order. */
export const saveCompiledCode = (): void => save?.()

let save: (() => void) | undefined

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

/** What Node.js 20 compiles a CommonJS module with; it runs the module, too. */
interface CommonJsModule extends NodeModule {
  _compile(content: string, filename: string, format?: string): unknown
}

/** As Node.js 20 has it. */
const ModuleClass = nodeModule as unknown as {
  readonly prototype: CommonJsModule
  new (filename: string): CommonJsModule
  wrap(content: string): string
}
const { prototype } = ModuleClass

/** Code that was compiled in this process. */
interface Compilation {
  readonly script: Script
  readonly file: string
}

/**
 * Keeps the compiled code of CommonJS modules that are loaded from now on in this folder, for versions of Node.js that do not do so
 * themselves: a quarter of the CPU of a start is to compile the gateway and its packages. Returns what writes the code that has been compiled
 * until then, with all functions that have been called. Where modules would not run as Node.js runs them, nothing is kept.
 */
export const keepCommonJsCode = (parent: string, isSupported = runsModulesAsNode()): (() => void) => {
  if (!isSupported) return () => undefined
  // V8 refuses code of another version, of other flags (as of --max-old-space-size) or of another CPU: each has a folder.
  const folder = join(parent, `${process.version}-${process.arch}-${cachedDataVersionTag().toString(16)}`)
  let unwritten: Compilation[] = []
  const compileByNode = prototype._compile
  prototype._compile = function (content, filename, format) {
    const isCommonJs = format === undefined || format === 'commonjs'
    const compiled = isCommonJs && !process.sourceMapsEnabled ? compile(content, filename, folder) : undefined
    if (compiled === undefined) return compileByNode.call(this, content, filename, format)
    if (compiled.script.cachedDataRejected !== false) unwritten.push(compiled)
    return runModule(this, compiled.script, filename)
  }
  return () => {
    const written = unwritten
    unwritten = []
    if (written.length > 0) withDefaultFlags(() => writeAll(written, folder))
  }
}

/** `require` loads for the module itself, which is then the parent of what it loads, as with Node.js. */
const runModule = (module: CommonJsModule, script: Script, filename: string): unknown => {
  const run = script.runInThisContext() as (...args: readonly unknown[]) => unknown // as wrap() makes it
  const require = Object.assign((id: string): unknown => module.require(id), createRequire(filename))
  return run.call(module.exports, module.exports, require, module, filename, dirname(filename))
}

/** Runs one module here and by Node.js: does it get the same, and return the same? */
const runsModulesAsNode = (): boolean => {
  try {
    const [own, byNode] = [new ModuleClass(selfTestPath), new ModuleClass(selfTestPath)]
    const compiled = compile(selfTestCode, selfTestPath, dirname(selfTestPath))
    if (compiled === undefined) return false
    runModule(own, compiled.script, selfTestPath)
    byNode._compile(selfTestCode, selfTestPath)
    const [seen, expected] = [own, byNode].map(({ exports }) => JSON.stringify(exports))
    return seen === expected && seen?.includes('true') === true
  } catch {
    return false
  }
}

const selfTestPath = fileURLToPath(new URL('self-test.cjs', import.meta.url))
const selfTestCode = `module.exports = [this === exports, exports === module.exports, arguments.length, Object.keys(require),
  require.main === module, require('node:path') === module.require('node:path'), __filename, __dirname, new Error().stack.split('\\n')[1]]`

/** A script for a shell, too; and import(), which Node.js 20 knows only in code that it has compiled itself. */
const unsupportedPattern = /^#!|\bimport\s*(?:\(|\/[*/])/

/** Undefined for what Node.js must see itself, such as a syntax error, or a file that turns out to be an ES module. */
const compile = (content: string, filename: string, folder: string): Compilation | undefined => {
  if (unsupportedPattern.test(content)) return undefined
  const code = ModuleClass.wrap(content)
  // The first line of the module stands behind the parameters of the function around it.
  const columnOffset = -ModuleClass.wrap('\n').indexOf('\n')
  // V8 itself compares no more than the length of the source, and stacks have the name that the code was kept with.
  const file = join(folder, `${hexOf(crc32(filename))}-${hexOf(crc32(code))}`)
  const cachedData = readChecked(file)
  try {
    return { script: withDefaultFlags(() => new Script(code, { filename, columnOffset, ...(cachedData && { cachedData }) })), file }
  } catch {
    return undefined
  }
}

const hexOf = (checksum: number): string => checksum.toString(16).padStart(8, '0')

const checksumBytes = 4

/** V8 checks the version and the length of its data, but not each byte: a damaged file would run. */
const readChecked = (file: string): Buffer | undefined => {
  try {
    const content = readFileSync(file)
    const data = content.subarray(checksumBytes)
    return content.readUInt32LE() === crc32(data) ? data : undefined
  } catch {
    return undefined // not written yet, or cut off
  }
}

/** Each under a name of its own until it is whole: another process may start now. */
const writeAll = (compilations: readonly Compilation[], folder: string): void => {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    for (const { script, file } of compilations) {
      const data = script.createCachedData()
      const checksum = Buffer.alloc(checksumBytes)
      checksum.writeUInt32LE(crc32(data))
      const temporary = `${file}.${process.pid}`
      writeFileSync(temporary, Buffer.concat([checksum, data]), { mode: 0o600 })
      renameSync(temporary, file)
    }
    deleteOldest(folder)
  } catch {
    // A full or read-only disk: the next start compiles again.
  }
}

/**
 * 35 MB. A gateway has 970 with all its features, of which 480 are the client of Redis. Earlier releases, plugins that have been changed, and
 * processes that were killed as they wrote leave theirs.
 */
const maxFiles = 4_000

const deleteOldest = (folder: string): void => {
  const files = readdirSync(folder).map(name => join(folder, name))
  if (files.length <= maxFiles) return
  const byAge = files.map(file => ({ file, writtenAtMs: statSync(file).mtimeMs })).sort((a, b) => a.writtenAtMs - b.writtenAtMs)
  for (const { file } of byAge.slice(0, -maxFiles)) rmSync(file, { force: true })
}
