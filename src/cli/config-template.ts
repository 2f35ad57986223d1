import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { displayPath } from '../config/config-files.ts'
import { developmentChainIds } from '../config/chains.ts'
import type { Chain } from '../config/chains.ts'
import { createFolder } from '../util/files.ts'
import { CommandError } from './command.ts'

/** The configuration that comes with the package, three folders above the compiled file. */
const shippedDir = fileURLToPath(new URL('../../../configs', import.meta.url))

/** The network whose text is that of new networks, so that these have all plugins and comments of the shipped ones. */
const templateNetwork = 'ethereum-mainnet'

interface NetworkTemplate extends Chain {
  readonly hosts: readonly string[]
  /** The URL of the first upstream; otherwise a variable holds it. */
  readonly url?: string
}

/** A new configuration, by paths in it. Its network is a node of this machine: that of `tollgate dev`, else one on the usual port. */
export const newConfigFiles = (): Readonly<Record<string, string>> => ({
  ...shippedSupportFiles(),
  [devnetPath]: readFileSync(join(shippedDir, devnetPath), 'utf8').replace('${DEVNET_URL}', () => '${DEVNET_URL:-http://127.0.0.1:8545}'),
})

const devnetPath = 'networks/devnet.yaml'

/** The environment variable that holds the URL of the first upstream of a network. */
export const urlVariable = (network: string): string => `${variablePrefix(network)}_URL`

const variablePrefix = (network: string): string => network.toUpperCase().replaceAll('-', '_')

/** The text of a new network's file. */
export const networkText = ({ name, chainId, currency, blockTime, hosts, url }: NetworkTemplate): string => {
  const variable = `"\${${urlVariable(name)}}"`
  return setKeys(readFileSync(join(shippedDir, `networks/${templateNetwork}.yaml`), 'utf8'), {
    network: name,
    chainId: currency === undefined ? String(chainId) : `${String(chainId).padEnd(chainIdChars)} # the native currency is ${currency}`,
    blockTime: developmentChainIds.has(chainId) ? `${blockTime}\n${devNodeLine}` : blockTime,
    hosts: `[${hosts.join(', ')}]`,
  })
    .replaceAll(`\${${variablePrefix(templateNetwork)}_`, () => `\${${variablePrefix(name)}_`)
    .replace(variable, found => (url === undefined ? found : JSON.stringify(url)))
}

/** As the shipped devnet has it. */
const devNodeLine = 'devNode: true                    # nothing is cached, and blocks go back as the node says'

/** The comments of shipped files stand below each other. */
const chainIdChars = 23

const setKeys = (text: string, values: Readonly<Record<string, string>>): string =>
  Object.entries(values).reduce((edited, [key, value]) => edited.replace(new RegExp(`^${key}: .*$`, 'm'), () => `${key}: ${value}`), text)

/** The shipped files that every configuration needs, by their paths in it: gateway.yaml, the method tables, and the schemas for editors. */
export const shippedSupportFiles = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [
      'gateway.yaml',
      ...['methods', 'schemas'].flatMap(folder => readdirSync(join(shippedDir, folder)).map(file => `${folder}/${file}`)),
    ].map(path => [path, readFileSync(join(shippedDir, path), 'utf8')]),
  )

/** Writes new files below `dir`; writes none of them when one exists. */
export const writeNewFiles = (dir: string, files: Readonly<Record<string, string>>): void => {
  const existing = Object.keys(files).find(path => existsSync(join(dir, path)))
  if (existing !== undefined) throw new CommandError(`${displayPath(join(dir, existing))} exists already; nothing is written`)
  for (const [path, text] of Object.entries(files)) writeNewFile(join(dir, path), text)
}

const writeNewFile = (path: string, text: string): void => {
  try {
    createFolder(dirname(path))
    writeFileSync(path, text, { flag: 'wx' })
  } catch (cause) {
    throw new CommandError(`cannot write ${displayPath(path)}: ${(cause as Error).message}`, { cause })
  }
}
