import { logsRequest, storageAtRequest, logDataWords } from './request-templates.ts'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { measureRound, openSession, toScenarioResult } from './measure.ts'
import type { Scenario, Round, ScenarioResult } from './measure.ts'
import type { ServerName, BenchServers } from './servers.ts'
import { spreadOf } from './stats.ts'

/** Calls per second. */
const smallCallsPerSecond = 500
const largeCallsPerSecond = 5

/** Small calls alone, and while big answers run: who asks little must not wait for who asks much. */
export const mixedLoad = async (servers: BenchServers): Promise<CaseResult> => {
  const { good } = servers.keys
  const gatewayResults = await measureAloneAndMixed(servers, 'gateway', 'tollgate', `v3/${good}`)
  const proxyResults = await measureAloneAndMixed(servers, 'pipe', 'piping proxy', '')
  const p99Rise = ([alone, beside]: readonly ScenarioResult[]) =>
    spreadOf(beside?.rounds.map((round, i) => round.p99 - (alone?.rounds[i]?.p99 ?? 0)) ?? [])
  return {
    rows: [...gatewayResults, ...proxyResults],
    figures: [
      createFigure('p99 of small calls to tollgate rises by', 'ms', p99Rise(gatewayResults), 20),
      createFigure('p99 of small calls to the piping proxy rises by', 'ms', p99Rise(proxyResults)),
    ],
  }
}

const measureAloneAndMixed = async (
  servers: BenchServers,
  kind: ServerName,
  name: string,
  path: string,
): Promise<readonly ScenarioResult[]> => {
  const { constantRateRoundMs: ms, rounds, minWarmUpMs: warmUp } = servers.settings
  const server = await servers.start(kind)
  try {
    const scenario: Scenario = {
      name,
      server: kind,
      path,
      transport: 'http:',
      connections: 64,
      request: storageAtRequest,
      loopSampleIntervalMs: 1,
    }
    const openScenario = { scenario, server, session: await openSession(servers, scenario, server), idleRssMB: undefined }
    const largeSession = await openSession(
      servers,
      { ...scenario, connections: 8, request: logsRequest(logDataWords.small) },
      server,
      servers.secondLoadProcess,
    )
    const [alone, mixed]: [Round[], Round[]] = [[], []]
    await openScenario.session.run({ durationMs: warmUp })
    await largeSession.run({ durationMs: warmUp, callsPerSecond: largeCallsPerSecond })
    for (let i = 0; i < rounds; i++) {
      alone.push(withoutCpu(await measureRound(servers, openScenario, { durationMs: ms, callsPerSecond: smallCallsPerSecond })))
      const both = [
        measureRound(servers, openScenario, { durationMs: ms, callsPerSecond: smallCallsPerSecond }),
        largeSession.run({ durationMs: ms, callsPerSecond: largeCallsPerSecond }),
      ] as const
      mixed.push(withoutCpu((await Promise.all(both))[0]))
    }
    return [toScenarioResult(openScenario, alone, `${name}, alone`), toScenarioResult(openScenario, mixed, `${name}, beside big answers`)]
  } finally {
    await server.stop()
  }
}

/** So few calls cost mainly what it takes to wake up for each; and beside big answers it went into both kinds. */
const withoutCpu = ({ cpuMicrosPerCall: _both, gcShare: _share, ...round }: Round): Round => round
