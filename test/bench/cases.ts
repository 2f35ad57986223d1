import { accountsInTurn } from './accounts.ts'
import { blockPolls } from './block-polls.ts'
import { mixedLoad } from './mixed-load.ts'
import {
  badKeyRequest,
  badParamsRequest,
  batchRequest,
  blockNumberRequest,
  uncachedStorageAtRequest,
  logsRequest,
  storageAtRequest,
  variedBatchRequest,
  variedStorageAtRequest,
  logDataWords,
} from './request-templates.ts'
import { readRecordedRequests } from './recorded-traffic.ts'
import type { RequestTemplate } from './load/load-generator.ts'
import { cpuRatio, cpuRatioBeside, longestLoopBlock, p99Ratio, peakMemoryPerResponse } from './figures.ts'
import type { Figure } from './figures.ts'
import { firstCalls } from './first-calls.ts'
import { failingNode, hangingNode } from './hanging-node.ts'
import { idleWebSockets } from './idle-websockets.ts'
import { ledgerCost } from './ledger-cost.ts'
import { manyNetworks } from './networks.ts'
import { overviewsBesideCalls } from './overviews.ts'
import { pagesInBrowser } from './pages.ts'
import { compareScenarios } from './measure.ts'
import type { Scenario, ScenarioResult, ReportSkipped } from './measure.ts'
import type { Baseline, BenchServers } from './servers.ts'
import { coldStart } from './cold-start.ts'
import { sharedState } from './shared-state.ts'
import { storeScale } from './store-scale.ts'

export interface CaseResult {
  readonly rows: readonly ScenarioResult[]
  readonly figures: readonly Figure[]
  /** Lines of cells, for what is no scenario; the first line has the names of the columns. */
  readonly table?: readonly (readonly string[])[]
}

export interface Case {
  readonly name: string
  readonly title: string
  /** `--quick` skips the case, because it resembles another one, unless `--only` names it. */
  readonly skipInQuick?: true
  run(servers: BenchServers, reportSkipped: ReportSkipped): Promise<CaseResult>
}

type RunCase = Case['run']

/** What most scenarios have in common. */
const httpScenario = { path: '', transport: 'http:', connections: 32 } as const

const baselineNames: Readonly<Record<Baseline, string>> = {
  http: 'bare node:http',
  'http-workers': 'bare node:http, two workers',
  koa: 'Koa',
  proxy: 'parsing proxy',
  pipe: 'piping proxy',
  ws: 'bare ws',
}

const gatewayScenario = ({ keys }: BenchServers, ...requests: readonly RequestTemplate[]): Scenario => ({
  ...httpScenario,
  name: 'tollgate',
  server: 'gateway',
  path: `v3/${keys.valid}`,
  requests,
})

const baselineScenario = (server: Baseline, ...requests: readonly RequestTemplate[]): Scenario => ({
  ...httpScenario,
  name: baselineNames[server],
  server,
  requests,
})

/** Peers get the same calls; their results are not compared, because their node may be another. */
const peerScenarios = ({ peers }: BenchServers, { requests, warmUpRequest: _warmUp, ...scenario }: Scenario): readonly Scenario[] =>
  peers.map(({ name }) => ({
    ...scenario,
    name,
    server: `peer:${name}`,
    path: '',
    requests: requests.map(({ body, batchSize }) => ({ body, status: 200, ...(batchSize === undefined ? {} : { batchSize }) })),
  }))

const cachedCalls =
  (request: RequestTemplate): RunCase =>
  async (servers, reportSkipped) => {
    const gateway = gatewayScenario(servers, request)
    const others = [baselineScenario('http', request), baselineScenario('koa', request), ...peerScenarios(servers, gateway)]
    const rows = await compareScenarios(servers, [gateway, ...others], reportSkipped)
    return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.http, 1.8), cpuRatio(rows, baselineNames.koa, baselineNames.http)] }
  }

/** The gateway parses and checks a repeated request once; here it has to look up what it has found out about 2,000 requests. */
const variedCalls: RunCase = async (servers, reportSkipped) => {
  const gateway = gatewayScenario(servers, variedStorageAtRequest)
  const rows = await compareScenarios(
    servers,
    [gateway, baselineScenario('http', variedStorageAtRequest), ...peerScenarios(servers, gateway)],
    reportSkipped,
  )
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.http)] }
}

/** So few that each costs a wake-up of the process, as most gateways have them. */
const pacedCallsPerSecond = 1_000

const pacedCalls: RunCase = async (servers, reportSkipped) => {
  const rate = { callsPerSecond: pacedCallsPerSecond }
  const gateway = { ...gatewayScenario(servers, storageAtRequest), ...rate }
  const others = [{ ...baselineScenario('http', storageAtRequest), ...rate }, ...peerScenarios(servers, gateway)]
  const rows = await compareScenarios(servers, [gateway, ...others], reportSkipped)
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.http, 1.25)] }
}

/** The load at which gateways were compared: over so many connections that each is idle most of the time. */
const pacedUncached = { callsPerSecond: 500, connections: 64 }

