import { existsSync, readFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { AnyPlugin } from '../plugin.ts'
import { isDirectory, shownPath } from './files.ts'
import { schemaFault } from './options.ts'
import { isMap, isName, valueAt } from './path.ts'

/** The plugin that a file or package exports by default, or why it is none. */
export type Loaded = { readonly plugin: AnyPlugin } | { readonly fault: string; readonly hint?: string }

/** Imports a plugin from outside; a path is relative to `file`, a package is looked for from there. */
export const loadPlugin = async (use: string, file: string): Promise<Loaded> => {
  const location = locate(use, file)
  if (location === undefined) return { fault: `there is no package ${use}`, hint: `npm install ${use}` }
  if (!existsSync(location)) return { fault: `there is no file ${shownPath(location)}`, hint: 'a path begins at the folder of this file' }
  if (isDirectory(location)) return { fault: `${shownPath(location)} is a directory`, hint: 'name a file in it' }
  offerSelf()
  try {
    const module: unknown = await import(pathToFileURL(location).href)
    return accept(isMap(module) ? module['default'] : undefined, use)
  } catch (error) {
    const said = error instanceof Error ? error.message.split('\n')[0] : String(error)
    return { fault: `cannot load ${use}: ${said}` }
  }
}

let isOffered = false

/** Once per process, and only where a configuration uses code from outside: the hook's thread costs about 30 ms. */
const offerSelf = (): void => {
  if (!isOffered) register(new URL('./self.js', import.meta.url))
  isOffered = true
}

const locate = (use: string, file: string): string | undefined => {
  if (/^\.{0,2}\//.test(use)) return resolve(dirname(file), use)
  const require = createRequire(file)
  try {
    return require.resolve(use)
  } catch (error) {
    const isForImport = (error as NodeJS.ErrnoException).code === 'ERR_PACKAGE_PATH_NOT_EXPORTED'
    return isForImport ? importEntry(use, require) : undefined
  }
}

/** The entry of a package that exports itself for `import` only, which require.resolve() does not see. */
const importEntry = (name: string, require: NodeJS.Require): string | undefined => {
  for (const folder of require.resolve.paths(name) ?? []) {
    try {
      const manifest: unknown = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8'))
      const entries = importPaths.map(path => valueAt(manifest, path))
      return join(folder, name, entries.find(entry => typeof entry === 'string') ?? '')
    } catch {
      // Not in this folder; Node looks in the next one above, too.
    }
  }
  return undefined
}

const importPaths = [['.', 'import', 'default'], ['.', 'import'], ['import', 'default'], ['import']].map(path => ['exports', ...path])

const accept = (exported: unknown, use: string): Loaded => {
  const hint = 'export default definePlugin({ name, summary, options, create })'
  if (!isMap(exported)) return { fault: `${use} exports no plugin by default`, hint }
  const wrong = fields.flatMap(([name, wanted, accepts]) =>
    accepts(exported[name]) ? [] : `${name} must be ${wanted}${exported[name] === undefined ? ', and is missing' : ''}`,
  )
  if (wrong.length > 0) return { fault: `what ${use} exports is no plugin: ${wrong.join('; ')}`, hint }
  // Its fields have just been looked at; more cannot be known of code from outside.
  const plugin = exported as unknown as AnyPlugin
  const fault = schemaFault(plugin.options)
  return fault === undefined ? { plugin } : { fault: `the schema of ${use}'s options cannot be used: ${fault}` }
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== ''
const isFlag = (value: unknown): boolean => value === undefined || value === true
const isNotes = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every(isText))
const isFunction = (value: unknown): boolean => typeof value === 'function'
const isHook = (value: unknown): boolean => value === undefined || isFunction(value)

const fields: readonly (readonly [name: string, wanted: string, accepts: (value: unknown) => boolean])[] = [
  ['name', 'a kebab-case text', value => typeof value === 'string' && isName(value)],
  ['summary', 'a text', isText],
  ['options', 'a schema of type object', value => isMap(value) && value['type'] === 'object'],
  ['create', 'a function', isFunction],
  ['check', 'a function', isHook],
  ['vary', 'a function', isHook],
  ['reads', 'a list of notes', isNotes],
  ['writes', 'a list of notes', isNotes],
  ['terminal', 'true', isFlag],
  ['repeats', 'true', isFlag],
  ['once', 'true', isFlag],
  ['shares', 'true', isFlag],
]
