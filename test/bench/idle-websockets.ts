import { setTimeout as pause } from 'node:timers/promises'
import { storageAtRequest } from './request-templates.ts'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { join } from 'node:path'
import { writeConfig } from './bench-gateway.ts'
import { addAccountsWithKeys } from './fill-store.ts'
import { measureRound, openSession, pidsOf } from './measure.ts'
import type { OpenScenario, Round, Scenario, ScenarioResult } from './measure.ts'
import { maxOpenFiles, readProcessUsage } from './proc-fs.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './figures.ts'

/** Target for the memory of 10,000 sockets. */
const maxAddedMB = 120

/** Target for what is live of it, for each socket. */
const maxLiveKB = 6.5

/** The rate of the calls, one on each socket: all at once would be a burst. */
const callsPerSecond = 2500

/** What a process opens besides sockets. */
const reservedFiles = 500

/** An account may hold as many connections as are free, so that one alone gets half of them. */
const accounts = 4

/** Of its files a gateway has three quarters for callers. */
const callersShare = (3 / 4) * (accounts / (accounts + 1))

/** Memory of open WebSockets, each after one call. */
export const idleWebSockets = async (servers: BenchServers): Promise<CaseResult> => {
  const ofAccount = Math.floor(Math.min(servers.settings.idleSockets, callersShare * (maxOpenFiles() - reservedFiles)) / accounts)
  const count = accounts * ofAccount
  const config = join(servers.dir, 'sockets')
  const keys = await addAccountsWithKeys(join(config, 'data'), accounts)
  await writeConfig(config, { node: servers.node })
  const paths = keys.map(key => `ws/v3/${key}`)
  const gatewayMemory = await measureIdleMemory(servers, `config:${config}`, 'tollgate', paths, ofAccount)
  const baselineMemory = await measureIdleMemory(servers, 'ws', 'bare ws', new Array<string>(accounts).fill(''), ofAccount)
  const title = (name: string) => `${count.toLocaleString('en')} idle sockets add to ${name}`
  const liveTitle = (name: string) => `live memory of each in ${name}`
  return {
    rows: [gatewayMemory.row, baselineMemory.row],
    figures: [
      createFigure(title('tollgate'), 'MB', spreadOf([gatewayMemory.added]), count === 10_000 ? maxAddedMB : undefined),
      createFigure(liveTitle('tollgate'), 'KB', spreadOf([gatewayMemory.liveKB]), maxLiveKB),
      createFigure(title('bare ws'), 'MB', spreadOf([baselineMemory.added])),
      createFigure(liveTitle('bare ws'), 'KB', spreadOf([baselineMemory.liveKB])),
    ],
  }
}

const measureIdleMemory = async (
  servers: BenchServers,
  serverName: ServerName,
  name: string,
  paths: readonly string[],
  connections: number,
): Promise<{ row: ScenarioResult; added: number | undefined; liveKB: number }> => {
  const server = await servers.start(serverName)
  try {
    await pause(servers.settings.idleBeforeReadingMs)
    const idleRssMB = readProcessUsage(pidsOf(server))?.rssMB
    const opened: OpenScenario[] = []
    const rounds: Round[] = []
    for (const path of paths) {
      const scenario: Scenario = { name, server: serverName, path, transport: 'ws:', connections, requests: [storageAtRequest] }
      const open = { scenario, server, session: await openSession(servers, scenario, server), idleRssMB }
      opened.push(open)
      rounds.push(await measureRound(servers, open, { durationMs: (1000 * connections) / callsPerSecond, callsPerSecond }))
    }
    await pause(servers.settings.idleBeforeReadingMs)
    const rssWithSocketsMB = readProcessUsage(pidsOf(server))?.rssMB
    const liveBytes = await servers.monitors.liveBytes(pidsOf(server))
    for (const { session } of opened) await session.close()
    await pause(servers.settings.idleBeforeReadingMs)
    // After the calls: what they have compiled is no memory of a socket.
    const liveBytesWithout = await servers.monitors.liveBytes(pidsOf(server))
    return {
      row: { name, rounds, ...(idleRssMB === undefined ? {} : { idleRssMB }) },
      added: rssWithSocketsMB === undefined || idleRssMB === undefined ? undefined : rssWithSocketsMB - idleRssMB,
      liveKB: (liveBytes - liveBytesWithout) / (paths.length * connections) / 1e3,
    }
  } finally {
    await server.stop()
  }
}
