import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { generateApiKey } from '../../src/services/accounts/api-key.ts'
import type { BenchPlugin } from './bench-options.ts'

/** The root folder of this commit. */
const thisRoot = fileURLToPath(new URL('../../../', import.meta.url))

/** The command line of a gateway, by the root folder of its commit; not every commit has a bundle. */
export const tollgateScriptIn = (root: string): URL => {
  const bundle = join(root, 'dist/bundle/main.js')
  return pathToFileURL(existsSync(bundle) ? bundle : join(root, 'dist/src/main.js'))
}

export const tollgateScript = tollgateScriptIn(thisRoot)

/** API keys for calls. */
export interface BenchKeys {
  readonly valid: string
  /** The valid key with a wrong letter: its checksum does not match. */
  readonly mistyped: string
  /** A well-formed key that no account has. */
  readonly unknown: string
}

export interface GatewayConfigs {
  readonly config: string
  /** The same gateway with two workers and the same store. */
  readonly workersConfig: string
  readonly keys: BenchKeys
}

/** Writes a configuration in `dir` with one network, whose upstream is `node`, and an account that never runs out of credits. */
export const writeGatewayConfigs = async (dir: string, node: string, workers: number | undefined): Promise<GatewayConfigs> => {
  const config = join(dir, 'gateway')
  await writeConfig(config, { node, workers })
  const valid = await addKey(config)
  const mistyped = valid.slice(0, -1) + (valid.endsWith('a') ? 'b' : 'a')
  await writeConfig(join(dir, 'workers'), { node, workers: 2, store: '../gateway/data' })
  return { config, workersConfig: join(dir, 'workers'), keys: { valid, mistyped, unknown: generateApiKey().reveal() } }
}

/** Writes a configuration for the gateway of another commit, by its own method table, with an account of its own. */
export const writeOtherGatewayConfig = async (dir: string, node: string, root: string): Promise<{ config: string; key: string }> => {
  const config = join(dir, 'other-commit')
  await writeConfig(config, { node, workers: undefined, root })
  return { config, key: await addKey(config, root) }
}

/** Writes a configuration whose pipeline has a plugin more, with an account of its own. */
export const writePluginConfig = async (dir: string, node: string, plugin: BenchPlugin): Promise<{ config: string; key: string }> => {
  const config = join(dir, 'with-plugin')
  await writeConfig(config, { node, workers: undefined, plugin })
  return { config, key: await addKey(config) }
}

interface ConfigOptions {
  readonly plugin?: BenchPlugin
  readonly node: string
  readonly root?: string
  readonly workers?: number | undefined
  /** A folder, relative to the configuration. */
  readonly store?: string
  /** The upstreams of networks that get no calls. */
  readonly idleNetworks?: readonly (readonly string[])[]
}

export const writeConfig = async (dir: string, options: ConfigOptions): Promise<void> => {
  const { node, workers, root = thisRoot, store = './data', idleNetworks = [], plugin } = options
  for (const folder of ['networks', 'methods']) await mkdir(join(dir, folder), { recursive: true })
  await writeFile(join(dir, 'gateway.yaml'), gatewayYaml(store) + (workers === undefined ? '' : `workers: ${workers}\n`))
  await writeFile(join(dir, 'networks', 'bench.yaml'), addPlugin(networkYaml([node]), plugin))
  for (const [i, nodes] of idleNetworks.entries())
    await writeFile(join(dir, 'networks', `idle-${i}.yaml`), networkYaml(nodes, `idle-${i}`, `idle-${i}.localhost`))
  await copyFile(join(root, 'configs/methods/ethereum.yaml'), join(dir, 'methods', 'ethereum.yaml'))
}

const gatewayYaml = (store: string): string => `listen: { rpc: 127.0.0.1:0, admin: 127.0.0.1:0 }
store: lmdb:${store}
limits: { connections: 20000 }
plans: { big: { dailyCredits: 1000000000000000 } }
`

/**
 * The block time is long: no new block ends what is cached. A result longer than a quarter of the cache is not
 * cached: large results come from the node each time, and the memory of the cache does not hide the memory that they need.
 */
const networkYaml = (nodes: readonly string[], name = 'bench', host = '127.0.0.1'): string => `network: ${name}
chainId: 1337
blockTime: 60m
methods: ethereum
hosts: [${host}]
pipeline:
  - envelope: {}
  - key-auth: {}
  - network-access: {}
  - credits: {}
  - params: {}
  - cache: { maxBytes: 16MiB }
  - failover: { upstreams: [${nodes.map((url, i) => `{ name: node-${i}, url: "${url}" }`).join(', ')}] }
  - upstream: {}
`

const addPlugin = (yaml: string, plugin: BenchPlugin | undefined): string => {
  if (plugin === undefined) return yaml
  const { file, options, below } = plugin
  const lines = yaml.split('\n')
  const position = lines.findIndex(line => line.startsWith(`  - ${below}:`))
  if (position < 0) throw new Error(`--below must name a step of the pipeline, not "${below}"`)
  return lines.toSpliced(position + 1, 0, `  - use: ${JSON.stringify(resolve(file))}`, `    with: ${options}`).join('\n')
}

const addKey = async (config: string, root = thisRoot): Promise<string> => {
  await runTollgate(root, 'accounts', 'add', 'bench', '--plan', 'big', '--config', config, '--json')
  const { stdout } = await runTollgate(root, 'keys', 'add', 'bench', '--config', config, '--json')
  return (JSON.parse(stdout) as { key: string }).key
}

const runTollgate = (root: string, ...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [fileURLToPath(tollgateScriptIn(root)), ...args])
