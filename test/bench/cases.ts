import { mixedLoad } from './mixed-load.ts'
import {
  badKeyRequest,
  badParamsRequest,
  batchRequest,
  blockNumberRequest,
  uncachedStorageAtRequest,
  logsRequest,
  storageAtRequest,
  variedStorageAtRequest,
  logDataWords,
} from './request-templates.ts'
import type { RequestTemplate } from './request-templates.ts'
import { cpuRatio, longestLoopBlock, peakMemoryPerResponse } from './figures.ts'
import type { Figure } from './figures.ts'
import { idleWebSockets } from './idle-websockets.ts'
import { ledgerCost } from './ledger-cost.ts'
import { compareScenarios } from './measure.ts'
import type { Scenario, ScenarioResult, ReportSkipped } from './measure.ts'
import type { Baseline, BenchServers } from './servers.ts'
import { coldStart } from './cold-start.ts'

export interface CaseResult {
  readonly rows: readonly ScenarioResult[]
  readonly figures: readonly Figure[]
}

export interface Case {
  readonly name: string
  readonly title: string
  /** So much like another case that `--quick` leaves it out, unless it is asked for. */
  readonly skipInQuick?: true
  run(servers: BenchServers, skip: ReportSkipped): Promise<CaseResult>
}

type RunCase = Case['run']

/** What is the same in most lanes. */
const httpScenario = { path: '', transport: 'http:', connections: 32 } as const

const baselineNames: Readonly<Record<Baseline, string>> = {
  http: 'bare node:http',
  koa: 'Koa',
  proxy: 'parsing proxy',
  pipe: 'piping proxy',
  ws: 'bare ws',
}

const gatewayScenario = ({ keys }: BenchServers, calls: RequestTemplate): Scenario => ({
  ...httpScenario,
  name: 'tollgate',
  server: 'gateway',
  path: `v3/${keys.good}`,
  request: calls,
})

const baselineScenario = (server: Baseline, calls: RequestTemplate): Scenario => ({
  ...httpScenario,
  name: baselineNames[server],
  server,
  request: calls,
})

/** Peers get the same calls; what their node answers is their affair. */
const peerScenarios = (
  { peers }: BenchServers,
  { request: { body, batchSize }, warmUpRequest: _warmUp, ...scenario }: Scenario,
): readonly Scenario[] =>
  peers.map(({ name }) => ({
    ...scenario,
    name,
    server: `peer:${name}`,
    path: '',
    request: { body, status: 200, ...(batchSize === undefined ? {} : { batchSize }) },
  }))

const cachedCalls =
  (calls: RequestTemplate): RunCase =>
  async (servers, skip) => {
    const gateway = gatewayScenario(servers, calls)
    const others = [baselineScenario('http', calls), baselineScenario('koa', calls), ...peerScenarios(servers, gateway)]
    const rows = await compareScenarios(servers, [gateway, ...others], skip)
    return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.http, 1.8), cpuRatio(rows, baselineNames.koa, baselineNames.http)] }
  }

/** Calls that are alike the gateway reads and judges once; here it must look for what it has found out before. */
const variedCalls: RunCase = async (servers, skip) => {
  const gateway = gatewayScenario(servers, variedStorageAtRequest)
  const rows = await compareScenarios(
    servers,
    [gateway, baselineScenario('http', variedStorageAtRequest), ...peerScenarios(servers, gateway)],
    skip,
  )
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.http)] }
}

const uncachedCalls: RunCase = async (servers, skip) => {
  const gateway = gatewayScenario(servers, uncachedStorageAtRequest)
  const rows = await compareScenarios(
    servers,
    [gateway, baselineScenario('proxy', uncachedStorageAtRequest), ...peerScenarios(servers, gateway)],
    skip,
  )
  return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.proxy, 1.4)] }
}

const overWebSockets =
  (connections: number, pipelining: number): RunCase =>
  async (servers, skip) => {
    const socket = { transport: 'ws:', connections, pipelining } as const
    const gateway = { ...gatewayScenario(servers, storageAtRequest), ...socket, path: `ws/v3/${servers.keys.good}` }
    const others = [{ ...baselineScenario('ws', storageAtRequest), ...socket }, ...peerScenarios(servers, gateway)]
    const rows = await compareScenarios(servers, [gateway, ...others], skip)
    return { rows, figures: [cpuRatio(rows, 'tollgate', baselineNames.ws, 1.6)] }
  }

