import { hash } from 'node:crypto'
import type { EffectiveFile } from '../config/effective-file.ts'
import type { PartialProblem } from '../config/problem.ts'
import { revealSecrets } from '../plugin/secret.ts'
import { isJsonObject } from '../util/json.ts'
import type { Json } from '../util/json.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { Config, GatewayConfig, NetworkConfig, Step } from '../config/types.ts'

/** A configuration without problems. */
type ComparableConfig = Pick<Config, 'networks'> & { readonly gateway: GatewayConfig }

/** One difference between two configurations. */
export interface ConfigChange {
  readonly kind: 'added' | 'changed' | 'removed'
  /** `base-mainnet`, `base-mainnet.cache.maxBytes`, `plans.core.dailyCredits`. The values are not named: they may be secrets. */
  readonly path: string
  /** A reload does not apply it; a restart does. */
  readonly needsRestart: boolean
}

/** The keys of gateway.yaml that a reload applies; networks and method tables always. */
const reloadableKeys = [
  'plans',
  'memory',
  'log',
  'accessLog',
  'requestLog',
  'drain',
  'jwt',
] as const satisfies readonly (keyof GatewayConfig)[]

/** What runs after a reload: what needs a restart stays as it was. */
export const reloadGatewayConfig = (running: GatewayConfig, read: GatewayConfig): GatewayConfig => {
  const kept = Object.entries(running).filter(([key]) => !isReloadable(key))
  const reloaded = Object.entries(read).filter(([key]) => isReloadable(key))
  return Object.fromEntries([...kept, ...reloaded]) as unknown as GatewayConfig // each key is of one of the two
}

/** The files of what runs after a reload: gateway.yaml as reloadGatewayConfig() has it. */
export const reloadEffectiveFiles = (running: readonly EffectiveFile[], read: readonly EffectiveFile[]): readonly EffectiveFile[] => {
  const runningGateway = running.find(({ network }) => network === undefined)
  return read.map(file => (runningGateway !== undefined && file.network === undefined ? reloadGatewayFile(runningGateway, file) : file))
}

const reloadGatewayFile = (running: EffectiveFile, read: EffectiveFile): EffectiveFile => {
  const fileOf = (key: unknown): EffectiveFile => (isReloadable(String(key)) ? read : running)
  const keys = [...new Set([...Object.keys(running.value), ...Object.keys(read.value)])].filter(key =>
    Object.hasOwn(fileOf(key).value, key),
  )
  return {
    ...read,
    source: { ...read.source, valueAt: path => fileOf(path[0]).source.valueAt(path) },
    value: Object.fromEntries(keys.map(key => [key, fileOf(key).value[key]])),
  }
}

/** What differs in effect, defaults included: what a reload from one configuration to the other would change. */
export const compareConfigs = (before: ComparableConfig, after: ComparableConfig): readonly ConfigChange[] => [
  ...compareValues(gatewayValues(before.gateway), gatewayValues(after.gateway), path => !isReloadable(path)),
  ...compareNetworks(before.networks, after.networks),
]

const isReloadable = (path: string): boolean => reloadableKeys.some(key => path === key || path.startsWith(`${key}.`))

/** `+ base-mainnet`, `~ plans.core.dailyCredits`, `- devnet`; and whether it needs a restart. */
export const formatChange = ({ kind, path, needsRestart }: ConfigChange): string =>
  `${{ added: '+', changed: '~', removed: '-' }[kind]} ${path}${needsRestart ? ' (needs a restart)' : ''}`

/** Why a reload is refused: `file:line:column: message; hint`; without a place, the rest of that. */
export const formatReloadProblem = ({ file, line, column, message, hint }: PartialProblem): string =>
  `${file === undefined ? '' : `${file}:${line}:${column}: `}${message}${hint === undefined ? '' : `; ${hint}`}`

/** The same for two configurations without differences. */
export const configId = ({ gateway, networks }: ComparableConfig): string =>
  hash('sha256', JSON.stringify([[...gatewayValues(gateway)].sort(), networks.map(networkId)]), 'base64url')

/** The same for two networks without differences. */
export const networkId = (network: NetworkConfig): string =>
  hash('sha256', JSON.stringify([network.name, tableId(network.methods.source), ...ownValues(network)]), 'base64url')

const tableIds = new WeakMap<object, string>()

/** Many networks have one method table, which is longer than all else that they have. */
const tableId = (source: NetworkConfig['methods']['source']): string =>
  getOrCreate(tableIds, source, () => hash('sha256', JSON.stringify(revealSecrets(source)), 'base64url'))

