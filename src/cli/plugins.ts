import { describeOptions, formatOptionValue } from '../config/describe-options.ts'
import type { OptionDescription } from '../config/describe-options.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { commonOptions, readArguments, runSubcommand } from './args.ts'
import type { Subcommand } from './args.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { findPlugin, listPlugins, requiredOptions } from './find-plugin.ts'
import { createNewPlugin, newPluginOptions } from './new-plugin.ts'
import { formatTable } from './table-output.ts'
import { createTestPlugin, testPluginOptions } from './test-plugin.ts'

const options = { ...newPluginOptions, ...testPluginOptions, ...commonOptions } as const

/** What pipelines are made of, and a start for a plugin of one's own. */
export const createPluginsCommand = (builtIn: readonly LoadablePlugin[]): Command => ({
  name: 'plugins',
  summary: commandSummaries.plugins,
  usage: [
    'plugins list [--json] [--config DIR]',
    'plugins describe NAME [--json] [--config DIR]',
    'plugins new NAME [--typescript]',
    'plugins test NAME [--with OPTIONS] [--context VALUES] [--call CALL] [--json] [--config DIR]',
  ],
  positionals: { NAME: 'A plugin of `plugins list`, a file (./my-plugin.js) or a package; with new, a name in kebab-case.' },
  options,
  examples: {
    'plugins describe cache': 'its options, and a step to copy',
    'plugins new quiet-hours --typescript': 'writes a package with a plugin and its tests to ./quiet-hours',
    'plugins test ./my-plugin.js --call eth_chainId': 'whether it does what every plugin must, with a call that it passes on',
  },
  run: async (args, terminal) =>
    runSubcommand(
      { list: list(builtIn), describe: describe(builtIn), new: createNewPlugin(builtIn), test: createTestPlugin(builtIn) },
      args,
      terminal,
    ),
})

const list =
  (builtIn: readonly LoadablePlugin[]): Subcommand =>
  async (args, { env, out, styleOut }) => {
    const { config, json } = readArguments(args, [], commonOptions).values
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
  (builtIn: readonly LoadablePlugin[]): Subcommand =>
  async (args, { env, out }) => {
    const {
      positionals: [name],
      values: { config, json },
    } = readArguments(args, ['NAME'], commonOptions)
    const { use, plugin, file } = await findPlugin(name, builtIn, config, env)
    if (json) out(JSON.stringify({ ...plugin, file }))
    else for (const line of formatPlugin(plugin, use)) out(line)
    return exitCodes.ok
  }

const formatPlugin = (plugin: LoadablePlugin, use: string): readonly string[] => {
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
    ...exampleStep(plugin, use),
  ]
}

const contextLines = ({ reads = [], writes = [], terminal, shares, repeats, once }: LoadablePlugin): readonly string[] => {
  const keys = (name: string, list: readonly string[]) =>
    list.length === 0 ? [] : [`${name} of the context: ${list.map(key => `\`${key}\``).join(', ')}.`]
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
const exampleStep = (plugin: LoadablePlugin, use: string): readonly string[] => {
  const required = requiredOptions(plugin).map(({ path, examples }) => [path, examples[0] ?? '…'])
  const written = formatOptionValue(Object.fromEntries(required))
  return plugin.name === use ? [`  - ${use}: ${written}`] : [`  - use: ${use}`, ...(required.length === 0 ? [] : [`    with: ${written}`])]
}
