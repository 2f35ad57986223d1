import { setTimeout as pause } from 'node:timers/promises'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { pidsOf } from './measure.ts'
import { readProcessUsage } from './proc-fs.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './figures.ts'

/** Targets. */
const maxStartupMs = 500
const maxIdleRssMB = 100

/** How soon a process listens, and its memory before the first call; without the process monitor. */
export const coldStart = async (servers: BenchServers): Promise<CaseResult> => {
  const [gatewayStarts, baselineStarts]: [StartResult[], StartResult[]] = [[], []]
  for (let i = 0; i < servers.settings.coldStarts; i++) {
    gatewayStarts.push(await measureStart(servers, 'gateway'))
    baselineStarts.push(await measureStart(servers, 'http'))
  }
  const startups = (starts: readonly StartResult[]) => spreadOf(starts.map(start => start.startupMs))
  const memories = (starts: readonly StartResult[]) => spreadOf(starts.map(start => start.idleRssMB))
  return {
    rows: [],
    figures: [
      createFigure('cold start of tollgate until it listens', 'ms', startups(gatewayStarts), maxStartupMs),
      createFigure('cold start of bare node:http', 'ms', startups(baselineStarts)),
      createFigure('idle memory of tollgate', 'MB', memories(gatewayStarts), maxIdleRssMB),
      createFigure('idle memory of bare node:http', 'MB', memories(baselineStarts)),
    ],
  }
}

interface StartResult {
  readonly startupMs: number
  readonly idleRssMB: number | undefined
}

const measureStart = async (servers: BenchServers, name: ServerName): Promise<StartResult> => {
  const server = await servers.start(name, 'unmonitored')
  try {
    await pause(servers.settings.idleBeforeReadingMs)
    return { startupMs: server.startupMs, idleRssMB: readProcessUsage(pidsOf(server))?.rssMB }
  } finally {
    await server.stop()
  }
}
