import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { locateBug } from '../plugin/plugin-fault.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import { isDirectory, displayPath } from './config-files.ts'
import { schemaError } from './check-options.ts'
import { isJsonObject } from '../util/json.ts'
import { registerSelfImportHook } from '../runtime/module-loading.ts'
import { valueAt } from '../util/json-path.ts'
import { isKebabCase } from './formats.ts'

/** The plugin that is the default export of a file or package, or why there is none. */
export type LoadedPlugin = { readonly plugin: AnyPlugin; readonly file: PluginFile } | { readonly reason: string; readonly hint?: string }

/** Imports an external plugin; a path is relative to `file`, and so is the look-up of a package. */
export const loadPlugin = async (use: string, file: string): Promise<LoadedPlugin> => {
  const location = resolvePluginPath(use, file)
  if (location === undefined) return { reason: `package ${use} not found`, hint: `npm install ${use}` }
  if (!existsSync(location))
    return { reason: `file ${displayPath(location)} not found`, hint: 'paths are relative to the folder of this file' }
  if (isDirectory(location)) return { reason: `${displayPath(location)} is a directory`, hint: 'name a file in it' }
  registerSelfImportHook()
  const pluginFile = { path: realpathSync(location), shownAs: displayPath(location) }
  try {
    const module: unknown = await import(pathToFileURL(location).href)
    return validatePlugin(isJsonObject(module) ? module['default'] : undefined, use, pluginFile)
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    return { reason: `cannot load ${use}: ${reason} (${syntaxErrorLocation(error, pluginFile) ?? locateBug(error, pluginFile)})` }
  }
}

/** Where the syntax of the file is broken, which the stack of the error does not say. Takes 40 ms. */
const syntaxErrorLocation = (error: unknown, { path, shownAs }: PluginFile): string | undefined => {
  if (!(error instanceof SyntaxError)) return undefined
  const { stderr } = spawnSync(process.execPath, ['--check', path], { encoding: 'utf8', timeout: 5_000 })
  const line = /^(?:file:\/\/)?\/.*:(\d+)\n/.exec(stderr)?.[1]
  return line && `${shownAs}:${line}`
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

const validatePlugin = (exported: unknown, use: string, file: PluginFile): LoadedPlugin => {
  const hint = 'export default definePlugin({ name, summary, options, create })'
  if (!isJsonObject(exported)) return { reason: `${use} has no plugin as its default export`, hint }
  const invalidFields = pluginFields.flatMap(([name, wanted, accepts]) =>
    accepts(exported[name]) ? [] : `${name} must be ${wanted}${exported[name] === undefined ? ', and is missing' : ''}`,
  )
  if (invalidFields.length > 0) return { reason: `the default export of ${use} is not a plugin: ${invalidFields.join('; ')}`, hint }
  // Its fields have just been checked; more cannot be known of external code.
  const plugin = exported as unknown as AnyPlugin
  const error = schemaError(plugin.options)
  return error === undefined ? { plugin, file } : { reason: `the options schema of ${use} is invalid: ${error}` }
}

const isNonEmptyString = (value: unknown): boolean => typeof value === 'string' && value !== ''
const isOptionalTrue = (value: unknown): boolean => value === undefined || value === true
const isOptionalKeyList = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every(isNonEmptyString))
const isFunction = (value: unknown): boolean => typeof value === 'function'
const isOptionalFunction = (value: unknown): boolean => value === undefined || isFunction(value)

const pluginFields: readonly (readonly [name: string, wanted: string, accepts: (value: unknown) => boolean])[] = [
  ['name', 'a kebab-case string', value => typeof value === 'string' && isKebabCase(value)],
  ['summary', 'a string', isNonEmptyString],
  ['options', 'a schema of type object', value => isJsonObject(value) && value['type'] === 'object'],
  ['create', 'a function', isFunction],
  ['check', 'a function', isOptionalFunction],
  ['vary', 'a function', isOptionalFunction],
  ['reads', 'a list of context keys', isOptionalKeyList],
  ['writes', 'a list of context keys', isOptionalKeyList],
  ['terminal', 'true', isOptionalTrue],
  ['repeats', 'true', isOptionalTrue],
  ['once', 'true', isOptionalTrue],
  ['shares', 'true', isOptionalTrue],
  ['tracksHeads', 'true', isOptionalTrue],
  ['withoutHeads', 'a string', value => value === undefined || isNonEmptyString(value)],
]