/** Nothing is saturated: what a call waits for beside the node is the server itself. */
const pacedUncachedCalls: RunCase = async (servers, reportSkipped) => {
  const gateway = { ...gatewayScenario(servers, uncachedStorageAtRequest), ...pacedUncached }
  const proxy = { ...baselineScenario('proxy', uncachedStorageAtRequest), ...pacedUncached }
  const rows = await compareScenarios(servers, [gateway, proxy, ...peerScenarios(servers, gateway)], reportSkipped)
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.proxy, 1.3), p99Ratio(rows, 'tollgate', baselineNames.proxy, 1.3)] }
}

const uncachedCalls: RunCase = async (servers, reportSkipped) => {
  const gateway = gatewayScenario(servers, uncachedStorageAtRequest)
  const rows = await compareScenarios(
    servers,
    [gateway, baselineScenario('proxy', uncachedStorageAtRequest), ...peerScenarios(servers, gateway)],
    reportSkipped,
  )
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.proxy, 1.4)] }
}

/** Each message as a library sent it, as often as it was sent. */
const recordedTraffic: RunCase = async (servers, reportSkipped) => {
  const requests = readRecordedRequests()
  const gateway = gatewayScenario(servers, ...requests)
  const others = [baselineScenario('proxy', ...requests), ...peerScenarios(servers, gateway)]
  const rows = await compareScenarios(servers, [gateway, ...others], reportSkipped)
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.proxy)] }
}

const overWebSockets =
  (connections: number, pipelining: number): RunCase =>
  async (servers, reportSkipped) => {
    const socket = { transport: 'ws:', connections, pipelining } as const
    const gateway = { ...gatewayScenario(servers, storageAtRequest), ...socket, path: `ws/v3/${servers.keys.valid}` }
    const others = [{ ...baselineScenario('ws', storageAtRequest), ...socket }, ...peerScenarios(servers, gateway)]
    const rows = await compareScenarios(servers, [gateway, ...others], reportSkipped)
    return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.ws, 1.6)] }
  }

const inBatches: RunCase = async (servers, reportSkipped) => {
  const scenarios = {
    batch: { ...gatewayScenario(servers, batchRequest), name: 'tollgate, batch of 100' },
    varied: { ...gatewayScenario(servers, variedBatchRequest), name: 'tollgate, batch of 100 different calls' },
    single: { ...gatewayScenario(servers, storageAtRequest), name: 'tollgate, one call' },
    baseline: { ...baselineScenario('http', batchRequest), name: `${baselineNames.http}, batch of 100` },
  }
  const rows = await compareScenarios(servers, [...Object.values(scenarios), ...peerScenarios(servers, scenarios.batch)], reportSkipped)
  return {
    rows,
    figures: [
      cpuRatio(rows, scenarios.batch.name, scenarios.single.name, 0.25),
      cpuRatio(rows, scenarios.varied.name, scenarios.single.name),
      cpuRatio(rows, scenarios.batch.name, scenarios.baseline.name),
    ],
  }
}

/**
 * The same number of connections to each process: with fewer connections, fewer calls arrive together, and each costs a little more. The bare
 * servers show what the same load costs in two processes whatever they do: with the load and the node they are four processes on few cores.
 */
const inTwoWorkers: RunCase = async (servers, reportSkipped) => {
  const one = { ...gatewayScenario(servers, storageAtRequest), name: 'tollgate, one process' }
  const bareOne = baselineScenario('http', storageAtRequest)
  const inTwo = { processes: 2, connections: 2 * one.connections }
  const two = { ...one, ...inTwo, name: 'tollgate, two workers', server: 'workers' as const }
  const bareTwo = { ...baselineScenario('http-workers', storageAtRequest), ...inTwo }
  const rows = await compareScenarios(servers, [one, two, bareOne, bareTwo], reportSkipped)
  const title = 'CPU of two workers / one process: tollgate / bare node:http'
  return {
    rows,
    figures: [
      cpuRatio(rows, two.name, one.name),
      cpuRatio(rows, bareTwo.name, bareOne.name),
      cpuRatioBeside(rows, title, [two.name, one.name, bareTwo.name, bareOne.name], 1.03),
    ],
  }
}

/** One response at a time, so that peak minus idle memory is what one response takes. */
const largeResponses =
  (dataWords: number): RunCase =>
  async (servers, reportSkipped) => {
    const single = { connections: 1, warmUpRequest: storageAtRequest, loopSampleIntervalMs: 1 } as const
    const gateway = { ...gatewayScenario(servers, logsRequest(dataWords)), ...single }
    const others = [{ ...baselineScenario('pipe', logsRequest(dataWords)), ...single }, ...peerScenarios(servers, gateway)]
    const rows = await compareScenarios(servers, [gateway, ...others], reportSkipped)
    return {
      rows,
      figures: [
        cpuRatio(rows, 'tollgate', baselineNames.pipe, 2),
        longestLoopBlock(rows, 'tollgate', 8),
        longestLoopBlock(rows, baselineNames.pipe),
        peakMemoryPerResponse(rows, 'tollgate', 2.5),
        peakMemoryPerResponse(rows, baselineNames.pipe),
      ],
    }
  }

