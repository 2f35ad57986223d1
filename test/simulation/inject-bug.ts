import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Bug } from './bugs.ts'
import type { SystemUnderTest } from './simulation.ts'

/** Runs with a copy of the compiled ledger that has the bug in it. What runs for everybody else is not touched. */
export const withBug = async <T>(bug: Bug, run: (subject: SystemUnderTest) => Promise<T>): Promise<T> => {
  const folder = await mkdtemp(join(import.meta.dirname, 'planted-'))
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
  if (!files.has(join(root, bug.file))) throw new Error(`${bug.file} takes no part in the simulation`)
  const copy = pathToFileURL(join(folder, relative(root, entryPoint))).href
  return (await import(copy)) as SystemUnderTest // a copy of that module
}

/** A file and all that it imports from this project, by path. */
const readWithImports = async (file: string, found = new Map<string, string>()): Promise<ReadonlyMap<string, string>> => {
  if (found.has(file)) return found
  const text = await readFile(file, 'utf8')
  found.set(file, text)
  for (const [, path = ''] of text.matchAll(/\bfrom '(\.[^']+)'/g)) await readWithImports(join(dirname(file), path), found)
  return found
}

const replace = (text: string, { name, file, original: from, replacement: to }: Bug): string => {
  const parts = text.split(from)
  if (parts.length !== 2) throw new Error(`"${name}" fits ${file} in ${parts.length - 1} places, not in one`)
  return parts.join(to)
}
