import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeGatewayConfigs, tollgateScript } from './bench-gateway.ts'
import type { BenchKeys } from './bench-gateway.ts'
import { LoadProcess } from './load-process.ts'
import type { RunSettings, BenchOptions, Peer } from './bench-options.ts'
import { openMonitorServer } from './monitor-server.ts'
import type { MonitorServer } from './monitor-server.ts'
import { startServer, stopAll } from './server-process.ts'
import type { ServerProcess } from './server-process.ts'

/** What is measured beside the gateway; each is a file in baselines/. */
export type Baseline = 'http' | 'koa' | 'proxy' | 'pipe' | 'ws'

/** The servers that cases may start. */
export type ServerName = 'gateway' | 'workers' | Baseline | `peer:${string}`

/** What cases work with. */
export interface BenchServers {
  readonly settings: RunSettings
  readonly keys: BenchKeys
  readonly peers: readonly Peer[]
  readonly monitors: MonitorServer
  readonly loadProcess: LoadProcess
  /** For load that must not slow down the calls of the other. */
  readonly secondLoadProcess: LoadProcess
  /** Starts a server, unless it is a peer, which runs already; `unmonitored` leaves out the probe. */
  start(name: ServerName, monitoring?: 'unmonitored'): Promise<ServerProcess>
  /** Ends everything that was started, and takes away every file. */
  close(): Promise<void>
}

export const openBenchServers = async ({ settings: effort, peers, workers, nodePort: node }: BenchOptions): Promise<BenchServers> => {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  const loadProcesses: LoadProcess[] = []
  const close = async () => {
    for (const load of loadProcesses) load.stop()
    stopAll()
    await rm(dir, { recursive: true, force: true })
  }
  try {
    const probes = await openMonitorServer(join(dir, 'probes'))
    const upstream = await startServer({ script: scriptUrl('bench-node'), args: [String(node)], monitorPath: probes.path })
    const { config, workersConfig, keys } = await writeGatewayConfigs(dir, upstream.url, workers)
    const configs = new Map([
      ['gateway', config],
      ['workers', workersConfig],
    ])
    const launchOptionsOf = (name: string) =>
      configs.has(name)
        ? { script: tollgateScript, args: ['start', '--config', configs.get(name) as string] }
        : { script: scriptUrl(`baselines/${name}-baseline`), args: [upstream.url] }
    loadProcesses.push(new LoadProcess(), new LoadProcess())
    return {
      settings: effort,
      keys,
      peers,
      monitors: probes,
      loadProcess: loadProcesses[0] as LoadProcess,
      secondLoadProcess: loadProcesses[1] as LoadProcess,
      start(name, monitoring) {
        const peer = peers.find(each => `peer:${each.name}` === name)
        if (peer !== undefined) return Promise.resolve({ ...peer, startupMs: 0, stop: () => Promise.resolve() })
        return startServer({ ...launchOptionsOf(name), ...(monitoring === undefined ? { monitorPath: probes.path } : {}) })
      },
      async close() {
        await close()
        probes.close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

const scriptUrl = (name: string): URL => new URL(`./${name}.js`, import.meta.url)
