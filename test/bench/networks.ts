import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { writeConfig } from './bench-gateway.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { Figure } from './figures.ts'
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
  const measure = async (count: number, upstreams: number): Promise<readonly ProcessUsage[]> => {
    const config = join(servers.dir, `networks-${count}-${upstreams}`)
    await writeConfig(config, { node: servers.node, idleNetworks: count - 1, idleUpstreams: upstreams })
    const usages: ProcessUsage[] = []
    for (let i = 0; i < starts; i += 1) usages.push(...(await measureStart(servers, config)))
    return usages
  }
  const one = await measure(1, 1)
  const figures: Figure[] = []
  for (const [i, { count, upstreams }] of sizes.entries()) {
    const usages = await measure(count, upstreams)
    const added = (of: (usage: ProcessUsage) => number) => spreadOf(usages.map((usage, j) => of(usage) - of(one[j] ?? usage)))
    const title = `${count} networks of ${upstreams === 1 ? 'an upstream' : `${upstreams} upstreams`}`
    figures.push(
      createFigure(`CPU of a start with ${title}, above one`, 'ms', added(cpuMs), i === 0 ? maxAddedCpuMs : undefined),
      createFigure(
        `memory of each of ${title}`,
        'MB',
        added(({ rssMB }) => rssMB / (count - 1)),
        i === 0 ? maxMBPerNetwork : undefined,
      ),
    )
  }
  return { rows: [], figures }
}

const cpuMs = ({ cpuMicros }: ProcessUsage): number => cpuMicros / 1_000

/** CPU until the gateway listens, and memory some time later; nothing without /proc. */
const measureStart = async (servers: BenchServers, config: string): Promise<readonly ProcessUsage[]> => {
  const server = await servers.start(`config:${config}`, 'unmonitored')
  try {
    const started = readProcessUsage(pidsOf(server))
    await pause(servers.settings.idleBeforeReadingMs)
    const idle = readProcessUsage(pidsOf(server))
    return started === undefined || idle === undefined ? [] : [{ ...idle, cpuMicros: started.cpuMicros }]
  } finally {
    await server.stop()
  }
}
