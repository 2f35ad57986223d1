import { formatEffectiveFile } from '../config/effective-file.ts'
import { loadConfig } from '../config/load.ts'
import type { LoadedConfig } from '../config/load.ts'
import { printProblems } from '../config/problem.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { configOption, formatHint, jsonOption, readOptionalArgument } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { printReload } from './gateway-status.ts'

const options = {
  diff: {
    type: 'boolean',
    default: false,
    description: 'Prints what a reload of the running gateway would change: + added, ~ changed, - removed. Asks its admin listener.',
  },
  json: jsonOption,
  config: configOption,
} as const

/** Prints the configuration that `start` would use. */
export const createShowCommand = (plugins: readonly LoadablePlugin[]): Command => ({
  name: 'show',
  summary: commandSummaries.show,
  usage: ['show [--json] [--config DIR]', 'show NETWORK [--json] [--config DIR]', 'show --diff [--json] [--config DIR]'],
  positionals: { NETWORK: 'The name of one network; without it, gateway.yaml and all networks that are served.' },
  options,
  examples: {
    'show base-mainnet': 'one network, with defaults filled in',
    'show --diff': 'what a reload would change',
  },
  async run(args, terminal) {
    const { env, out } = terminal
    const { values, positional: network } = readOptionalArgument(args, options)
    const config = await loadConfig(values.config, plugins, env)
    if (values.diff && network !== undefined) throw new UsageError('--diff shows all networks: omit NETWORK')
    // Variables that the gateway has may be unset here: the gateway says whether the files have problems.
    if (values.diff && config.gateway !== undefined)
      return printReload(
        config.gateway,
        { method: 'GET', json: values.json, refused: 'a reload would be refused', unchanged: 'a reload would change nothing' },
        terminal,
      )
    printProblems(config.problems, terminal)
    if (config.problems.length > 0) return exitCodes.config
    const shown = network === undefined ? config : selectNetwork(config, network)
    for (const line of values.json ? [JSON.stringify(toJson(shown))] : toYaml(shown)) out(line)
    return exitCodes.ok
  },
})

type Shown = Pick<LoadedConfig, 'effective' | 'unserved'>

/** The network's own file, or why it is not served. */
const selectNetwork = ({ effective, unserved }: Shown, network: string): Shown => {
  const shown = {
    effective: effective.filter(file => file.network === network),
    unserved: unserved.filter(each => each.network === network),
  }
  if (shown.effective.length + shown.unserved.length > 0) return shown
  const names = [...effective.flatMap(file => file.network ?? []), ...unserved.map(each => each.network)]
  throw new UsageError(`unknown network "${network}"${formatHint(didYouMean(network, names))}`)
}

const toYaml = ({ effective, unserved }: Shown): readonly string[] => [
  ...effective.flatMap((file, index) => [...(index > 0 ? ['---'] : []), `# ${file.source.file}`, formatEffectiveFile(file).trimEnd()]),
  ...unserved.map(({ network, variables }) => `# ${network} is not served: set ${variables.join(' or ')}`),
]

const toJson = ({ effective, unserved }: Shown): object => {
  const gateway = effective.find(file => file.network === undefined)
  const networks = effective.flatMap(({ network, value }) => (network === undefined ? [] : [[network, value]]))
  return { ...(gateway && { gateway: gateway.value }), networks: Object.fromEntries(networks), unserved }
}
