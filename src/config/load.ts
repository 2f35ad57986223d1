import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { isDirectory } from '../util/files.ts'
import { directoryError, displayPath, fileNamesIn, filesOf, filesOnDisk, recordTexts, yamlBaseNames } from './config-files.ts'
import type { FileTexts } from './config-files.ts'
import type { EffectiveFile } from './effective-file.ts'
import { missingDirectoryHint, parseAcceptedGatewayConfig, readGatewayConfig } from './gateway-config.ts'
import type { GatewayReadResult } from './gateway-config.ts'
import { openMethodTables } from './method-tables.ts'
import { duplicateHosts } from './hosts.ts'
import { readNetworkConfig } from './network-config.ts'
import type { NetworkReadContext, NetworkReadResult } from './network-config.ts'
import { isSamePlace, sortProblems } from './problem.ts'
import type { Problem } from './problem.ts'
import { rateWarnings } from './warnings.ts'
import { hostsWithoutCertificate } from './tls-check.ts'
import type { Config, GatewayConfig } from './types.ts'
import type { Env } from './variables.ts'

/** A configuration directory that was just read. */
export interface LoadedConfig extends Config {
  /** gateway.yaml and the files of the served networks, as far as they have no problems. */
  readonly effective: readonly EffectiveFile[]
  /** Of all its files, for loadAcceptedConfig(). */
  readonly texts: FileTexts
}

/** Reads a configuration directory and collects the problems of all its files. Opens nothing else. */
export const loadConfig = async (dir: string, plugins: readonly LoadablePlugin[], env: Env): Promise<LoadedConfig> => {
  const root = resolve(dir)
  if (!isDirectory(root))
    return { gateway: undefined, networks: [], unserved: [], problems: [noDirectoryProblem(root)], warnings: [], effective: [], texts: {} }
  const { files, texts } = recordTexts(root, filesOnDisk)
  const gateway = readGatewayConfig(root, env, files)
  const networks = await readNetworks(root, { plugins, env, files })
  const misnamed = misnamedFileProblems(root, 'networks')
  const problems = [
    ...gateway.problems,
    ...networks.flatMap(network => network.problems),
    ...duplicateHosts(networks.flatMap(network => network.hosts)),
    ...misnamed,
    ...misnamedFileProblems(root, 'methods'),
    // The problem of a misnamed file already says why no network is configured.
    ...(networks.length + misnamed.length === 0 ? [noNetworksProblem(root)] : []),
  ]
  return {
    gateway: gateway.config,
    networks: networks.flatMap(({ config }) => config ?? []),
    unserved: networks.flatMap(({ unserved }) => unserved ?? []),
    effective: [gateway, ...networks].flatMap(({ effective }) => effective ?? []),
    texts,
    problems: sortProblems(problems),
    // What is a problem already needs no warning.
    warnings: sortProblems(warningsOf(gateway, networks).filter(warning => !problems.some(problem => isSamePlace(problem, warning)))),
  }
}

/** The configuration of texts that another process has accepted, whatever has become of the files since. Plugins may be gone: a problem. */
export const loadAcceptedConfig = async (
  dir: string,
  texts: FileTexts,
  plugins: readonly LoadablePlugin[],
  env: Env,
): Promise<Config & { readonly gateway: GatewayConfig }> => {
  const root = resolve(dir)
  const networks = await readNetworks(root, { plugins, env, files: filesOf(root, texts) })
  return {
    gateway: parseAcceptedGatewayConfig(texts, root, env),
    networks: networks.flatMap(({ config }) => config ?? []),
    unserved: networks.flatMap(({ unserved }) => unserved ?? []),
    problems: sortProblems(networks.flatMap(({ problems }) => problems)),
    warnings: [],
  }
}

const readNetworks = (
  root: string,
  { plugins, env, files }: Required<Omit<NetworkReadContext, 'tables'>>,
): Promise<readonly NetworkReadResult[]> => {
  const tables = openMethodTables(root, files)
  return Promise.all(networkNames(root, files).map(name => readNetworkConfig(networkFilePath(root, name), { plugins, tables, env, files })))
}

/** What is valid in each file, but probably not meant, or does not fit the other files. */
const warningsOf = (gateway: GatewayReadResult, networks: readonly NetworkReadResult[]): readonly Problem[] => {
  const { certificate, config, effective } = gateway
  const hosts = networks.flatMap(network => network.hosts)
  const served = networks.flatMap(network => network.config ?? [])
  return [
    ...gateway.warnings,
    ...networks.flatMap(network => network.warnings),
    ...(certificate === undefined ? [] : hostsWithoutCertificate(certificate, hosts)),
    ...(config === undefined || effective === undefined ? [] : rateWarnings(effective.source, config, served)),
  ]
}

/** The networks that a configuration directory has files for, sorted. */
export const networkNames = (dir: string, files = filesOnDisk): readonly string[] =>
  yamlBaseNames(join(dir, 'networks'), files).filter(name => !name.endsWith('.test'))

const networkFilePath = (dir: string, name: string): string => join(dir, 'networks', `${name}.yaml`)

const noDirectoryProblem = (dir: string): Problem => ({
  file: displayPath(dir),
  line: 1,
  column: 1,
  message: existsSync(dir) ? 'not a directory' : (directoryError(dir) ?? 'no such directory'),
  hint: missingDirectoryHint,
})

const noNetworksProblem = (dir: string): Problem => {
  const place = { file: displayPath(join(dir, 'networks')), line: 1, column: 1 }
  const error = directoryError(join(dir, 'networks'))
  if (error !== undefined) return { ...place, message: error }
  const hint = `write ${displayPath(networkFilePath(dir, 'NAME'))}, or let \`tollgate networks add CHAIN_ID\` write it`
  return { ...place, message: 'no network is configured', hint }
}

/** Files that would be ignored silently because of their extension. */
const misnamedFileProblems = (dir: string, folder: string): readonly Problem[] =>
  fileNamesIn(join(dir, folder))
    .filter(file => file.endsWith('.yml'))
    .map(file => ({
      file: displayPath(join(dir, folder, file)),
      line: 1,
      column: 1,
      message: 'the file is ignored: its name must end in .yaml',
      hint: `rename it to ${file.replace(/yml$/, 'yaml')}`,
    }))

/** The same as a problem of the directory. */
export const missingNetworksProblem = (dir: string, config: Pick<Config, 'unserved'>): Problem => ({
  file: displayPath(join(dir, 'networks')),
  line: 1,
  column: 1,
  message: describeMissingNetworks(config),
})

/** Why a configuration without problems serves nothing. Of many networks one is named, which needs the fewest variables. */
export const describeMissingNetworks = ({ unserved }: Pick<Config, 'unserved'>): string => {
  const [first, ...others] = unserved.toSorted((one, other) => one.variables.length - other.variables.length)
  if (first === undefined) return 'no network is served: networks/ has no file'
  const more = others.length === 0 ? '' : '; `tollgate check` lists the variables of the others'
  return `no network is served: set ${first.variables.join(' or ')} for ${first.network}${more}`
}