const compareNetworks = (before: readonly NetworkConfig[], after: readonly NetworkConfig[]): readonly ConfigChange[] => {
  const [oldByName, newByName] = [before, after].map(networks => new Map(networks.map(network => [network.name, network])))
  const removed = before.filter(({ name }) => newByName?.has(name) === false)
  return [
    ...removed.map(({ name }): ConfigChange => ({ kind: 'removed', path: name, needsRestart: false })),
    ...after.flatMap(network => compareNetwork(oldByName?.get(network.name), network)),
  ]
}

const compareNetwork = (before: NetworkConfig | undefined, after: NetworkConfig): readonly ConfigChange[] => {
  const { name, steps } = after
  const staleFiles = steps.flatMap(({ file }) => (file?.isStale === true ? [file.shownAs] : []))
  return [
    ...(before === undefined
      ? [{ kind: 'added', path: name, needsRestart: false } as const]
      : compareValues(...networkValues(before, after), () => false).map(change => ({
          ...change,
          path: `${name}.${change.path}`,
        }))),
    ...staleFiles.map(file => ({ kind: 'changed', path: `${name}: the code of ${file}`, needsRestart: true }) as const),
  ]
}

/** Plain values by their paths. */
type Values = ReadonlyMap<string, string>

const compareValues = (before: Values, after: Values, needsRestart: (path: string) => boolean): readonly ConfigChange[] => {
  const changes = new Map<string, ConfigChange['kind']>()
  for (const path of new Set([...before.keys(), ...after.keys()])) {
    if (before.get(path) === after.get(path)) continue
    if (!before.has(path)) changes.set(shortestNew(path, before), 'added')
    else if (!after.has(path)) changes.set(shortestNew(path, after), 'removed')
    else changes.set(path, 'changed')
  }
  const paths = [...changes.keys()].sort()
  return paths.map(path => ({ kind: changes.get(path) ?? 'changed', path, needsRestart: needsRestart(path) }))
}

/** The shortest beginning of the path, in whole members, that none of the values has: `plans.growth` for `plans.growth.dailyCredits`. */
const shortestNew = (path: string, values: Values): string => {
  const members = path.split('.')
  const prefixes = members.map((_, i) => members.slice(0, i + 1).join('.'))
  return prefixes.find(prefix => ![...values.keys()].some(other => other === prefix || other.startsWith(`${prefix}.`))) ?? path
}

const gatewayValues = (gateway: GatewayConfig): Values => new Map(flatten(revealSecrets(gateway)))

/** Method tables are compared by their hashes first: to flatten those of 500 networks would take seconds. */
const networkValues = (...networks: readonly [before: NetworkConfig, after: NetworkConfig]): readonly [Values, Values] => {
  const [before, after] = networks
  const valuesOf = tableId(before.methods.source) === tableId(after.methods.source) ? ownValues : allValues
  return [new Map(valuesOf(before)), new Map(valuesOf(after))]
}

const allValues = (network: NetworkConfig): ReturnType<typeof ownValues> => [
  ...flatten(revealSecrets(network.methods.source)).map(([path, value]) => [`methods.${path}`, value] as const),
  ...ownValues(network),
]

/** All but the method table. */
const ownValues = ({
  name: _name,
  file: _file,
  methods: _methods,
  steps,
  ...rest
}: NetworkConfig): readonly (readonly [path: string, value: string])[] => [
  ...flatten(revealSecrets(rest)),
  [
    'pipeline',
    JSON.stringify(steps.map(({ name, plugin, file, timeoutMs }) => [name, plugin.name, file?.path ?? null, timeoutMs ?? null])),
  ],
  ...steps.flatMap(stepValues),
]

const stepValues = ({ name, options }: Step): readonly (readonly [path: string, value: string])[] =>
  flatten(revealSecrets(options)).map(([path, value]) => [path === '' ? name : `${name}.${path}`, value])

/** Items of a list are named by their `name`, if they have one. A list of plain values is one value. */
const flatten = (value: Json, path = ''): readonly (readonly [path: string, value: string])[] => {
  const entries = isJsonObject(value)
    ? Object.entries(value)
    : isNamedList(value)
      ? value.map(item => [item.name, item] as const)
      : undefined
  if (entries === undefined) return [[path, JSON.stringify(value)]]
  return entries.flatMap(([name, item]) => flatten(item, path === '' ? name : `${path}.${name}`))
}

type NamedItem = { readonly name: string } & { readonly [member: string]: Json }

const isNamedList = (value: Json): value is readonly NamedItem[] =>
  Array.isArray(value) && value.length > 0 && value.every(item => isJsonObject(item) && typeof item['name'] === 'string')
