import { setTimeout as pause } from 'node:timers/promises'
import { storageAtRequest } from './request-templates.ts'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { measureRound, openSession, pidsOf, toScenarioResult } from './measure.ts'
import type { Scenario, ScenarioResult } from './measure.ts'
import { maxOpenFiles, readProcessUsage } from './proc-fs.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './figures.ts'

/** Target for the memory of 10,000 sockets. */
const maxAddedMB = 120

/** The rate of the calls, one on each socket: all at once would be a burst. */
const callsPerSecond = 2500

/** What a process opens besides sockets. */
const reservedFiles = 500

/** Of its files a gateway has three quarters for callers, of which an account gets half. */
const accountShare = 3 / 8

/** Memory of open WebSockets, each after one call. */
export const idleWebSockets = async (servers: BenchServers): Promise<CaseResult> => {
  const count = Math.min(servers.settings.idleSockets, Math.floor(accountShare * (maxOpenFiles() - reservedFiles)))
  const gatewayMemory = await measureIdleMemory(servers, 'gateway', 'tollgate', `ws/v3/${servers.keys.valid}`, count)
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
  serverName: ServerName,
  name: string,
  path: string,
  connections: number,
): Promise<{ row: ScenarioResult; added: number | undefined }> => {
  const server = await servers.start(serverName)
  try {
    await pause(servers.settings.idleBeforeReadingMs)
    const idleRssMB = readProcessUsage(pidsOf(server))?.rssMB
    const scenario: Scenario = { name, server: serverName, path, transport: 'ws:', connections, requests: [storageAtRequest] }
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
