import cluster from 'node:cluster'
import { hash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { pluginApiVersion } from '../plugin/api-version.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { locateBug } from '../plugin/plugin-fault.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import { displayPath } from './config-files.ts'
import { isDirectory } from '../util/files.ts'
import { schemaError } from './check-options.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import { importModule } from '../runtime/import-module.ts'
import { registerSelfImportHook, tryImport } from '../runtime/module-loading.ts'
import type { TrialImport } from '../runtime/module-loading.ts'
import { valueAt } from '../util/json-path.ts'
import { getOrCreate } from '../util/memoize.ts'
import { isKebabCase } from './formats.ts'
import { findTextMistake } from './plugin-text.ts'
import { placeOfSyntaxError } from './plugin-syntax-errors.ts'
import type { SourcePlace } from './plugin-syntax-errors.ts'

/** The plugin that is the default export of a file or package, or why there is none. */
type LoadedPlugin = { readonly plugin: AnyPlugin; readonly file: PluginFile } | PluginLoadFailure

interface PluginLoadFailure {
  readonly reason: string
  readonly hint?: string
  /** Where the plugin itself is wrong, if it is known to the character. */
  readonly place?: SourcePlace
}

/** Imports an external plugin; a path is relative to the file `referrer`, and so is the look-up of a package. */
export const loadPlugin = async (use: string, referrer: string): Promise<LoadedPlugin> => {
  const location = resolvePluginPath(use, referrer)
  if (location === undefined) return notInstalled(use)
  if (!existsSync(location))
    return { reason: `file ${displayPath(location)} not found`, hint: 'paths are relative to the folder of this file' }
  if (isDirectory(location)) return { reason: `${displayPath(location)} is a directory`, hint: 'name a file in it' }
  if (/\.[cm]?ts$/.test(location)) {
    if (/[/\\]node_modules[/\\]/.test(realpathSync(location))) return typesOfPackage(use, location)
    if (!stripsTypes) return typesNotStripped(use)
  }
  registerSelfImportHook()
  const path = realpathSync(location)
  const content = hash('sha256', readFileSync(path), 'base64url')
  const first = getOrCreate(imports, path, () => ({ content, url: pathToFileURL(location).href }))
  const file = { path, shownAs: displayPath(location), ...(first.content !== content && { isStale: true }) }
  if (await hangsAtTopLevel(first.url)) {
    imports.delete(path)
    return {
      reason: `cannot load ${use}: its top level has not ended after ${loadTimeoutMs / 1000} s (${file.shownAs})`,
      hint: topLevelHint,
    }
  }
  const loaded = await importPlugin(use, first.url, file)
  if ('plugin' in loaded) return loaded
  // Under the URL of an import that failed Node.js fails for ever, also once the file has been corrected.
  imports.set(path, { content, url: `${pathToFileURL(location).href}?${content}` })
  return file.isStale === true ? loadPlugin(use, referrer) : loaded
}

/** A package may load many files. */
const loadTimeoutMs = 5_000

const topLevelHint = 'look for a loop outside of functions, or an `await` of what never comes'

/** Whether the import of a URL would never end. The primary has tried it for its workers. */
const hangsAtTopLevel = async (url: string): Promise<boolean> => {
  if (cluster.isWorker) return false
  const result = await getOrCreate(trials, url, () => tryImport(url, loadTimeoutMs))
  return result === 'hung' && trials.delete(url)
}

/** By URL: a file is tried once. */
const trials = new Map<string, Promise<TrialImport>>()

const notInstalled = (use: string): PluginLoadFailure => {
  if (use.startsWith('~'))
    return { reason: `file ${use} not found`, hint: 'only a shell replaces ~: write an absolute path, or one relative to this file' }
  if (/^\w{2,}:/.test(use)) return { reason: `${use} is a URL`, hint: 'a plugin is loaded from a file or a package: save it as a file' }
  return { reason: `package ${use} not found`, hint: `npm install ${use}` }
}

const importPlugin = async (use: string, url: string, file: PluginFile): Promise<LoadedPlugin> => {
  try {
    const module = await importModule(url)
    return validatePlugin(isJsonObject(module) ? module['default'] : undefined, use, file)
  } catch (error) {
    return describeLoadError(error, use, file)
  }
}

/** By file, the content and the URL of its import: Node.js never imports a URL anew. */
const imports = new Map<string, { readonly content: string; readonly url: string }>()

/** Since Node.js 22.10, which @types/node 20 does not know. */
const stripsTypes = Boolean((process.features as { readonly typescript?: unknown }).typescript)

const typesNotStripped = (use: string): PluginLoadFailure => ({
  reason: `cannot load ${use}: Node.js ${process.versions.node} does not strip types`,
  hint: 'compile the file to .js, or run Node.js 22.18 or later',
})

/** As every version of Node.js decides, whether it strips types elsewhere or not. */
const typesOfPackage = (use: string, location: string): PluginLoadFailure => ({
  reason: `cannot load ${use}: Node.js strips no types in node_modules (${displayPath(location)})`,
  hint: 'publish the package with compiled .js, and let `exports` lead to it',
})

/** As Node.js says it of import(), and of require(). */
const missingPackagePattern = /^Cannot find (?:package|module) '((?:@[\w.-]+\/)?\w[\w.-]*)'/

const describeLoadError = async (error: unknown, use: string, pluginFile: PluginFile): Promise<PluginLoadFailure> => {
  const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
  const missingPackage = missingPackagePattern.exec(reason)?.[1]
  if (missingPackage !== undefined)
    return {
      reason: `cannot load ${use}: package ${missingPackage} not found (${pluginFile.shownAs})`,
      hint: `npm install ${missingPackage}`,
    }
  const place = error instanceof SyntaxError ? placeOfSyntaxError(error, pluginFile) : undefined
  const missing = /'tollgate\/plugin' does not provide an export named '(\w+)'/.exec(reason)?.[1]
  const hint = missing === undefined ? undefined : didYouMean(missing, Object.keys(await import('../plugin/plugin.ts')))
  return {
    reason: `cannot load ${use}: ${reason}${place === undefined ? ` (${locateBug(error, pluginFile)})` : ''}`,
    ...(place && { place }),
    ...(hint !== undefined && { hint }),
  }
}

const resolvePluginPath = (use: string, file: string): string | undefined => {
  if (/^\.{0,2}\//.test(use)) return resolve(dirname(file), use)
  const require = createRequire(resolve(file))
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
  if (isJsonObject(exported) && exported['apiVersion'] !== undefined && exported['apiVersion'] !== pluginApiVersion)
    return wrongApiVersion(use, exported['apiVersion'])
  if (!isJsonObject(exported)) return { reason: `${use} has no plugin as its default export`, hint }
  const invalidFields = pluginFields.flatMap(([name, wanted, accepts]) =>
    accepts(exported[name]) ? [] : `${name} must be ${wanted}${exported[name] === undefined ? ', and is missing' : ''}`,
  )
  // module.exports of CommonJS, say, with the plugin as one of its members.
  if (!Object.keys(exported).some(name => name !== 'name' && pluginFields.some(([field]) => field === name)))
    return {
      reason: `${use} has no plugin as its default export`,
      hint: use.endsWith('.cjs') ? 'module.exports = { name, summary, options, create }' : hint,
    }
  if (invalidFields.length > 0) return { reason: `the default export of ${use} is not a plugin: ${invalidFields.join('; ')}`, hint }
  // Its fields have just been checked; more cannot be known of external code.
  const plugin = exported as unknown as AnyPlugin
  const error = schemaError(plugin.options)
  if (error !== undefined) return { reason: `the options schema of ${use} is invalid: ${error}` }
  const mistake = findTextMistake(plugin, file)
  return mistake === undefined ? { plugin, file } : { ...mistake, reason: `${use} ${mistake.reason}` }
}

/** Before anything else about it: what another version requires of a plugin is not known here. */
const wrongApiVersion = (use: string, version: unknown): PluginLoadFailure => ({
  reason: `${use} is written for version ${String(version)} of the plugin API, and this Tollgate has version ${pluginApiVersion}`,
  hint: `install the release of the plugin for version ${pluginApiVersion}, or the Tollgate that the plugin is written for`,
})

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
  ['checkPipeline', 'a function', isOptionalFunction],
  ['vary', 'a function', isOptionalFunction],
  ['reads', 'a list of context keys', isOptionalKeyList],
  ['writes', 'a list of context keys', isOptionalKeyList],
  ['variesBy', 'a list of context keys', isOptionalKeyList],
  ['terminal', 'true', isOptionalTrue],
  ['repeats', 'true', isOptionalTrue],
  ['once', 'true', isOptionalTrue],
  ['shares', 'true', isOptionalTrue],
  ['limitsRates', 'a function', isOptionalFunction],
  ['verifies', 'true', isOptionalTrue],
  ['tracksHeads', 'true', isOptionalTrue],
  ['withoutHeads', 'a string', value => value === undefined || isNonEmptyString(value)],
]
