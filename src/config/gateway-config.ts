import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { isDirectory } from '../util/files.ts'
import { isJsonObject } from '../util/json.ts'
import { parseAddress, parseStoreAddress } from './addresses.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { checkOptions } from './check-options.ts'
import type { EffectiveFile } from './effective-file.ts'
import { isKebabCase, parseDuration } from './formats.ts'
import { gatewaySchema } from './gateway-schema.ts'
import { jwtProblems, withAlgorithms } from './jwt-options.ts'
import { positiveSizes } from './limits-options.ts'
import { listenRules } from './listen-options.ts'
import type { GatewayRule } from './listen-options.ts'
import { readHosts } from './hosts.ts'
import { networkSchema } from './network-schema.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import { browserUrlProblems, portalProblems } from './portal-options.ts'
import type { Problem } from './problem.ts'
import type { GatewayConfig } from './types.ts'
import type { Env } from './variables.ts'
import { checkTls } from './tls-options.ts'
import type { TlsCheck } from './tls-options.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'

export interface GatewayReadResult extends TlsCheck {
  readonly config: GatewayConfig | undefined
  readonly effective?: EffectiveFile
}

/** Without a section `networks`: each network is a file. */
const networkFile = {
  name: 'networks/NAME.yaml',
  schema: { type: 'object', properties: { ...networkSchema.properties, networks: networkSchema } },
} as const satisfies OptionsLocation['otherFile']

/** Reads `<dir>/gateway.yaml`. The config is present exactly when there are no problems. */
export const readGatewayConfig = (dir: string, env: Env): GatewayReadResult => {
  const source = readYamlFile(join(dir, 'gateway.yaml'), env)
  if (source.value === undefined) return { config: undefined, problems: missingFileProblems(source), warnings: [] }
  const {
    options,
    effective,
    problems: schemaProblems,
    warnings: schemaWarnings,
  } = checkOptions({ source, namePath: [], owner: '', schema: gatewaySchema, otherFile: networkFile })
  const ruleProblems = gatewayRules.flatMap(rule => rule(source))
  const { problems: tlsProblems, warnings: tlsWarnings, ...tlsCheck } = checkTls(source)
  const problems = [...source.problems, ...schemaProblems, ...ruleProblems, ...tlsProblems, ...unsetVariableProblems(source)]
  const warnings = [...schemaWarnings, ...tlsWarnings]
  const store = parseStoreAddress(options?.store ?? '', dirname(source.path))
  if (options === undefined || store === undefined || problems.length > 0) return { config: undefined, problems, warnings }

  const {
    listen: { rpc, portal, admin: adminAddress, ...listenOptions },
    workers,
    plans,
    admin,
    accessLog: { file, ...accessLog },
    portal: { secret, previousSecret, ...portalOptions },
    jwt,
    ...rest
  } = options
  const config: GatewayConfig = {
    ...rest,
    listen: {
      rpc: parseAddress(rpc),
      ...(portal !== undefined && { portal: parseAddress(portal) }),
      ...(adminAddress !== undefined && { admin: parseAddress(adminAddress) }),
      ...listenOptions,
    },
    admin: { ...admin, hosts: adminHosts(source, admin.url) },
    accessLog: { ...accessLog, ...(file !== undefined && { file: file === 'stdout' ? file : resolve(dirname(source.path), file) }) },
    portal: { ...portalOptions, secrets: [secret, previousSecret].filter(each => each !== undefined) },
    ...(jwt && { jwt: withAlgorithms(jwt) }),
    store,
    plans: Object.fromEntries(Object.entries(plans).map(([name, plan]) => [name, { name, ...plan }])),
    workers: parseWorkerCount(workers) ?? 1,
  }
  return { config, problems, warnings, ...tlsCheck, ...(isJsonObject(effective) && { effective: { source, value: effective } }) }
}

export const missingDirectoryHint = 'give the directory of the configuration with --config DIR, or write one with `tollgate init`'

const missingFileProblems = ({ path, problems, isEmpty }: YamlFile): readonly Problem[] => {
  const hint = !isDirectory(dirname(path))
    ? missingDirectoryHint
    : existsSync(path.replace(/yaml$/, 'yml'))
      ? 'rename gateway.yml to gateway.yaml'
      : 'it requires `store` and `plans`: copy the gateway.yaml that ships with the gateway, or that `tollgate init --config NEW_DIR` writes'
  const isMissing = isEmpty || problems.some(({ message }) => message === 'no such file')
  return isMissing ? problems.map(problem => ({ ...problem, hint })) : problems
}

