import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { post } from '../support/rpc-client.ts'
import { writeConfig } from './bench-gateway.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { Figure } from './figures.ts'
import { openIdleNodes } from './idle-nodes.ts'
import type { IdleNodes } from './idle-nodes.ts'
import { pidsOf } from './measure.ts'
import { readProcessUsage } from './proc-fs.ts'
import type { ProcessUsage } from './proc-fs.ts'
import type { BenchServers } from './servers.ts'

/** Networks, and upstreams of each. */
const sizes = [{ count: 50, upstreams: 1 }, { count: 500, upstreams: 1 }, ...[50, 100, 250, 500].map(count => ({ count, upstreams: 10 }))]

/** Targets, for the first size. */
const maxAddedCpuMs = 500
const maxMBPerNetwork = 0.3

const maxStarts = 3

/** What networks without calls add to a start of the gateway, and to its memory; without the process monitor. */
export const manyNetworks = async (servers: BenchServers): Promise<CaseResult> => {
  const starts = Math.min(maxStarts, servers.settings.coldStarts)
  const measure = async (count: number, upstreams: number): Promise<readonly Start[]> => {
    const config = join(servers.dir, `networks-${count}-${upstreams}`)
    const nodes = await openIdleNodes((count - 1) * upstreams)
    try {
      await writeConfig(config, { node: servers.node, store: '../gateway/data', idleNetworks: inGroupsOf(upstreams, nodes.urls) })
      const measured: Start[] = []
      for (let i = 0; i < starts; i += 1) measured.push(await measureStart(servers, config, nodes))
      return measured
    } finally {
      await nodes.close()
    }
  }
  const one = await measure(1, 1)
  const figures: Figure[] = []
  for (const [i, { count, upstreams }] of sizes.entries()) {
    const measured = await measure(count, upstreams)
    const added = (of: (start: Start) => number | undefined) =>
      spreadOf(measured.map((start, j) => (of(start) ?? NaN) - (of(one[j] ?? start) ?? NaN)).filter(Number.isFinite))
    const spread = (of: (start: Start) => number) => spreadOf(measured.map(of))
    const title = `${count} networks of ${upstreams === 1 ? 'an upstream' : `${upstreams} upstreams`}`
    const targetOf = (target: number) => (i === 0 ? target : undefined)
    figures.push(
      createFigure(`CPU of a start with ${title}, above one`, 'ms', added(cpuMs), targetOf(maxAddedCpuMs)),
      createFigure(
        `memory of each of ${title}`,
        'MB',
        added(({ idle }) => idle && idle.rssMB / (count - 1)),
        targetOf(maxMBPerNetwork),
      ),
      createFigure(
        `time until ${title} are ready`,
        'ms',
        spread(start => start.readyMs),
      ),
      createFigure(
        `time until all upstreams of ${title} are checked`,
        'ms',
        spread(start => start.checkedMs),
      ),
      createFigure(
        `connections to upstreams of ${title} at once`,
        'calls',
        spread(start => start.connections),
      ),
      createFigure(
        `requests in flight to upstreams of ${title} at once`,
        'calls',
        spread(start => start.inFlight),
      ),
    )
  }
  return { rows: [], figures: [...figures, ...(await measurePolls(servers))] }
}

const inGroupsOf = <T>(size: number, items: readonly T[]): readonly (readonly T[])[] =>
  Array.from({ length: items.length / size }, (_, i) => items.slice(i * size, (i + 1) * size))

interface Start {
  /** Until the gateway listens, and later; nothing without /proc. */
  readonly started: ProcessUsage | undefined
  readonly idle: ProcessUsage | undefined
  readonly readyMs: number
  readonly checkedMs: number
  readonly connections: number
  readonly inFlight: number
}

const cpuMs = ({ started }: Start): number | undefined => started && started.cpuMicros / 1_000

/** No upstream was asked for so long: all are checked. */
const quietMs = 1_000

const measureStart = async (servers: BenchServers, config: string, nodes: IdleNodes): Promise<Start> => {
  nodes.reset()
  const startMs = performance.now()
  const server = await servers.start(`config:${config}`, 'unmonitored')
  try {
    const started = readProcessUsage(pidsOf(server))
    await pause(servers.settings.idleBeforeReadingMs)
    while (performance.now() - (nodes.requestTimes.at(-1) ?? 0) < quietMs) await pause(quietMs)
    return {
      started,
      idle: readProcessUsage(pidsOf(server)),
      readyMs: server.startupMs,
      checkedMs: Math.max(0, (nodes.requestTimes.at(-1) ?? startMs) - startMs),
      connections: nodes.maxConnections,
      inFlight: nodes.maxInFlight,
    }
  } finally {
    await server.stop()
  }
}

const polled = { count: 500, upstreams: 4 }
/** Two poll intervals of a network with blocks that take a minute. */
const pollsMs = 10_000
const binMs = 100

/** How evenly networks are polled that all got their first call in the same moment. */
const measurePolls = async (servers: BenchServers): Promise<readonly Figure[]> => {
  const config = join(servers.dir, 'networks-polled')
  const nodes = await openIdleNodes(polled.count * polled.upstreams)
  await writeConfig(config, { node: servers.node, store: '../gateway/data', idleNetworks: inGroupsOf(polled.upstreams, nodes.urls) })
  const server = await servers.start(`config:${config}`, 'unmonitored')
  try {
    const url = new URL(`/v3/${servers.keys.valid}`, server.url)
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] })
    await Promise.all(Array.from({ length: polled.count }, (_, i) => post(url.href, body, { host: `idle-${i}.localhost` })))
    await pause(pollsMs / 2)
    nodes.reset()
    const fromMs = performance.now()
    await pause(pollsMs)
    const bins = new Array<number>(pollsMs / binMs).fill(0)
    for (const time of nodes.requestTimes) {
      const bin = Math.floor((time - fromMs) / binMs)
      if (bin < bins.length) bins[bin] = (bins[bin] ?? 0) + 1
    }
    const title = `${polled.count} networks of ${polled.upstreams} upstreams that began with one call each`
    const mean = bins.reduce((sum, count) => sum + count, 0) / bins.length
    return [
      createFigure(`polls in 100 ms of ${title}, mean`, 'calls', spreadOf([mean])),
      createFigure(`polls in the busiest 100 ms of ${title}`, 'calls', spreadOf([Math.max(...bins)])),
    ]
  } finally {
    await server.stop()
    await nodes.close()
  }
}
