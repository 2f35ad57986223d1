import { setTimeout as pause } from 'node:timers/promises'
import type { RequestTemplate } from './request-templates.ts'
import type { LoadSession } from './load-process.ts'
import type { LoadOptions } from './load/load-generator.ts'
import type { MonitorReport } from './process-monitor.ts'
import { processTreeOf, readProcessUsage, resetPeakRss } from './proc-fs.ts'
import type { ServerProcess } from './server-process.ts'
import type { ServerName, BenchServers } from './servers.ts'

/** One kind of call to one server: what stands in a line of the table. */
export interface Scenario {
  readonly name: string
  readonly server: ServerName
  /** Relative to the server's URL. */
  readonly path: string
  readonly transport: 'http:' | 'ws:'
  readonly connections: number
  /** Calls in flight on each line; one, when absent. */
  readonly pipelining?: number
  readonly request: RequestTemplate
  /** Time in ms between looks at the event loop; 10, when absent, which shows what many calls together do. */
  readonly loopSampleIntervalMs?: number
  /** Calls that the process has answered before its memory at rest is read: code and heap are then in place. */
  readonly warmUpRequest?: RequestTemplate
}

/** One turn of a lane. What cannot be seen on this system, or in a process of somebody else, is absent. */
export interface Round {
  readonly callsPerSecond: number
  /** Latency of a message in ms. */
  readonly p50: number
  readonly p99: number
  /** MB of one answer. */
  readonly responseMB: number
  /** CPU of the server's process in us per call. */
  readonly cpuMicrosPerCall?: number
  /** Peak of its memory, in MB. */
  readonly peakRssMB?: number
  /** Delay of its event loop, in ms. */
  readonly loopP99?: number
  readonly loopMax?: number
  /** Share of the time that went into garbage collections. */
  readonly gcShare?: number
}

export interface ScenarioResult {
  readonly name: string
  readonly rounds: readonly Round[]
  /** Memory of the process before these calls, in MB. */
  readonly idleRssMB?: number
}

/** A server with connections to it, after its warm-up. */
export interface OpenScenario {
  readonly scenario: Scenario
  readonly server: ServerProcess
  readonly session: LoadSession
  readonly idleRssMB: number | undefined
}

/** Told which lane cannot take part, and why. */
export type ReportSkipped = (line: string) => void

/** Measures lanes in turn, forth and back: a slow drift of the machine meets all of them alike. */
export const compareScenarios = async (
  servers: BenchServers,
  scenarios: readonly Scenario[],
  reportSkipped: ReportSkipped,
): Promise<readonly ScenarioResult[]> => {
  const started = new Map<ServerName, ServerProcess>()
  try {
    const names = [...new Set(scenarios.map(lane => lane.server))]
    await Promise.all(names.map(async name => started.set(name, await servers.start(name))))
    for (const lane of scenarios) await sendWarmUpRequest(servers, lane, started.get(lane.server) as ServerProcess)
    await pause(servers.settings.idleBeforeReadingMs)
    const idleRss = new Map([...started].map(([name, server]) => [name, readProcessUsage(pidsOf(server))?.rssMB]))
    const opened: OpenScenario[] = []
    for (const lane of scenarios) {
      const one = await openScenario(servers, lane, started.get(lane.server) as ServerProcess, reportSkipped)
      if (one !== undefined) opened.push({ ...one, idleRssMB: idleRss.get(lane.server) })
    }
    return await runRounds(servers, opened)
  } finally {
    for (const server of started.values()) await server.stop()
  }
}

const sendWarmUpRequest = async (
  servers: BenchServers,
  { warmUpRequest: first, ...scenario }: Scenario,
  server: ServerProcess,
): Promise<void> => {
  if (first === undefined) return
  const session = await openSession(servers, { ...scenario, request: first }, server)
  await warmUp(servers, { ...scenario, request: first }, session)
  await session.close()
}

/** On a slow or busy machine it takes longer to come to as many calls as the compiler needs to see. */
const warmUp = async (servers: BenchServers, scenario: Scenario, session: LoadSession): Promise<void> => {
  let [calls, bytes] = [0, 0]
  for (let i = 0; i < 5 && calls < 5000 && bytes < 200e6; i++) {
    const result = await session.run({ durationMs: servers.settings.minWarmUpMs, ...pipeliningOf(scenario) })
    calls += result.responses * (scenario.request.batchSize ?? 1)
    bytes += result.bodyBytes
  }
}

