import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import nodeModule, { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Script } from 'node:vm'
import { crc32 } from 'node:zlib'
import { withDefaultFlags } from './gc-hints.ts'

/** What Node.js 20 compiles a CommonJS module with; it runs the module, too. */
interface CommonJsModule {
  exports: unknown
  _compile(content: string, filename: string, format?: string): unknown
}

const { prototype, wrap } = nodeModule as unknown as { prototype: CommonJsModule; wrap(content: string): string } // as Node.js 20 has it

/** Code that was compiled in this process. */
interface Compilation {
  readonly script: Script
  readonly file: string
}

/**
 * Keeps the compiled code of CommonJS modules that are loaded from now on in this folder, for versions of Node.js that do not do so
 * themselves: a quarter of the CPU of a start is to compile the gateway and its packages. Returns what writes the code that has been compiled
 * until then, with all functions that have been called. V8 refuses code of another version of itself.
 */
export const keepCommonJsCode = (parent: string): (() => void) => {
  const folder = join(parent, `${process.version}-${process.arch}`)
  let unwritten: Compilation[] = []
  const compileByNode = prototype._compile
  prototype._compile = function (content, filename, format) {
    const compiled = format === undefined || format === 'commonjs' ? compile(content, filename, folder) : undefined
    if (compiled === undefined) return compileByNode.call(this, content, filename, format)
    if (compiled.script.cachedDataRejected !== false) unwritten.push(compiled)
    const run = compiled.script.runInThisContext() as (...args: readonly unknown[]) => unknown // as wrap() makes it
    return run.call(this.exports, this.exports, createRequire(filename), this, filename, dirname(filename))
  }
  return () => {
    const written = unwritten
    unwritten = []
    if (written.length > 0) withDefaultFlags(() => writeAll(written, folder))
  }
}

/** A script for a shell, too; and import(), which Node.js 20 knows only in code that it has compiled itself. */
const unsupportedPattern = /^#!|\bimport\s*\(/

/** Undefined for what Node.js must see itself, such as a syntax error, or a file that turns out to be an ES module. */
const compile = (content: string, filename: string, folder: string): Compilation | undefined => {
  if (unsupportedPattern.test(content)) return undefined
  const code = wrap(content)
  // V8 itself compares no more than the length of the source, and stacks have the name that the code was kept with.
  const file = join(folder, `${hexOf(crc32(filename))}-${hexOf(crc32(code))}`)
  const cachedData = readChecked(file)
  try {
    return { script: withDefaultFlags(() => new Script(code, { filename, ...(cachedData && { cachedData }) })), file }
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

/** Under a name of its own until it is whole: another process may start now. */
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
  } catch {
    // A full or read-only disk: the next start compiles again.
  }
}
