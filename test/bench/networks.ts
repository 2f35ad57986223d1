import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { writeConfig } from './bench-gateway.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import { pidsOf } from './measure.ts'
import { readProcessUsage } from './proc-fs.ts'
import type { ProcessUsage } from './proc-fs.ts'
import type { BenchServers } from './servers.ts'

const networkCounts = [50, 500] as const

/** Targets, for 50 networks. */
const maxAddedCpuMs = 500
const maxMBPerNetwork = 0.3

const maxStarts = 3

/** What networks without calls add to a start of the gateway, and to its memory; without the process monitor. */
export const manyNetworks = async (servers: BenchServers): Promise<CaseResult> => {
  const starts = Math.min(maxStarts, servers.settings.coldStarts)
  const usages = new Map<number, ProcessUsage[]>()
  for (const count of [1, ...networkCounts]) {
    const config = join(servers.dir, `networks-${count}`)
    await writeConfig(config, { node: servers.node, idleNetworks: count - 1 })
    usages.set(count, [])
    for (let i = 0; i < starts; i += 1) usages.get(count)?.push(...(await measureStart(servers, config)))
  }
  const added = (count: number, of: (usage: ProcessUsage) => number) =>
    spreadOf((usages.get(count) ?? []).map((usage, i) => of(usage) - of(usages.get(1)?.[i] ?? usage)))
  return {
    rows: [],
    figures: networkCounts.flatMap(count => {
      const isTarget = count === networkCounts[0]
      return [
        createFigure(`CPU of a start with ${count} networks, above one`, 'ms', added(count, cpuMs), isTarget ? maxAddedCpuMs : undefined),
        createFigure(
          `memory of each of ${count} networks`,
          'MB',
          added(count, ({ rssMB }) => rssMB / (count - 1)),
          isTarget ? maxMBPerNetwork : undefined,
        ),
      ]
    }),
  }
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
