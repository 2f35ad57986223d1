import { join } from 'node:path'
import { displayPath } from '../config/config-files.ts'
import { describeOptions, formatOptionValue } from '../config/describe-options.ts'
import type { OptionDescription } from '../config/describe-options.ts'
import { networkNames } from '../config/load.ts'
import { loadPlugin } from '../config/plugin-loader.ts'
import type { Env } from '../config/variables.ts'
import { readYamlFile } from '../config/yaml-file.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isJsonArray, isJsonObject } from '../util/json.ts'
import type { Json } from '../util/json.ts'
import { configOption, formatHint, jsonOption, readArguments, runSubcommand } from './args.ts'
import type { Subcommand } from './args.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { createNewPlugin, newPluginOptions } from './new-plugin.ts'
import { formatTable } from './table-output.ts'

const options = { ...newPluginOptions, json: jsonOption, config: configOption } as const

/** What pipelines are made of, and a start for a plugin of one's own. */
export const createPluginsCommand = (builtIn: readonly AnyPlugin[]): Command => ({
  name: 'plugins',
  summary: commandSummaries.plugins,
  usage: ['plugins list [--json] [--config DIR]', 'plugins describe NAME [--json] [--config DIR]', 'plugins new NAME [--typescript]'],
  positionals: { NAME: 'A plugin of `plugins list`, a file (./my-plugin.js) or a package; with new, a name in kebab-case.' },
  options,
  examples: {
    'plugins describe cache': 'its options, and a step to copy',
    'plugins new quiet-hours --typescript': 'writes a plugin and its tests to ./quiet-hours',
  },
  run: async (args, terminal) =>
    runSubcommand({ list: list(builtIn), describe: describe(builtIn), new: createNewPlugin(builtIn) }, args, terminal),
})

const list =
  (builtIn: readonly AnyPlugin[]): Subcommand =>
  async (args, { env, out, styleOut }) => {
    const { config, json } = readArguments(args, [], { config: options.config, json: options.json }).values
    const all = await listPlugins(builtIn, config, env)
    const rows = all.map(({ use, file, plugin, reason }) => ({ name: plugin?.name ?? use, file, summary: plugin?.summary ?? reason ?? '' }))
    if (json) out(JSON.stringify(rows))
    else
      formatTable(
        ['PLUGIN', 'FROM', 'SUMMARY'],
        rows.map(({ name, file, summary }) => [name, file, summary]),
        styleOut,
      ).forEach(out)
    return exitCodes.ok
  }

const describe =
  (builtIn: readonly AnyPlugin[]): Subcommand =>
  async (args, { env, out, err }) => {
    const { positionals, values } = readArguments(args, ['NAME'], { config: options.config, json: options.json })
    const [name] = positionals
    const isBuiltIn = builtIn.some(plugin => plugin.name === name)
    // The plugins of networks run code, and may print, as they are loaded.
    const listed = isBuiltIn ? listBuiltIn(builtIn) : await listPlugins(builtIn, values.config, env)
    const { use, plugin, file, reason } = listed.find(each => each.plugin?.name === name) ?? (await loadPluginFrom(name))
    if (plugin === undefined) {
      const names = listed.flatMap(each => each.plugin?.name ?? [])
      err(`tollgate plugins: no plugin of \`plugins list\` is named ${name}, and ${reason}${formatHint(didYouMean(name, names))}`)
      return exitCodes.failed
    }
    if (values.json) out(JSON.stringify({ ...plugin, file }))
    else for (const line of formatPlugin(plugin, use)) out(line)
    return exitCodes.ok
  }

const formatPlugin = (plugin: AnyPlugin, use: string): readonly string[] => {
  const described = describeOptions(plugin.options)
  return [
    `${plugin.name}: ${plugin.summary}`,
    ...contextLines(plugin),
    '',
    described.length === 0 ? 'No options.' : 'Options:',
    ...described.flatMap(formatOption),
    '',
    'In the pipeline of a network:',
    '',
    ...exampleStep(plugin, use, described),
  ]
}

const contextLines = ({ reads = [], writes = [], terminal, shares, repeats, once }: AnyPlugin): readonly string[] => {
  const keys = (name: string, list: readonly string[]) => (list.length === 0 ? [] : [`${name} the context ${list.join(', ')}.`])
  return [
    ...keys('Reads', reads),
    ...keys('Writes', writes),
    ...(terminal ? ['Ends the pipeline: it answers every call.'] : []),
    ...(shares ? ['Shares answers between callers: a plugin below it that reads context from above needs vary().'] : []),
    ...(repeats ? ['May run the plugins below it more than once for a call.'] : []),
    ...(once ? ['Runs once for a call: no plugin that repeats calls may be above it.'] : []),
  ]
}

const formatOption = ({
  path,
  type,
  required,
  requires,
  default: value,
  hasChildren,
  examples,
  description,
}: OptionDescription): readonly string[] => {
  const presence = required ? ', required' : value === undefined || hasChildren ? '' : `, default ${formatOptionValue(value)}`
  const requirement = requires.length === 0 ? '' : `, requires ${requires.join(' or ')}`
  const example = examples.length === 0 ? '' : ` Example: ${examples.map(formatOptionValue).join(', ')}.`
  return [`  ${path}: ${type}${presence}${requirement}`, `      ${description}${example}`]
}

/** The step with the options that it needs. */
const exampleStep = ({ name }: AnyPlugin, use: string, described: readonly OptionDescription[]): readonly string[] => {
  const required = described.filter(option => option.required && !/[.[]/.test(option.path))
  const values = Object.fromEntries(required.map(({ path, examples }) => [path, examples[0] ?? '…']))
  const written = formatOptionValue(values)
  return name === use ? [`  - ${name}: ${written}`] : [`  - use: ${use}`, ...(required.length === 0 ? [] : [`    with: ${written}`])]
}

/** What was found under a name: a plugin, or why there is none. */
interface PluginLookup {
  /** The name: as a step has it in `use`, or as an operator typed it. */
  readonly use: string
  /** Its file, as operators see it. */
  readonly file: string
  readonly plugin?: AnyPlugin
  /** Why there is no plugin. */
  readonly reason?: string
}

/** The built-in plugins, and those that networks of the directory use. */
const listPlugins = async (builtIn: readonly AnyPlugin[], dir: string, env: Env): Promise<readonly PluginLookup[]> => [
  ...listBuiltIn(builtIn),
  ...(await findUsedPlugins(dir, env)),
]

const listBuiltIn = (builtIn: readonly AnyPlugin[]): readonly PluginLookup[] =>
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

/** An external plugin by its file or package, relative to the current folder. */
const loadPluginFrom = async (name: string): Promise<PluginLookup> => {
  const loaded = await loadPlugin(name, join(process.cwd(), 'file'))
  if ('plugin' in loaded) return { use: name, file: displayPath(loaded.file.path), plugin: loaded.plugin }
  return { use: name, file: name, reason: loaded.reason }
}

/** In place of the file of a built-in plugin. */
const builtInFile = 'built in'
