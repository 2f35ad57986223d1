import { basename } from 'node:path'
import type { AnyPlugin } from '../plugin/plugin.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { parseDuration } from './formats.ts'
import { readHosts } from './hosts.ts'
import type { ListedHost } from './hosts.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import type { MethodTables } from './method-tables.ts'
import { checkOptions } from './check-options.ts'
import { checkOrder } from './pipeline-order.ts'
import { isKebabCase } from './path.ts'
import type { Problem } from './problem.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'
import { readStep } from './steps.ts'
import type { StepDraft } from './steps.ts'
import type { NetworkConfig, UnservedNetwork } from './types.ts'
import type { Env } from './variables.ts'
import { describeValue } from './describe.ts'

/** What a network's file may say; what a step of its pipeline may say depends on the plugin. */
const networkSchema = {
  type: 'object',
  description: 'One network: the hosts it is served on, and the plugins that each call passes.',
  properties: {
    network: { type: 'string', description: 'The name of the network, in kebab-case; the file is called the same.' },
    chainId: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'The chain id (EIP-155).' },
    blockTime: { type: 'string', format: 'duration', description: 'The usual time between two blocks, such as 12s.' },
    methods: { type: 'string', description: 'The method table: the name of a file in methods/, without its ending.' },
    optional: {
      type: 'boolean',
      default: false,
      description: 'Do without what needs variables that are not set; with too little left, do not serve the network.',
    },
    hosts: {
      type: 'array',
      minItems: 1,
      description: 'The hosts that callers use for this network, without port. No other network may list them.',
      items: { type: 'string', description: 'A host name or an IP address.' },
    },
    pipeline: {
      type: 'array',
      description: 'The plugins that each call passes, outermost first; the last one answers.',
      items: { description: 'A map with one key, the name of a plugin, that holds its options.' },
    },
  },
  required: ['network', 'chainId', 'blockTime', 'methods', 'hosts', 'pipeline'],
} as const satisfies ObjectSchema

/** One networks/<name>.yaml, as far as it could be read. */
export interface NetworkReadResult {
  readonly problems: readonly Problem[]
  readonly hosts: readonly ListedHost[]
  /** There when the file has no problems and the network can be served. */
  readonly config?: NetworkConfig
  readonly unserved?: UnservedNetwork
}

/** What all networks of a configuration have in common. */
export interface NetworkReadContext {
  /** The plugins that come with the gateway. */
  readonly plugins: readonly AnyPlugin[]
  readonly tables: MethodTables
  readonly env: Env
}

export const readNetworkConfig = async (path: string, { plugins, tables, env }: NetworkReadContext): Promise<NetworkReadResult> => {
  const source = readYamlFile(path, env)
  if (source.value === undefined) return { problems: source.problems, hosts: [] }
  const checked = checkOptions({ source, namePath: [], owner: '', schema: networkSchema })
  const { hosts, problems: hostProblems } = readHosts(source)
  const { table, problems: tableProblems } = tables.read(source)
  const steps = await readPipeline(source, plugins)
  const problems = [
    ...source.problems,
    ...checked.problems,
    ...hostProblems,
    ...tableProblems,
    ...checkName(source),
    ...checkBlockTime(source),
    ...checkPipeline(source, steps, plugins),
    ...unsetVariableProblems(
      source,
      steps.flatMap(draft => draft.omitted),
    ),
  ]
  const missingVariables = [...new Set(steps.flatMap(draft => draft.missingVariables))]
  if (missingVariables.length > 0) return { problems, hosts, unserved: { network: networkNameOf(path), variables: missingVariables } }
  if (problems.length > 0 || checked.options === undefined || table === undefined) return { problems, hosts }
  const { network: name, chainId, blockTime } = checked.options
  const config: NetworkConfig = {
    name,
    chainId,
    blockTime,
    file: source.file,
    methods: table,
    hosts: hosts.map(({ host }) => host),
    steps: steps.flatMap(({ step }) => step ?? []),
  }
  return { problems, hosts, config }
}

const networkNameOf = (path: string): string => basename(path, '.yaml')

const readPipeline = (source: YamlFile, plugins: readonly AnyPlugin[]): Promise<readonly StepDraft[]> => {
  const list = source.valueAt(['pipeline'])
  const optionalValue = source.valueAt(['optional'])
  const optional = optionalValue === true || (optionalValue === 'true' && source.expandedTexts.get('/optional')?.isBareVariable === true)
  return Promise.all(Array.isArray(list) ? list.map((_, index) => readStep(index, { source, plugins, optional })) : [])
}

const checkPipeline = (source: YamlFile, steps: readonly StepDraft[], plugins: readonly AnyPlugin[]): readonly Problem[] => {
  const list = source.valueAt(['pipeline'])
  if (Array.isArray(list) && list.length === 0) {
    const hint = 'it ends with `- upstream: {}`'
    return [source.problemAtKey(['pipeline'], 'the pipeline is empty: no plugin answers', hint)]
  }
  return [...steps.flatMap(draft => draft.problems), ...checkOrder(steps, plugins)]
}

const checkName = (source: YamlFile): readonly Problem[] => {
  const path = ['network']
  const name = source.textAt(path)
  if (name === undefined) return []
  const found = describeValue(source, path)
  if (!isKebabCase(name)) return [source.problemAt(path, `network must be kebab-case, not ${found}`)]
  const file = networkNameOf(source.path)
  return file === name
    ? []
    : [source.problemAt(path, `network is ${found}, but the file is called ${file}.yaml`, `write \`network: ${file}\`, or rename the file`)]
}

const checkBlockTime = (source: YamlFile): readonly Problem[] => {
  const path = ['blockTime']
  const isZero = parseDuration(source.textAt(path) ?? '') === 0
  return isZero ? [source.problemAt(path, `blockTime must be greater than 0, not ${describeValue(source, path)}`)] : []
}
