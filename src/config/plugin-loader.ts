import { existsSync, readFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { isDirectory, displayPath } from './config-files.ts'
import { schemaError } from './check-options.ts'
import { isObject, isKebabCase, valueAt } from './path.ts'

/** The plugin that a file or package exports by default, or why it is none. */
export type LoadedPlugin = { readonly plugin: AnyPlugin } | { readonly schemaProblem: string; readonly hint?: string }

/** Imports a plugin from outside; a path is relative to `file`, a package is looked for from there. */
export const loadPlugin = async (use: string, file: string): Promise<LoadedPlugin> => {
  const location = resolvePluginPath(use, file)
  if (location === undefined) return { schemaProblem: `there is no package ${use}`, hint: `npm install ${use}` }
  if (!existsSync(location))
    return { schemaProblem: `there is no file ${displayPath(location)}`, hint: 'a path begins at the folder of this file' }
  if (isDirectory(location)) return { schemaProblem: `${displayPath(location)} is a directory`, hint: 'name a file in it' }
  registerSelfImportHook()
  try {
    const module: unknown = await import(pathToFileURL(location).href)
    return validatePlugin(isObject(module) ? module['default'] : undefined, use)
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    return { schemaProblem: `cannot load ${use}: ${reason}` }
  }
}

let isHookRegistered = false

/** Once per process, and only where a configuration uses code from outside: the hook's thread costs about 30 ms. */
const registerSelfImportHook = (): void => {
  if (!isHookRegistered) register(new URL('./self-import-hook.js', import.meta.url))
  isHookRegistered = true
}

const resolvePluginPath = (use: string, file: string): string | undefined => {
  if (/^\.{0,2}\//.test(use)) return resolve(dirname(file), use)
  const require = createRequire(file)
  try {
    return require.resolve(use)
  } catch (error) {
    const isForImport = (error as NodeJS.ErrnoException).code === 'ERR_PACKAGE_PATH_NOT_EXPORTED'
    return isForImport ? importOnlyEntry(use, require) : undefined
  }
}

/** The entry of a package that exports itself for `import` only, which require.resolve() does not see. */
const importOnlyEntry = (name: string, require: NodeJS.Require): string | undefined => {
  for (const folder of require.resolve.paths(name) ?? []) {
    try {
      const manifest: unknown = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8'))
      const entries = importConditionPaths.map(path => valueAt(manifest, path))
      return join(folder, name, entries.find(entry => typeof entry === 'string') ?? '')
    } catch {
      // Not in this folder; Node looks in the next one above, too.
    }
  }
  return undefined
}

const importConditionPaths = [['.', 'import', 'default'], ['.', 'import'], ['import', 'default'], ['import']].map(path => [
  'exports',
  ...path,
])

const validatePlugin = (exported: unknown, use: string): LoadedPlugin => {
  const hint = 'export default definePlugin({ name, summary, options, create })'
  if (!isObject(exported)) return { schemaProblem: `${use} exports no plugin by default`, hint }
  const invalidFields = pluginFields.flatMap(([name, wanted, accepts]) =>
    accepts(exported[name]) ? [] : `${name} must be ${wanted}${exported[name] === undefined ? ', and is missing' : ''}`,
  )
  if (invalidFields.length > 0) return { schemaProblem: `what ${use} exports is no plugin: ${invalidFields.join('; ')}`, hint }
  // Its fields have just been looked at; more cannot be known of code from outside.
  const plugin = exported as unknown as AnyPlugin
  const fault = schemaError(plugin.options)
  return fault === undefined ? { plugin } : { schemaProblem: `the schema of ${use}'s options cannot be used: ${fault}` }
}

const isNonEmptyString = (value: unknown): boolean => typeof value === 'string' && value !== ''
const isOptionalTrue = (value: unknown): boolean => value === undefined || value === true
const isOptionalKeyList = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every(isNonEmptyString))
const isFunction = (value: unknown): boolean => typeof value === 'function'
const isOptionalFunction = (value: unknown): boolean => value === undefined || isFunction(value)

const pluginFields: readonly (readonly [name: string, wanted: string, accepts: (value: unknown) => boolean])[] = [
  ['name', 'a kebab-case text', value => typeof value === 'string' && isKebabCase(value)],
  ['summary', 'a text', isNonEmptyString],
  ['options', 'a schema of type object', value => isObject(value) && value['type'] === 'object'],
  ['create', 'a function', isFunction],
  ['check', 'a function', isOptionalFunction],
  ['vary', 'a function', isOptionalFunction],
  ['reads', 'a list of notes', isOptionalKeyList],
  ['writes', 'a list of notes', isOptionalKeyList],
  ['terminal', 'true', isOptionalTrue],
  ['repeats', 'true', isOptionalTrue],
  ['once', 'true', isOptionalTrue],
  ['shares', 'true', isOptionalTrue],
]
