import { join } from 'node:path'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { isJsonArray, isJsonObject } from '../util/json.ts'
import type { Json } from '../util/json.ts'
import { displayPath } from './config-files.ts'
import { networkNames } from './load.ts'
import { loadPlugin } from './plugin-loader.ts'
import { readYamlFile } from './yaml-file.ts'
import type { Env } from './variables.ts'

/** What was found under a name: a plugin, or why there is none. */
export interface PluginLookup {
  /** The name: as a step has it in `use`, or as an operator typed it. */
  readonly use: string
  /** Its file, as operators see it. */
  readonly file: string
  readonly plugin?: AnyPlugin
  /** Why there is no plugin. */
  readonly reason?: string
}

/** The external plugins of all networks of a directory, whatever problems the networks have; each once. */
export const findUsedPlugins = async (dir: string, env: Env): Promise<readonly PluginLookup[]> => {
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

/** A built-in plugin by its name, or an external one by its file or package, relative to the current folder. */
export const findPlugin = async (name: string, builtIn: readonly AnyPlugin[]): Promise<PluginLookup> => {
  const plugin = builtIn.find(each => each.name === name)
  if (plugin !== undefined) return { use: name, file: builtInFile, plugin }
  const loaded = await loadPlugin(name, join(process.cwd(), 'file'))
  if ('plugin' in loaded) return { use: name, file: displayPath(loaded.file.path), plugin: loaded.plugin }
  return { use: name, file: name, reason: loaded.reason }
}

/** In place of the file of a built-in plugin. */
export const builtInFile = 'built in'