/** A peer that does not give the right answer is left out; a wrong answer of anybody else ends the benchmark. */
const openScenario = async (
  servers: BenchServers,
  scenario: Scenario,
  server: ServerProcess,
  reportSkipped: ReportSkipped,
): Promise<Omit<OpenScenario, 'idleRssMB'> | undefined> => {
  try {
    const session = await openSession(servers, scenario, server)
    await warmUp(servers, scenario, session)
    return { scenario, server, session }
  } catch (error) {
    if (!scenario.server.startsWith('peer:')) throw withScenarioName(scenario, error)
    reportSkipped(`left out: ${withScenarioName(scenario, error).message}`)
    return undefined
  }
}

const withScenarioName = ({ name }: Scenario, error: unknown): Error => new Error(`${name}: ${(error as Error).message}`)

export const openSession = (
  servers: BenchServers,
  scenario: Scenario,
  server: ServerProcess,
  loadProcess = servers.loadProcess,
): Promise<LoadSession> => {
  const url = new URL(scenario.path, server.url)
  url.protocol = scenario.transport
  return loadProcess.open({
    url: url.href,
    connections: scenario.connections,
    body: scenario.request.body,
    expected: expectedResponseOf(scenario.request),
  })
}

const expectedResponseOf = ({ body: _sent, ...expected }: RequestTemplate) => expected

const runRounds = async (servers: BenchServers, opened: readonly OpenScenario[]): Promise<readonly ScenarioResult[]> => {
  const rounds = new Map<OpenScenario, Round[]>(opened.map(each => [each, []]))
  for (let i = 0; i < servers.settings.rounds; i++) {
    for (const each of i % 2 === 0 ? opened : opened.toReversed()) {
      rounds.get(each)?.push(await measureRound(servers, each, { durationMs: servers.settings.roundMs, ...pipeliningOf(each.scenario) }))
    }
  }
  for (const { session } of opened) await session.close()
  return opened.map(each => toScenarioResult(each, rounds.get(each) ?? []))
}

const pipeliningOf = ({ pipelining }: Scenario): { pipelining?: number } => (pipelining === undefined ? {} : { pipelining })

export const toScenarioResult = (
  { scenario, idleRssMB }: OpenScenario,
  rounds: readonly Round[],
  name = scenario.name,
): ScenarioResult => ({
  name,
  rounds,
  ...(idleRssMB === undefined ? {} : { idleRssMB }),
})

/** Runs one round and reads what the server's process used for it. */
export const measureRound = async (
  servers: BenchServers,
  { scenario: lane, server, session }: OpenScenario,
  options: LoadOptions,
): Promise<Round> => {
  const pids = pidsOf(server)
  resetPeakRss(pids)
  await servers.monitors.begin(pids, lane.loopSampleIntervalMs ?? 10)
  const before = readProcessUsage(pids)
  const result = await session.run(options).catch((fault: unknown) => {
    throw withScenarioName(lane, fault)
  })
  const after = readProcessUsage(pids)
  const reports = await servers.monitors.end(pids)
  const calls = result.responses * (lane.request.batchSize ?? 1)
  const cpu = before === undefined || after === undefined ? undefined : after.cpuMicros - before.cpuMicros
  return {
    callsPerSecond: calls / result.durationSeconds,
    p50: result.p50,
    p99: result.p99,
    responseMB: result.bodyBytes / result.responses / 1e6,
    ...(cpu === undefined ? {} : { cpuMicrosPerCall: cpu / calls, peakRssMB: after?.peakRssMB ?? 0 }),
    ...(reports.length === 0 ? {} : summarizeReports(reports, result.durationSeconds)),
  }
}

export const pidsOf = ({ pid }: ServerProcess): readonly number[] => (pid === undefined ? [] : processTreeOf(pid))

const summarizeReports = (reports: readonly MonitorReport[], seconds: number): Partial<Round> => ({
  loopP99: Math.max(...reports.map(each => each.loopP99)),
  loopMax: Math.max(...reports.map(each => each.loopMax)),
  gcShare: reports.reduce((sum, each) => sum + each.gcMs, 0) / 1000 / seconds,
})
