import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configure, tollgate } from './gateway.ts'
import type { Keys } from './gateway.ts'
import { Load } from './load.ts'
import type { Effort, Options, Peer } from './options.ts'
import { openProbes } from './probes.ts'
import type { Probes } from './probes.ts'
import { startServer, stopAll } from './processes.ts'
import type { Server } from './processes.ts'

/** What is measured beside the gateway; each is a file in baselines/. */
export type Baseline = 'http' | 'koa' | 'proxy' | 'pipe' | 'ws'

/** The servers that cases may start. */
export type ServerName = 'gateway' | 'crew' | Baseline | `peer:${string}`

/** What cases work with. */
export interface Stage {
  readonly effort: Effort
  readonly keys: Keys
  readonly peers: readonly Peer[]
  readonly probes: Probes
  readonly load: Load
  /** For load that must not slow down the calls of the other. */
  readonly secondLoad: Load
  /** Starts a server, unless it is a peer, which runs already; `bare` leaves out the probe. */
  start(name: ServerName, bare?: 'bare'): Promise<Server>
  /** Ends everything that was started, and takes away every file. */
  close(): Promise<void>
}

export const openStage = async ({ effort, peers, workers, node }: Options): Promise<Stage> => {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  const loads: Load[] = []
  const close = async () => {
    for (const load of loads) load.stop()
    stopAll()
    await rm(dir, { recursive: true, force: true })
  }
  try {
    const probes = await openProbes(join(dir, 'probes'))
    const upstream = await startServer({ script: script('upstream'), args: [String(node)], probe: probes.path })
    const { config, crew, keys } = await configure(dir, upstream.url, workers)
    const configs = new Map([
      ['gateway', config],
      ['crew', crew],
    ])
    const startOf = (name: string) =>
      configs.has(name)
        ? { script: tollgate, args: ['start', '--config', configs.get(name) as string] }
        : { script: script(`baselines/${name}`), args: [upstream.url] }
    loads.push(new Load(), new Load())
    return {
      effort,
      keys,
      peers,
      probes,
      load: loads[0] as Load,
      secondLoad: loads[1] as Load,
      start(name, bare) {
        const peer = peers.find(each => `peer:${each.name}` === name)
        if (peer !== undefined) return Promise.resolve({ ...peer, startup: 0, stop: () => Promise.resolve() })
        return startServer({ ...startOf(name), ...(bare === undefined ? { probe: probes.path } : {}) })
      },
      async close() {
        await close()
        probes.close()
      },
    }
  } catch (fault) {
    await close()
    throw fault
  }
}

const script = (name: string): URL => new URL(`./${name}.js`, import.meta.url)
