import { existsSync, realpathSync } from 'node:fs'
import { isAbsolute, join, normalize, relative, resolve, sep } from 'node:path'
import { displayPath } from '../config/config-files.ts'
import { describeOptions } from '../config/describe-options.ts'
import type { OptionDescription } from '../config/describe-options.ts'
import { networkNames } from '../config/load.ts'
import { loadPlugin } from '../config/plugin-loader.ts'
import type { Env } from '../config/variables.ts'
import { readYamlFile } from '../config/yaml-file.ts'
import { toLoaded } from '../plugin/deferred-plugin.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isJsonArray, isJsonObject } from '../util/json.ts'
import type { Json } from '../util/json.ts'
import { formatHint } from './args.ts'
import { CommandError } from './command.ts'

/** What was found under a name: a plugin, or why there is none. */
interface PluginLookup {
  /** As a step of a network of the directory has it in `use`. */
  readonly use: string
  /** Its file, as operators see it. */
  readonly file: string
  readonly plugin?: LoadablePlugin
  /** Why there is no plugin. */
  readonly reason?: string
}

/** The plugin that an operator or author names: of `plugins list`, a file or a package. Throws CommandError. */
export const findPlugin = async (
  name: string,
  builtIn: readonly LoadablePlugin[],
  dir: string,
  env: Env,
): Promise<PluginLookup & { readonly plugin: AnyPlugin }> => {
  const isBuiltIn = builtIn.some(plugin => plugin.name === name)
  // The plugins of networks run code, and may print, as they are loaded.
  const listed = isBuiltIn ? listBuiltIn(builtIn) : await listPlugins(builtIn, dir, env)
  const { plugin, ...lookup } = listed.find(each => each.plugin?.name === name) ?? (await loadPluginFrom(name, dir))
  if (plugin !== undefined) return { ...lookup, plugin: await toLoaded(plugin) }
  if (isPath(name)) throw new CommandError(lookup.reason ?? `${name} has no plugin`)
  const names = listed.flatMap(each => each.plugin?.name ?? [])
  throw new CommandError(`no plugin of \`plugins list\` is named ${name}, and ${lookup.reason}${formatHint(didYouMean(name, names))}`)
}

const isPath = (name: string): boolean => /^\.{0,2}[/\\]/.test(name)

/** Those without which a plugin cannot stand in a pipeline. */
export const requiredOptions = ({ options }: LoadablePlugin): readonly OptionDescription[] =>
  describeOptions(options).filter(option => option.required && !/[.[]/.test(option.path))

/** The built-in plugins, and those that networks of the directory use. */
export const listPlugins = async (builtIn: readonly LoadablePlugin[], dir: string, env: Env): Promise<readonly PluginLookup[]> => [
  ...listBuiltIn(builtIn),
  ...(await findUsedPlugins(dir, env)),
]

const listBuiltIn = (builtIn: readonly LoadablePlugin[]): readonly PluginLookup[] =>
  builtIn.map(plugin => ({ use: plugin.name, file: builtInFile, plugin }))

/** The external plugins of all networks of a directory, whatever problems the networks have; each once. */
const findUsedPlugins = async (dir: string, env: Env): Promise<readonly PluginLookup[]> => {
  const found = new Map<string, PluginLookup>()
  for (const name of networkNames(dir)) {
    const path = join(dir, 'networks', `${name}.yaml`)
    const { value } = readYamlFile(path, env)
    for (const use of externalUses(value as Json)) {
      const loaded = await loadPlugin(use, path)
      const file = 'plugin' in loaded ? loaded.file.shownAs : use
      found.set(file, { use, file, ...('plugin' in loaded ? { plugin: loaded.plugin } : { reason: loaded.reason }) })
    }
  }
  return [...found.values()]
}

const externalUses = (network: Json): readonly string[] => {
  const pipeline = isJsonObject(network) ? network['pipeline'] : undefined
  const steps = pipeline !== undefined && isJsonArray(pipeline) ? pipeline : []
  return steps.flatMap(step => (isJsonObject(step) && typeof step['use'] === 'string' && step['use'] !== '' ? [step['use']] : []))
}

/** An external plugin by its file or package, relative to the current folder; networks of `dir` may use it. */
const loadPluginFrom = async (name: string, dir: string): Promise<PluginLookup> => {
  // A shell completes the name of a file without `./`, which would be a package.
  const use = /\.[cm]?[jt]s$/.test(name) && existsSync(name) && !isAbsolute(name) ? `./${normalize(name)}` : name
  const loaded = await loadPlugin(use, join(process.cwd(), 'file'))
  if (!('plugin' in loaded)) return { use, file: use, reason: loaded.reason }
  const { file, plugin } = loaded
  return { use: isPath(use) ? pathForNetworks(dir, file.path) : use, file: displayPath(file.path), plugin }
}

/** Paths are relative to the file of the network. */
const pathForNetworks = (dir: string, path: string): string => {
  const folder = existsSync(dir) ? realpathSync(dir) : resolve(dir)
  const found = relative(join(folder, 'networks'), path).replaceAll(sep, '/')
  return found.startsWith('.') ? found : `./${found}`
}

/** In place of the file of a built-in plugin. */
const builtInFile = 'built in'
