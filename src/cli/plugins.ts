import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { displayPath } from '../config/config-files.ts'
import { describeOptions, formatOptionValue } from '../config/describe-options.ts'
import type { OptionDescription } from '../config/describe-options.ts'
import { builtInFile, findPlugin, findUsedPlugins } from '../config/find-plugins.ts'
import { stripsTypes } from '../config/plugin-loader.ts'
import type { PluginLookup } from '../config/find-plugins.ts'
import { isKebabCase } from '../config/formats.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { configOption, formatHint, jsonOption, readArguments, runSubcommand } from './args.ts'
import type { Subcommand } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { minTypeScriptNode, pluginFiles, pluginStep, testCommand } from './plugin-template.ts'
import { formatTable } from './table-output.ts'

const options = {
  typescript: { type: 'boolean', default: false, description: 'With new: writes TypeScript, for Node.js 22.18 and later.' },
  json: jsonOption,
  config: configOption,
} as const

/** What pipelines are made of, and a start for a plugin of one's own. */
export const createPluginsCommand = (builtIn: readonly AnyPlugin[]): Command => ({
  name: 'plugins',
  summary: commandSummaries.plugins,
  usage: ['plugins list [--json] [--config DIR]', 'plugins describe NAME [--json]', 'plugins new NAME [--typescript]'],
  positionals: { NAME: 'A built-in plugin, a file (./my-plugin.js) or a package; with new, a name in kebab-case.' },
  options,
  run: async (args, terminal) => runSubcommand({ list: list(builtIn), describe: describe(builtIn), new: create(builtIn) }, args, terminal),
})

const list =
  (builtIn: readonly AnyPlugin[]): Subcommand =>
  async (args, { env, out }) => {
    const { config, json } = readArguments(args, [], { config: options.config, json: options.json }).values
    const external = await findUsedPlugins(config, env)
    const all: readonly PluginLookup[] = [...builtIn.map(plugin => ({ use: plugin.name, file: builtInFile, plugin })), ...external]
    const rows = all.map(({ use, file, plugin, reason }) => ({ name: plugin?.name ?? use, file, summary: plugin?.summary ?? reason ?? '' }))
    if (json) out(JSON.stringify(rows))
    else
      formatTable(
        ['PLUGIN', 'FROM', 'SUMMARY'],
        rows.map(({ name, file, summary }) => [name, file, summary]),
      ).forEach(out)
    return exitCodes.ok
  }

const describe =
  (builtIn: readonly AnyPlugin[]): Subcommand =>
  async (args, { out, err }) => {
    const { positionals, values } = readArguments(args, ['NAME'], { json: options.json })
    const [name] = positionals
    const { plugin, file, reason } = await findPlugin(name, builtIn)
    if (plugin === undefined) {
      const names = builtIn.map(each => each.name)
      err(`tollgate plugins: no built-in plugin is named ${name}, and ${reason}${formatHint(didYouMean(name, names))}`)
      return exitCodes.failed
    }
    if (values.json) out(JSON.stringify({ ...plugin, file }))
    else for (const line of formatPlugin(plugin, name)) out(line)
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
  default: value,
  hasChildren,
  examples,
  description,
}: OptionDescription): readonly string[] => {
  const presence = required ? ', required' : value === undefined || hasChildren ? '' : `, default ${formatOptionValue(value)}`
  const example = examples.length === 0 ? '' : ` Example: ${examples.map(formatOptionValue).join(', ')}.`
  return [`  ${path}: ${type}${presence}`, `      ${description}${example}`]
}

/** The step with the options that it needs. */
const exampleStep = ({ name }: AnyPlugin, use: string, described: readonly OptionDescription[]): readonly string[] => {
  const required = described.filter(option => option.required && !/[.[]/.test(option.path))
  const values = Object.fromEntries(required.map(({ path, examples }) => [path, examples[0] ?? '…']))
  const written = formatOptionValue(values)
  return name === use ? [`  - ${name}: ${written}`] : [`  - use: ${use}`, ...(required.length === 0 ? [] : [`    with: ${written}`])]
}

const create =
  (builtIn: readonly AnyPlugin[]): Subcommand =>
  async (args, { out, err }) => {
    const {
      positionals: [name],
      values: { typescript },
    } = readArguments(args, ['NAME'], { typescript: options.typescript })
    if (!isKebabCase(name)) throw new UsageError(`the name must be kebab-case, not "${name}"`)
    if (builtIn.some(plugin => plugin.name === name)) throw new UsageError(`a built-in plugin is named ${name}`)
    const folder = resolve(name)
    if (existsSync(folder)) {
      err(`tollgate plugins: ${displayPath(folder)} exists already`)
      return exitCodes.failed
    }
    mkdirSync(folder)
    const linkTarget = linkGateway(folder)
    const language = typescript ? 'ts' : 'js'
    const files = pluginFiles(name, { language, ...(linkTarget !== undefined && { gatewayPath: linkTarget }) })
    for (const [file, { text }] of Object.entries(files)) writeFileSync(join(folder, file), text)
    for (const line of formatTable(
      ['FILE', ''],
      Object.entries(files).map(([file, { purpose }]) => [join(name, file), purpose]),
    ))
      out(line)
    nextSteps(name, language).forEach(out)
    return exitCodes.ok
  }

const gatewayFolder = fileURLToPath(new URL('../../../', import.meta.url))

/**
 * Lets the folder import this installation where no node_modules above it has one, as below a checkout or with a global
 * installation. Returns the path of the link's target for package.json.
 */
const linkGateway = (folder: string): string | undefined => {
  const searched = createRequire(join(folder, 'file')).resolve.paths('tollgate') ?? []
  if (searched.some(modules => existsSync(join(modules, 'tollgate', 'package.json')))) return undefined
  const link = join(folder, 'node_modules', 'tollgate')
  mkdirSync(dirname(link))
  symlinkSync(gatewayFolder, link, 'junction')
  return relative(folder, gatewayFolder)
}

const missingTypeScript = `Node.js ${process.versions.node} does not strip types: the plugin and its tests need Node.js ${minTypeScriptNode} or later.`

const nextSteps = (name: string, language: 'js' | 'ts'): readonly string[] => [
  '',
  ...(language === 'ts' && !stripsTypes ? [missingTypeScript, ''] : []),
  `Run its tests:      cd ${name} && ${testCommand(name, { language })}`,
  'Load it:            put this step into the pipeline of a network, below `envelope`, then run `npx tollgate check`',
  '',
  ...pluginStep(`../../${name}/${name}.${language}`).map(line => `  ${line}`),
]