/** Rejecting a call must not cost more than answering it: otherwise rejected calls could slow down paying callers. */
const rejectedCalls: RunCase = async (servers, reportSkipped) => {
  const { unknown, mistyped } = servers.keys
  const accepted = { ...gatewayScenario(servers, storageAtRequest), name: 'cached call' }
  const rejected = [
    { ...gatewayScenario(servers, badKeyRequest), name: 'mistyped key', path: `v3/${mistyped}` },
    { ...gatewayScenario(servers, badKeyRequest), name: 'unknown key', path: `v3/${unknown}` },
    { ...gatewayScenario(servers, badParamsRequest), name: 'bad parameters' },
  ]
  const rows = await compareScenarios(servers, [accepted, ...rejected], reportSkipped)
  return { rows, figures: rejected.map(({ name }) => cpuRatio(rows, name, accepted.name, 1)) }
}

/** Everything that is measured, in the order of the table. */
export const cases: readonly Case[] = [
  { name: 'cached', title: 'HTTP, eth_getStorageAt from the cache', run: cachedCalls(storageAtRequest) },
  { name: 'block-number', title: 'HTTP, eth_blockNumber from the cache', skipInQuick: true, run: cachedCalls(blockNumberRequest) },
  { name: 'varied', title: 'HTTP, eth_getStorageAt from the cache, 2,000 slots in turn', skipInQuick: true, run: variedCalls },
  { name: 'paced', title: 'HTTP, eth_getStorageAt from the cache, 1,000 calls/s', skipInQuick: true, run: pacedCalls },
  { name: 'paced-uncached', title: 'HTTP, eth_getStorageAt from the node, 500 calls/s', skipInQuick: true, run: pacedUncachedCalls },
  { name: 'uncached', title: 'HTTP, eth_getStorageAt from the node', run: uncachedCalls },
  { name: 'batch', title: 'HTTP, batches of 100 from the cache', run: inBatches },
  { name: 'recorded', title: 'HTTP, traffic recorded from clients', skipInQuick: true, run: recordedTraffic },
  { name: 'ws-1', title: 'WebSocket, from the cache, 1 socket, 32 concurrent calls', run: overWebSockets(1, 32) },
  { name: 'ws-100', title: 'WebSocket, from the cache, 100 sockets', skipInQuick: true, run: overWebSockets(100, 1) },
  { name: 'ws-1000', title: 'WebSocket, from the cache, 1,000 sockets', run: overWebSockets(1000, 1) },
  { name: 'logs', title: 'HTTP, eth_getLogs, 10,000 logs in 6 MB', run: largeResponses(logDataWords.small) },
  { name: 'large', title: 'HTTP, eth_getLogs, 10,000 logs in 21 MB', skipInQuick: true, run: largeResponses(logDataWords.large) },
  { name: 'mixed', title: 'HTTP, 500 small calls/s with 5 responses of 6 MB per second', run: mixedLoad },
  {
    name: 'overviews',
    title: 'HTTP, 500 cached calls/s with 20 Overviews of the dashboard per second',
    skipInQuick: true,
    run: overviewsBesideCalls,
  },
  { name: 'pages', title: 'The first pages of dashboard and operator in Chromium', skipInQuick: true, run: pagesInBrowser },
  { name: 'hang', title: 'HTTP, the first of two nodes is stopped for 6 s', skipInQuick: true, run: hangingNode },
  { name: 'faults', title: 'HTTP, the first of two nodes fails in other ways', skipInQuick: true, run: failingNode },
  { name: 'rejected', title: 'HTTP, rejected calls', run: rejectedCalls },
  { name: 'accounts', title: 'HTTP, from the cache, accounts in turn', skipInQuick: true, run: accountsInTurn },
  { name: 'workers', title: 'HTTP, from the cache, two workers', skipInQuick: true, run: inTwoWorkers },
  { name: 'polls', title: 'Polls of the head, blocks of 1 s', skipInQuick: true, run: blockPolls },
  { name: 'ledger', title: 'The ledger', run: ledgerCost },
  { name: 'sockets', title: 'Idle WebSockets', run: idleWebSockets },
  { name: 'start', title: 'Cold start and idle memory', run: coldStart },
  { name: 'first-calls', title: 'The first calls after a start, 100 uncached calls/s', skipInQuick: true, run: firstCalls },
  { name: 'networks', title: 'Start and idle memory with many networks', skipInQuick: true, run: manyNetworks },
  {
    name: 'scale',
    title: 'What gateways ask of a Redis, 500 calls/s of accounts that are equally likely',
    skipInQuick: true,
    run: storeScale,
  },
  { name: 'shared', title: 'What rate limits, heights and request logs ask of a Redis', skipInQuick: true, run: sharedState },
]
