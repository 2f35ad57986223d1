import { basename } from 'node:path'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { isJsonObject } from '../util/json.ts'
import type { ConfigFiles } from './config-files.ts'
import { effectiveStep } from './effective-file.ts'
import type { EffectiveFile } from './effective-file.ts'
import { jsonPointer } from '../util/json-path.ts'
import { isKebabCase } from './formats.ts'
import { listHosts } from './hosts.ts'
import type { ListedHost } from './hosts.ts'
import { networkSchema } from './network-options.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import type { MethodTables } from './method-tables.ts'
import { checkOptions } from './check-options.ts'
import { checkOrder } from './pipeline-order.ts'
import type { Problem } from './problem.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'
import { findWarnings } from './warnings.ts'
import { checkAgainstOthers, readStep } from './steps.ts'
import type { StepDraft } from './steps.ts'
import type { NetworkConfig, UnservedNetwork } from './types.ts'
import type { Env } from './variables.ts'

/** One networks/<name>.yaml, as far as it could be read. */
export interface NetworkReadResult {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  readonly hosts: readonly ListedHost[]
  /** Present when the file has no problems and the network can be served. */
  readonly config?: NetworkConfig
  readonly effective?: EffectiveFile
  readonly unserved?: UnservedNetwork
}

/** What all networks of a configuration have in common. */
export interface NetworkReadContext {
  /** The plugins that come with the gateway. */
  readonly plugins: readonly LoadablePlugin[]
  readonly tables: MethodTables
  readonly env: Env
  /** Those on disk unless given. */
  readonly files?: ConfigFiles
}

export const readNetworkConfig = async (path: string, { plugins, tables, env, files }: NetworkReadContext): Promise<NetworkReadResult> => {
  const source = readYamlFile(path, env, files)
  if (source.value === undefined) return { problems: unreadableFileProblems(source), warnings: [], hosts: [] }
  const checked = checkOptions({ source, namePath: [], owner: '', schema: networkSchema })
  const hosts = listHosts(source)
  const { table, problems: tableProblems } = tables.read(source)
  const steps = await readPipeline(source, plugins)
  const omitted = steps.flatMap(draft => draft.omitted)
  const problems = [
    ...source.problems,
    ...checked.problems,
    ...tableProblems,
    ...checkName(source),
    ...steps.flatMap(draft => draft.problems),
    ...checkOrder(steps, plugins),
    ...unsetVariableProblems(source, {
      omitted,
      broken: isOptional(source) ? brokenParts(source, checked.problems.length > 0, steps) : [],
    }),
  ]
  const warnings = [...checked.warnings, ...findWarnings(source, { options: checked.options, steps }, plugins)]
  const missingVariables = [...new Set(steps.flatMap(draft => draft.missingVariables))]
  if (missingVariables.length > 0)
    return { problems, warnings, hosts, unserved: { network: networkNameOf(path), variables: missingVariables } }
  if (problems.length > 0 || checked.options === undefined || table === undefined) return { problems, warnings, hosts }
  const { network: name, chainId, blockTime, devNode, hosts: servedHosts } = checked.options
  const config: NetworkConfig = {
    name,
    chainId,
    blockTime,
    devNode,
    file: source.file,
    methods: table,
    hosts: servedHosts,
    steps: steps.flatMap(({ step }) => step ?? []),
  }
  const effectiveSteps = steps.map(draft => draft.effective)
  return {
    problems,
    warnings,
    hosts,
    config,
    effective: toEffectiveFile({ source, omitted, network: name }, checked.effective, effectiveSteps),
  }
}

/** The gateway keeps it: with nothing else of what was read. */
const toEffectiveFile = (
  file: Omit<EffectiveFile, 'value'>,
  effective: () => unknown,
  effectiveSteps: readonly StepDraft['effective'][],
): EffectiveFile => ({
  ...file,
  get value() {
    return effectiveValue(effective(), effectiveSteps)
  },
})

const effectiveValue = (value: unknown, effectiveSteps: readonly StepDraft['effective'][]): EffectiveFile['value'] => {
  const { pipeline, ...rest } = isJsonObject(value) ? value : {}
  const written: readonly unknown[] = Array.isArray(pipeline) ? pipeline : []
  return { ...rest, pipeline: written.map((step, index) => effectiveStep(step, effectiveSteps[index]?.())) }
}

const unreadableFileProblems = ({ problems, isEmpty }: YamlFile): readonly Problem[] =>
  isEmpty ? problems.map(problem => ({ ...problem, hint: 'copy another network and edit it, or delete the file' })) : problems

const networkNameOf = (path: string): string => basename(path, '.yaml')

/** The steps of the file's pipeline. */
export const readPipeline = async (source: YamlFile, plugins: readonly LoadablePlugin[]): Promise<readonly StepDraft[]> => {
  const list = source.valueAt(['pipeline'])
  const optional = isOptional(source)
  const count = Array.isArray(list) ? list.length : 0
  return checkAgainstOthers(await Promise.all(Array.from({ length: count }, (_, index) => readStep(index, { source, plugins, optional }))))
}

const isOptional = (source: YamlFile): boolean => {
  const value = source.valueAt(['optional'])
  return value === true || (value === 'true' && source.expandedTexts.get('/optional')?.isBareVariable === true)
}

/** The steps that have problems; with problems of the file itself, all that is outside of the steps. */
const brokenParts = ({ problems, value }: YamlFile, hasFileProblems: boolean, steps: readonly StepDraft[]): readonly string[] => {
  if (problems.length > 0) return ['']
  const brokenSteps = steps.flatMap(({ problems }, index) => (problems.length > 0 ? [jsonPointer(['pipeline', index])] : []))
  if (!hasFileProblems || !isJsonObject(value)) return brokenSteps
  return [
    ...brokenSteps,
    ...Object.keys(value)
      .filter(key => steps.length === 0 || key !== 'pipeline')
      .map(key => jsonPointer([key])),
  ]
}

/** A name that is no name is a problem of its own. */
const checkName = (source: YamlFile): readonly Problem[] => {
  const path = ['network']
  const name = source.textAt(path)
  const file = networkNameOf(source.path)
  if (name === undefined || name === file || !isKebabCase(name)) return []
  const message = `network is ${source.describeValueAt(path)}, but the file is named ${file}.yaml`
  return [source.problemAt(path, message, `write \`network: ${file}\`, or rename the file`)]
}