const inBatches: RunCase = async (servers, skip) => {
  const scenarios = {
    batch: { ...gatewayScenario(servers, batchRequest), name: 'tollgate, batch of 100' },
    single: { ...gatewayScenario(servers, storageAtRequest), name: 'tollgate, one call' },
    bare: { ...baselineScenario('http', batchRequest), name: `${baselineNames.http}, batch of 100` },
  }
  const rows = await compareScenarios(servers, [...Object.values(scenarios), ...peerScenarios(servers, scenarios.batch)], skip)
  return {
    rows,
    figures: [cpuRatio(rows, scenarios.batch.name, scenarios.single.name, 0.25), cpuRatio(rows, scenarios.batch.name, scenarios.bare.name)],
  }
}

/** As many connections to each process: one that has fewer finds fewer calls at once, and each costs a little more, whoever it is. */
const inTwoWorkers: RunCase = async (servers, skip) => {
  const one = { ...gatewayScenario(servers, storageAtRequest), name: 'tollgate, one process' }
  const two = { ...one, name: 'tollgate, two workers', server: 'workers' as const, connections: 2 * one.connections }
  const rows = await compareScenarios(servers, [one, two], skip)
  return { rows, figures: [cpuRatio(rows, two.name, one.name, 1.1)] }
}

/** One answer at a time, so that memory above rest is what one answer takes. */
const largeResponses =
  (dataWords: number): RunCase =>
  async (servers, skip) => {
    const single = { connections: 1, warmUpRequest: storageAtRequest, loopSampleIntervalMs: 1 } as const
    const gateway = { ...gatewayScenario(servers, logsRequest(dataWords)), ...single }
    const others = [{ ...baselineScenario('pipe', logsRequest(dataWords)), ...single }, ...peerScenarios(servers, gateway)]
    const rows = await compareScenarios(servers, [gateway, ...others], skip)
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

/** Refusing must not cost more than answering, or refused calls are a way to hurt those who pay. */
const rejectedCalls: RunCase = async (servers, skip) => {
  const { unknown, mistyped } = servers.keys
  const accepted = { ...gatewayScenario(servers, storageAtRequest), name: 'answered from the cache' }
  const rejected = [
    { ...gatewayScenario(servers, badKeyRequest), name: 'mistyped key', path: `v3/${mistyped}` },
    { ...gatewayScenario(servers, badKeyRequest), name: 'unknown key', path: `v3/${unknown}` },
    { ...gatewayScenario(servers, badParamsRequest), name: 'bad parameters' },
  ]
  const rows = await compareScenarios(servers, [accepted, ...rejected], skip)
  return { rows, figures: rejected.map(({ name }) => cpuRatio(rows, name, accepted.name, 1)) }
}

/** Everything that is measured, in the order of the table. */
export const cases: readonly Case[] = [
  { name: 'cached', title: 'HTTP, eth_getStorageAt from the cache', run: cachedCalls(storageAtRequest) },
  { name: 'block-number', title: 'HTTP, eth_blockNumber from the cache', skipInQuick: true, run: cachedCalls(blockNumberRequest) },
  { name: 'varied', title: 'HTTP, eth_getStorageAt from the cache, 2,000 slots in turn', skipInQuick: true, run: variedCalls },
  { name: 'uncached', title: 'HTTP, eth_getStorageAt from the node', run: uncachedCalls },
  { name: 'batch', title: 'HTTP, batches of 100 from the cache', run: inBatches },
  { name: 'ws-1', title: 'WebSocket, from the cache, 1 socket, 32 calls at once', run: overWebSockets(1, 32) },
  { name: 'ws-100', title: 'WebSocket, from the cache, 100 sockets', skipInQuick: true, run: overWebSockets(100, 1) },
  { name: 'ws-1000', title: 'WebSocket, from the cache, 1,000 sockets', run: overWebSockets(1000, 1) },
  { name: 'logs', title: 'HTTP, eth_getLogs, 10,000 logs in 6 MB', run: largeResponses(logDataWords.small) },
  { name: 'large', title: 'HTTP, eth_getLogs, 10,000 logs in 21 MB', skipInQuick: true, run: largeResponses(logDataWords.large) },
  { name: 'mixed', title: 'HTTP, 500 small calls/s while 6 MB answers come at 5/s', run: mixedLoad },
  { name: 'refused', title: 'HTTP, refused calls', run: rejectedCalls },
  { name: 'workers', title: 'HTTP, from the cache, two workers', skipInQuick: true, run: inTwoWorkers },
  { name: 'ledger', title: 'The ledger', run: ledgerCost },
  { name: 'sockets', title: 'Idle WebSockets', run: idleWebSockets },
  { name: 'start', title: 'Start and rest', run: coldStart },
]
