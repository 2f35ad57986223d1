import { setTimeout as pause } from 'node:timers/promises'
import { storageAtRequest } from './request-templates.ts'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { measureRound, openSession, pidsOf, toScenarioResult } from './measure.ts'
import type { Scenario, ScenarioResult } from './measure.ts'
import { maxOpenFiles, readProcessUsage } from './proc-fs.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './stats.ts'

/** What 10,000 sockets may add, in MB. */
const maxAddedMB = 120

/** Calls per second, one on each socket: all at once would measure a burst. */
const callsPerSecond = 2500

/** Memory that open WebSockets take, each after one call. */
export const idleWebSockets = async (servers: BenchServers): Promise<CaseResult> => {
  // Either end needs one file per socket, and some for itself.
  const count = Math.min(servers.settings.idleSockets, maxOpenFiles() - 500)
  const gatewayMemory = await measureIdleMemory(servers, 'gateway', 'tollgate', `ws/v3/${servers.keys.good}`, count)
  const baselineMemory = await measureIdleMemory(servers, 'ws', 'bare ws', '', count)
  const title = (name: string) => `${count.toLocaleString('en')} idle sockets add to ${name}`
  return {
    rows: [gatewayMemory.row, baselineMemory.row],
    figures: [
      createFigure(title('tollgate'), 'MB', spreadOf([gatewayMemory.added]), count === 10_000 ? maxAddedMB : undefined),
      createFigure(title('bare ws'), 'MB', spreadOf([baselineMemory.added])),
    ],
  }
}

const measureIdleMemory = async (
  servers: BenchServers,
  kind: ServerName,
  name: string,
  path: string,
  connections: number,
): Promise<{ row: ScenarioResult; added: number | undefined }> => {
  const server = await servers.start(kind)
  try {
    await pause(servers.settings.idleBeforeReadingMs)
    const idleRssMB = readProcessUsage(pidsOf(server))?.rssMB
    const scenario: Scenario = { name, server: kind, path, transport: 'ws:', connections, request: storageAtRequest }
    const openScenario = { scenario, server, session: await openSession(servers, scenario, server), idleRssMB }
    const round = await measureRound(servers, openScenario, { durationMs: (1000 * connections) / callsPerSecond, callsPerSecond })
    await pause(servers.settings.idleBeforeReadingMs)
    const rssWithSocketsMB = readProcessUsage(pidsOf(server))?.rssMB
    await openScenario.session.close()
    return {
      row: toScenarioResult(openScenario, [round]),
      added: rssWithSocketsMB === undefined || idleRssMB === undefined ? undefined : rssWithSocketsMB - idleRssMB,
    }
  } finally {
    await server.stop()
  }
}
