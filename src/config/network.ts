import { basename } from 'node:path'
import type { AnyPlugin } from '../plugin.ts'
import type { ObjectSchema } from '../schema.ts'
import { parseDuration } from './formats.ts'
import { readHosts } from './hosts.ts'
import type { ListedHost } from './hosts.ts'
import { unsetProblems } from './leave-out.ts'
import type { Tables } from './methods.ts'
import { checkOptions } from './options.ts'
import { checkOrder } from './order.ts'
import { isName } from './path.ts'
import type { Problem } from './problem.ts'
import { readSource } from './source.ts'
import type { Source } from './source.ts'
import { readStep } from './steps.ts'
import type { Draft } from './steps.ts'
import type { NetworkConfig, Unserved } from './types.ts'
import type { Env } from './variables.ts'
import { describeFound } from './words.ts'

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
export interface NetworkFile {
  readonly problems: readonly Problem[]
  readonly hosts: readonly ListedHost[]
  /** There when the file has no problems and the network can be served. */
  readonly config?: NetworkConfig
  readonly unserved?: Unserved
}

/** What all networks of a configuration have in common. */
export interface Surroundings {
  /** The plugins that come with the gateway. */
  readonly plugins: readonly AnyPlugin[]
  readonly tables: Tables
  readonly env: Env
}

export const readNetwork = async (path: string, { plugins, tables, env }: Surroundings): Promise<NetworkFile> => {
  const source = readSource(path, env)
  if (source.value === undefined) return { problems: source.problems, hosts: [] }
  const base = checkOptions({ source, path: [], name: '', schema: networkSchema })
  const { hosts, problems: wrongHosts } = readHosts(source)
  const { table, problems: wrongTable } = tables.read(source)
  const drafts = await readPipeline(source, plugins)
  const problems = [
    ...source.problems,
    ...base.problems,
    ...wrongHosts,
    ...wrongTable,
    ...checkName(source),
    ...checkBlockTime(source),
    ...checkPipeline(source, drafts, plugins),
    ...unsetProblems(
      source,
      drafts.flatMap(draft => draft.leftOut),
    ),
  ]
  const missing = [...new Set(drafts.flatMap(draft => draft.missing))]
  if (missing.length > 0) return { problems, hosts, unserved: { network: nameOfFile(path), variables: missing } }
  if (problems.length > 0 || base.options === undefined || table === undefined) return { problems, hosts }
  const { network: name, chainId, blockTime } = base.options
  const config: NetworkConfig = {
    name,
    chainId,
    blockTime,
    file: source.file,
    methods: table,
    hosts: hosts.map(({ host }) => host),
    steps: drafts.flatMap(({ step }) => step ?? []),
  }
  return { problems, hosts, config }
}

const nameOfFile = (path: string): string => basename(path, '.yaml')

const readPipeline = (source: Source, plugins: readonly AnyPlugin[]): Promise<readonly Draft[]> => {
  const list = source.at(['pipeline'])
  const said = source.at(['optional'])
  const optional = said === true || (said === 'true' && source.texts.get('/optional')?.bare === true)
  return Promise.all(Array.isArray(list) ? list.map((_, index) => readStep(index, { source, plugins, optional })) : [])
}

const checkPipeline = (source: Source, drafts: readonly Draft[], plugins: readonly AnyPlugin[]): readonly Problem[] => {
  const list = source.at(['pipeline'])
  if (Array.isArray(list) && list.length === 0) {
    const hint = 'it ends with `- upstream: {}`'
    return [source.problemAtKey(['pipeline'], 'the pipeline is empty: no plugin answers', hint)]
  }
  return [...drafts.flatMap(draft => draft.problems), ...checkOrder(drafts, plugins)]
}

const checkName = (source: Source): readonly Problem[] => {
  const path = ['network']
  const name = source.textAt(path)
  if (name === undefined) return []
  const found = describeFound(source, path)
  if (!isName(name)) return [source.problem(path, `network must be kebab-case, not ${found}`)]
  const file = nameOfFile(source.path)
  return file === name
    ? []
    : [source.problem(path, `network is ${found}, but the file is called ${file}.yaml`, `write \`network: ${file}\`, or rename the file`)]
}

const checkBlockTime = (source: Source): readonly Problem[] => {
  const path = ['blockTime']
  const never = parseDuration(source.textAt(path) ?? '') === 0
  return never ? [source.problem(path, `blockTime must be more than nothing, not ${describeFound(source, path)}`)] : []
}
