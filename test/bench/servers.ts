import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { tollgateScript, tollgateScriptIn, writeGatewayConfigs, writeOtherGatewayConfig, writePluginConfig } from './bench-gateway.ts'
import type { BenchKeys } from './bench-gateway.ts'
import { LoadProcess } from './load-process.ts'
import type { RunSettings, BenchOptions, Peer } from './bench-options.ts'
import { openMonitorServer } from './monitor-server.ts'
import type { MonitorServer } from './monitor-server.ts'
import { buildCommit } from './other-commit.ts'
import { startServer, stopAll } from './server-process.ts'
import type { ServerProcess } from './server-process.ts'

/** What the gateway is compared with; each baseline is a file in baselines/. */
export type Baseline = 'http' | 'http-workers' | 'koa' | 'proxy' | 'pipe' | 'ws'

/** The servers that a case may start; `config:` is a gateway with the configuration in a folder. */
export type ServerName = 'gateway' | Variant['server'] | 'workers' | Baseline | `peer:${string}` | `config:${string}`

/** Another gateway that gets the same calls in the same turns. */
export interface Variant {
  readonly server: 'other commit' | 'with plugin'
  /** Behind the name of a line. */
  readonly label: string
  /** An API key of its own. */
  readonly key: string
}

/** What a case uses. */
export interface BenchServers {
  /** For configurations of a case of its own. */
  readonly dir: string
  /** The URL of the upstream of all gateways. */
  readonly node: string
  readonly settings: RunSettings
  readonly keys: BenchKeys
  readonly peers: readonly Peer[]
  readonly variants: readonly Variant[]
  readonly monitors: MonitorServer
  readonly loadProcess: LoadProcess
  /** For load that must not delay the calls of the first load process. */
  readonly secondLoadProcess: LoadProcess
  /** Starts a server, unless it is a peer, which is already running; `unmonitored` omits the process monitor. */
  start(name: ServerName, monitoring?: 'unmonitored'): Promise<ServerProcess>
  /** Ends all processes and removes all files. */
  close(): Promise<void>
}

export const openBenchServers = async ({ settings, peers, workers, compare, plugin, nodePort }: BenchOptions): Promise<BenchServers> => {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  const loadProcesses: LoadProcess[] = []
  const close = async () => {
    for (const load of loadProcesses) load.stop()
    stopAll()
    await rm(dir, { recursive: true, force: true })
  }
  try {
    const monitors = await openMonitorServer(join(dir, 'monitors'))
    const upstream = await startServer({ script: scriptUrl('bench-node'), args: [String(nodePort)], monitorPath: monitors.path })
    const { config, workersConfig, keys } = await writeGatewayConfigs(dir, upstream.url, workers)
    const configs = new Map([
      ['gateway', config],
      ['workers', workersConfig],
    ])
    const otherRoot = compare === undefined ? undefined : await buildCommit(compare)
    const other = otherRoot === undefined ? undefined : await writeOtherGatewayConfig(dir, upstream.url, otherRoot)
    if (other !== undefined) configs.set('other commit', other.config)
    const withPlugin = plugin === undefined ? undefined : await writePluginConfig(dir, upstream.url, plugin)
    if (withPlugin !== undefined) configs.set('with plugin', withPlugin.config)
    const variants: readonly Variant[] = [
      ...(other === undefined ? [] : [{ server: 'other commit', label: `at ${compare}`, key: other.key } as const]),
      ...(plugin === undefined || withPlugin === undefined
        ? []
        : [{ server: 'with plugin', label: `with ${basename(plugin.file)}`, key: withPlugin.key } as const]),
    ]
    const launchOptionsOf = (name: string) => {
      const folder = name.startsWith('config:') ? name.slice('config:'.length) : configs.get(name)
      return folder !== undefined
        ? {
            script: otherRoot !== undefined && name === 'other commit' ? tollgateScriptIn(otherRoot) : tollgateScript,
            args: ['start', '--config', folder],
          }
        : { script: scriptUrl(`baselines/${name}-baseline`), args: [upstream.url] }
    }
    loadProcesses.push(new LoadProcess(), new LoadProcess())
    return {
      dir,
      node: upstream.url,
      settings,
      keys,
      peers,
      variants,
      monitors,
      loadProcess: loadProcesses[0] as LoadProcess,
      secondLoadProcess: loadProcesses[1] as LoadProcess,
      start(name, monitoring) {
        const peer = peers.find(each => `peer:${each.name}` === name)
        if (peer !== undefined) return Promise.resolve({ ...peer, startupMs: 0, stop: () => Promise.resolve() })
        return startServer({ ...launchOptionsOf(name), ...(monitoring === undefined ? { monitorPath: monitors.path } : {}) })
      },
      async close() {
        await close()
        monitors.close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

const scriptUrl = (name: string): URL => new URL(`./${name}.js`, import.meta.url)
