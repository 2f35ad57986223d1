import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Bug } from './bugs.ts'
import type { SystemUnderTest } from './simulation.ts'

/** Runs with a copy of the compiled ledger that has the bug. The original is not changed. */
export const withBug = async <T>(bug: Bug, run: (target: SystemUnderTest) => Promise<T>): Promise<T> => {
  const folder = await mkdtemp(join(import.meta.dirname, 'injected-'))
  try {
    return await run(await injectBug(bug, folder))
  } finally {
    await rm(folder, { recursive: true })
  }
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const entryPoint = join(import.meta.dirname, 'system-under-test.js')

const injectBug = async (bug: Bug, folder: string): Promise<SystemUnderTest> => {
  const files = await readWithImports(entryPoint)
  for (const [file, text] of files) {
    const copy = join(folder, relative(root, file))
    await mkdir(dirname(copy), { recursive: true })
    await writeFile(copy, relative(root, file) === bug.file ? replace(text, bug) : text)
  }
  if (!files.has(join(root, bug.file))) throw new Error(`${bug.file} is not part of the simulation`)
  const copy = pathToFileURL(join(folder, relative(root, entryPoint))).href
  return (await import(copy)) as SystemUnderTest // a copy of this module
}

/** The texts of a file and of all that it imports from this project, by path. */
const readWithImports = async (file: string, found = new Map<string, string>()): Promise<ReadonlyMap<string, string>> => {
  if (found.has(file)) return found
  const text = await readFile(file, 'utf8')
  found.set(file, text)
  for (const [, path = ''] of text.matchAll(/\bfrom '(\.[^']+)'/g)) await readWithImports(join(dirname(file), path), found)
  return found
}

const replace = (text: string, { name, file, original: from, replacement: to }: Bug): string => {
  const parts = text.split(from)
  if (parts.length !== 2) throw new Error(`"${name}" matches ${parts.length - 1} places in ${file}, not one`)
  return parts.join(to)
}
