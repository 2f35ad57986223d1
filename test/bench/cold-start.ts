import { setTimeout as pause } from 'node:timers/promises'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { pidsOf } from './measure.ts'
import { readProcessUsage } from './proc-fs.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './stats.ts'

/** How soon a process serves, and its memory when it has done nothing yet; without the probe. */
export const coldStart = async (servers: BenchServers): Promise<CaseResult> => {
  const [gatewayStarts, baselineStarts]: [StartResult[], StartResult[]] = [[], []]
  for (let i = 0; i < servers.settings.coldStarts; i++) {
    gatewayStarts.push(await measureStart(servers, 'gateway'))
    baselineStarts.push(await measureStart(servers, 'http'))
  }
  const startups = (all: readonly StartResult[]) => spreadOf(all.map(each => each.startupMs))
  const memories = (all: readonly StartResult[]) => spreadOf(all.map(each => each.idleRssMB))
  return {
    rows: [],
    figures: [
      createFigure('cold start of tollgate until it listens', 'ms', startups(gatewayStarts), 500),
      createFigure('cold start of bare node:http', 'ms', startups(baselineStarts)),
      createFigure('idle memory of tollgate', 'MB', memories(gatewayStarts), 100),
      createFigure('idle memory of bare node:http', 'MB', memories(baselineStarts)),
    ],
  }
}

interface StartResult {
  readonly startupMs: number
  readonly idleRssMB: number | undefined
}

const measureStart = async (servers: BenchServers, kind: ServerName): Promise<StartResult> => {
  const server = await servers.start(kind, 'unmonitored')
  try {
    await pause(servers.settings.idleBeforeReadingMs)
    return { startupMs: server.startupMs, idleRssMB: readProcessUsage(pidsOf(server))?.rssMB }
  } finally {
    await server.stop()
  }
}
