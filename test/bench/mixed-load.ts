import { logsRequest, storageAtRequest, logDataWords } from './request-templates.ts'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { measureRound, openSession, toScenarioResult } from './measure.ts'
import type { Scenario, Round, ScenarioResult } from './measure.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './figures.ts'

const smallCallsPerSecond = 500
const largeCallsPerSecond = 5

const smallConnections = 64
const largeConnections = 8

/** Target. */
const maxP99RiseMs = 20

/** Small calls alone, and together with large responses: small calls must not wait for large ones. */
export const mixedLoad = async (servers: BenchServers): Promise<CaseResult> => {
  const { valid } = servers.keys
  const gatewayResults = await measureAloneAndMixed(servers, 'gateway', 'tollgate', `v3/${valid}`)
  const proxyResults = await measureAloneAndMixed(servers, 'pipe', 'piping proxy', '')
  const p99Rise = ([alone, mixed]: readonly ScenarioResult[]) =>
    spreadOf(mixed?.rounds.map((round, i) => round.p99 - (alone?.rounds[i]?.p99 ?? 0)) ?? [])
  return {
    rows: [...gatewayResults, ...proxyResults],
    figures: [
      createFigure('p99 of small calls to tollgate rises by', 'ms', p99Rise(gatewayResults), maxP99RiseMs),
      createFigure('p99 of small calls to the piping proxy rises by', 'ms', p99Rise(proxyResults)),
    ],
  }
}

const measureAloneAndMixed = async (
  servers: BenchServers,
  serverName: ServerName,
  name: string,
  path: string,
): Promise<readonly ScenarioResult[]> => {
  const { constantRateRoundMs: durationMs, rounds, minWarmUpMs } = servers.settings
  const server = await servers.start(serverName)
  try {
    const scenario: Scenario = {
      name,
      server: serverName,
      path,
      transport: 'http:',
      connections: smallConnections,
      requests: [storageAtRequest],
      loopSampleIntervalMs: 1,
    }
    const openScenario = { scenario, server, session: await openSession(servers, scenario, server), idleRssMB: undefined }
    const largeSession = await openSession(
      servers,
      { ...scenario, connections: largeConnections, requests: [logsRequest(logDataWords.small)] },
      server,
      servers.secondLoadProcess,
    )
    const [alone, mixed]: [Round[], Round[]] = [[], []]
    await openScenario.session.run({ durationMs: minWarmUpMs })
    await largeSession.run({ durationMs: minWarmUpMs, callsPerSecond: largeCallsPerSecond })
    for (let i = 0; i < rounds; i++) {
      alone.push(withoutCpu(await measureRound(servers, openScenario, { durationMs, callsPerSecond: smallCallsPerSecond })))
      const both = [
        measureRound(servers, openScenario, { durationMs, callsPerSecond: smallCallsPerSecond }),
        largeSession.run({ durationMs, callsPerSecond: largeCallsPerSecond }),
      ] as const
      mixed.push(withoutCpu((await Promise.all(both))[0]))
    }
    return [toScenarioResult(openScenario, alone, `${name}, alone`), toScenarioResult(openScenario, mixed, `${name}, with large responses`)]
  } finally {
    await server.stop()
  }
}

/** CPU per call would mislead: so few calls mainly cost a wake-up each, and with large responses the CPU is that of both. */
const withoutCpu = ({ cpuMicrosPerCall: _cpu, gcShare: _gc, ...round }: Round): Round => round