/** Hosts that requests to the admin listener may name. */
const adminHosts = (source: YamlFile, url: string | undefined): readonly string[] => [
  ...readHosts(source, ['admin', 'hosts']).hosts.map(({ host }) => host),
  ...(url === undefined ? [] : [new URL(url).hostname.replaceAll(/[[\]]/g, '')]),
]

const validAdminHosts: GatewayRule = source => [
  ...readHosts(source, ['admin', 'hosts']).problems,
  ...browserUrlProblems(source, ['admin', 'url']),
]

const supportedStore: GatewayRule = source => {
  const text = source.textAt(['store'])
  if (text === undefined || parseStoreAddress(text, '') !== undefined) return []
  // What follows the scheme may hold a password; a value of the environment is not printed at all.
  const scheme = source.expandedTexts.has('/store') ? '' : (/^[a-z]+(?=:)/i.exec(text)?.[0] ?? '')
  const hint = scheme.startsWith('redis')
    ? 'the whole URL is redis://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX'
    : 'for example lmdb:../data, or redis://127.0.0.1:6379'
  const found = ['', 'lmdb', 'redis', 'rediss'].includes(scheme) ? '' : `: ${scheme} is not supported`
  return [source.problemAt(['store'], `store must be lmdb:PATH or redis://HOST:PORT${found}`, hint)]
}

/** The path of an embedded store is a directory, which is created if it does not exist. */
const storePathIsDirectory: GatewayRule = source => {
  const address = parseStoreAddress(source.textAt(['store']) ?? '', dirname(source.path))
  if (address?.kind !== 'lmdb' || isDirectory(nearestExisting(address.path))) return []
  return [source.problemAt(['store'], 'the path of the store is a file, not a directory', 'lmdb:PATH names a directory')]
}

/** The folder of a log is never created: a missing one is more often a typo, or a disk that is not mounted. */
const accessLogFileInFolder: GatewayRule = source => {
  const path = ['accessLog', 'file']
  const text = source.textAt(path)
  if (text === undefined || text === '' || text === 'stdout') return []
  const file = resolve(dirname(source.path), text)
  if (isDirectory(file)) return [source.problemAt(path, 'accessLog.file is a directory, not a file', 'add the name of a file')]
  if (isDirectory(dirname(file))) return []
  return [source.problemAt(path, 'the directory of accessLog.file does not exist', 'create the directory, or correct the path')]
}

const nearestExisting = (path: string): string => (existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path)))

const validWorkerCount: GatewayRule = source => {
  const value = source.valueAt(['workers'])
  if (value === undefined || value === '' || parseWorkerCount(value) !== undefined) return []
  return [source.problemAt(['workers'], `workers must be auto or an integer greater than 0, not ${source.describeValueAt(['workers'])}`)]
}

/** `auto`, or a number, which is a string when a variable holds it. */
const parseWorkerCount = (value: unknown): number | undefined => {
  if (value === 'auto') return availableParallelism()
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number > 0 ? number : undefined
}

const validPlanNames: GatewayRule = source => {
  const plans = source.valueAt(['plans'])
  if (plans === null || (isJsonObject(plans) && Object.keys(plans).length === 0)) {
    const hint = 'for example core: { dailyCredits: 3000000 }'
    return [source.problemAtKey(['plans'], 'plans must contain at least one plan', hint)]
  }
  const wrong = Object.keys(isJsonObject(plans) ? plans : {}).filter(name => !isKebabCase(name))
  return wrong.map(name => source.problemAtKey(['plans', name], `the plan name \`${name}\` must be kebab-case`))
}

const planLimits: GatewayRule = source => {
  const plans = source.valueAt(['plans'])
  return Object.entries(isJsonObject(plans) ? plans : {}).flatMap(([name, plan]) =>
    Object.entries({ burst: 'rate', creditBurst: 'creditRate' }).flatMap(([burst, rate]) =>
      isJsonObject(plan) && plan[burst] !== undefined && plan[rate] === undefined
        ? [source.problemAtKey(['plans', name, burst], `\`${burst}\` requires \`${rate}\`, for example 100/s`)]
        : [],
    ),
  )
}

const minUsageRetention: GatewayRule = source => {
  const path = ['usage', 'retention']
  const retentionMs = parseDuration(source.textAt(path) ?? '')
  if (retentionMs === undefined || retentionMs >= minUsageRetentionMs) return []
  return [source.problemAt(path, `usage.retention must be at least 1d, not ${source.describeValueAt(path)}`)]
}

const minUsageRetentionMs = 86_400_000

const gatewayRules: readonly GatewayRule[] = [
  ...listenRules,
  validAdminHosts,
  supportedStore,
  storePathIsDirectory,
  accessLogFileInFolder,
  validWorkerCount,
  validPlanNames,
  planLimits,
  positiveSizes,
  minUsageRetention,
  portalProblems,
  jwtProblems,
]
