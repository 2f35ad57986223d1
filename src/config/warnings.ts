import { Secret } from '../plugin/secret.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import type { Path } from '../util/json.ts'
import { isJsonObject } from '../util/json.ts'
import { developmentChainIds, wellKnownChains } from './chains.ts'
import { parseDuration } from './formats.ts'
import type { Problem } from './problem.ts'
import type { StepDraft } from './steps.ts'
import type { YamlFile } from './yaml-file.ts'
import type { GatewayConfig, NetworkConfig } from './types.ts'

/** A network, as far as it could be read; without options where these have problems. */
interface NetworkDraft {
  readonly options: Pick<NetworkConfig, 'chainId' | 'blockTime'> | undefined
  readonly steps: readonly StepDraft[]
}

/** What is valid in the file of a network, but probably not meant. */
export const findWarnings = (
  source: YamlFile,
  { options, steps }: NetworkDraft,
  plugins: readonly LoadablePlugin[],
): readonly Problem[] => [
  ...(options === undefined ? [] : [...unusualBlockTime(source, options), ...missingDevNode(source, options)]),
  ...missingSteps(source, steps, plugins),
  ...stepsWithoutHeads(steps),
  ...steps.flatMap(draft => draft.warnings),
  ...steps.flatMap(duplicateUrls),
  ...steps.flatMap(undescribedOptions),
]

/** Editors and `plugins describe` show the descriptions. Those of the built-in plugins are tested. */
const undescribedOptions = ({ name, step, problemAtStep }: StepDraft): readonly Problem[] => {
  if (step?.file === undefined) return []
  const undescribed = Object.entries(step.plugin.options.properties ?? {}).filter(([, { description }]) => !description)
  return undescribed.map(([option]) =>
    problemAtStep(`the option \`${option}\` of ${name} has no description`, 'editors show the descriptions of options'),
  )
}

/** A block time that differs from that of a well-known chain by more than this factor has probably the wrong unit. */
const maxBlockTimeFactor = 10

const unusualBlockTime = (source: YamlFile, { chainId, blockTime }: Pick<NetworkConfig, 'chainId' | 'blockTime'>): readonly Problem[] => {
  const known = wellKnownChains.find(chain => chain.chainId === chainId)
  if (known === undefined) return []
  const factor = blockTime / (parseDuration(known.blockTime) ?? blockTime)
  if (!(factor > maxBlockTimeFactor || factor < 1 / maxBlockTimeFactor)) return []
  const message = `blockTime is ${source.describeValueAt(['blockTime'])}, but ${known.name} (chain id ${chainId}) usually has ${known.blockTime}`
  return [source.problemAt(['blockTime'], message, `write \`blockTime: ${known.blockTime}\``)]
}

/** Written as `false`, it is meant. */
const missingDevNode = (source: YamlFile, { chainId }: Pick<NetworkConfig, 'chainId'>): readonly Problem[] => {
  if (!developmentChainIds.has(chainId) || source.valueAt(['devNode']) !== undefined) return []
  const message = `chain id ${chainId} is that of development nodes: without \`devNode: true\` answers are cached, and the height goes back late`
  return [source.problemAt(['chainId'], message, 'write `devNode: true`, or `devNode: false` where blocks are not taken back')]
}

const missingSteps = (source: YamlFile, steps: readonly StepDraft[], plugins: readonly LoadablePlugin[]): readonly Problem[] => {
  // A pipeline that is missing altogether is a problem of its own.
  if (!Array.isArray(source.valueAt(['pipeline']))) return []
  return plugins.flatMap(({ name, whenMissing }) =>
    whenMissing === undefined || steps.some(({ plugin }) => plugin?.name === name)
      ? []
      : [source.problemAtKey(['pipeline'], `the pipeline has no \`${name}\`: ${whenMissing}`)],
  )
}

const stepsWithoutHeads = (steps: readonly StepDraft[]): readonly Problem[] => {
  // A plugin that could not be loaded may track heads.
  if (steps.some(({ plugin }) => plugin === undefined || plugin.tracksHeads)) return []
  return steps.flatMap(({ name, plugin, problemAtStep }) => {
    if (plugin?.withoutHeads === undefined) return []
    const message = `${name} requires the heads of nodes, which no plugin of the pipeline tracks: ${plugin.withoutHeads}`
    return [problemAtStep(message, 'use failover, or a plugin with `tracksHeads: true` that calls services.heads.track()')]
  })
}

/** Two upstreams with one URL are one node: no failover, and twice the load. */
const duplicateUrls = ({ step }: StepDraft): readonly Problem[] => {
  if (step === undefined) return []
  const firstByUrl = new Map<string, Path>()
  return urlsIn(step.options).flatMap(({ path, url }) => {
    const first = firstByUrl.get(url)
    firstByUrl.set(url, first ?? path)
    return first === undefined ? [] : [step.problemAt(path, `${step.name}: the same URL as in line ${step.problemAt(first, '').line}`)]
  })
}

interface LocatedUrl {
  readonly path: Path
  readonly url: string
}

const urlsIn = (value: unknown, path: Path = []): readonly LocatedUrl[] => {
  if (value instanceof Secret) return URL.canParse(value.reveal()) ? [{ path, url: new URL(value.reveal()).href }] : []
  if (Array.isArray(value)) return value.flatMap((item, i) => urlsIn(item, [...path, i]))
  return isJsonObject(value) ? Object.entries(value).flatMap(([key, item]) => urlsIn(item, [...path, key])) : []
}

/** Does a plugin of the pipeline apply the rates of plans and keys? */
export const limitsRates = ({ steps }: Pick<NetworkConfig, 'steps'>): boolean =>
  steps.some(({ plugin }) => plugin.limitsRates !== undefined)

export const missingRateLimit = 'add a plugin that limits rates, such as rate-limit, to the pipeline'

/** Rates of plans that some networks do not apply. */
export const rateWarnings = (
  source: YamlFile,
  { plans }: Pick<GatewayConfig, 'plans'>,
  networks: readonly Pick<NetworkConfig, 'name' | 'steps'>[],
): readonly Problem[] => {
  const names = networks.filter(network => !limitsRates(network)).map(({ name }) => name)
  if (names.length === 0) return []
  const limited = Object.values(plans).filter(({ rate }) => rate !== undefined)
  const where = names.length === 1 ? `network ${names[0]}` : `networks ${names.join(', ')}`
  return limited.map(({ name }) =>
    source.problemAtKey(['plans', name, 'rate'], `plans.${name}.rate has no effect in the ${where}`, missingRateLimit),
  )
}
