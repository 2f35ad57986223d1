import { setTimeout as pause } from 'node:timers/promises'
import type { LoadSession } from './load-process.ts'
import type { LoadOptions, RequestTemplate } from './load/load-generator.ts'
import type { MonitorReport } from './process-monitor.ts'
import { processTreeOf, readProcessUsage, resetPeakRss } from './proc-fs.ts'
import type { ServerProcess } from './server-process.ts'
import type { ServerName, BenchServers, Variant } from './servers.ts'

/** Calls to one server: a line of the table. */
export interface Scenario {
  readonly name: string
  readonly server: ServerName
  /** Relative to the server's URL. */
  readonly path: string
  readonly transport: 'http:' | 'ws:'
  readonly connections: number
  /** Processes that share the calls; 1 if absent. */
  readonly processes?: number
  /** Calls in flight on each connection; 1 if absent. */
  readonly pipelining?: number
  /** A constant rate of all connections together; as many calls as possible if absent. */
  readonly callsPerSecond?: number
  /** Kinds of calls, which are sent in turn. */
  readonly requests: readonly RequestTemplate[]
  /** API keys that follow the path, in turn. */
  readonly keys?: readonly string[]
  /** How often the event loop is sampled; 10 ms if absent, which shows what many calls together do. */
  readonly loopSampleIntervalMs?: number
  /** Sent before idle memory is read, so that code is compiled and the heap has grown. */
  readonly warmUpRequest?: RequestTemplate
}

const defaultSampleIntervalMs = 10

/** One round of a scenario. What cannot be measured on this system, or in the process of a peer, is absent. */
export interface Round {
  readonly callsPerSecond: number
  /** Latency of a message, in ms. */
  readonly p50: number
  readonly p99: number
  /** Size of a response. */
  readonly responseMB: number
  /** CPU time of the server process. */
  readonly cpuMicrosPerCall?: number
  /** Peak of its resident memory. */
  readonly peakRssMB?: number
  /** Delay of its event loop, in ms: 99th percentile and maximum. */
  readonly loopP99?: number
  readonly loopMax?: number
  /** Share of the time that was spent in garbage collections. */
  readonly gcShare?: number
}

export interface ScenarioResult {
  readonly name: string
  readonly rounds: readonly Round[]
  /** Resident memory of the process before these calls. */
  readonly idleRssMB?: number
}

/** A server and connections to it, after the warm-up. */
export interface OpenScenario {
  readonly scenario: Scenario
  readonly server: ServerProcess
  readonly session: LoadSession
  readonly idleRssMB: number | undefined
}

/** Prints which scenario is skipped, and why. */
export type ReportSkipped = (line: string) => void

/** Measures scenarios in turn, in alternating order: a slow drift of the machine affects all of them equally. */
export const compareScenarios = async (
  servers: BenchServers,
  ownScenarios: readonly Scenario[],
  reportSkipped: ReportSkipped,
): Promise<readonly ScenarioResult[]> => {
  const scenarios = [...ownScenarios, ...variantScenarios(servers, ownScenarios)]
  const started = new Map<ServerName, ServerProcess>()
  try {
    const names = [...new Set(scenarios.map(scenario => scenario.server))]
    await Promise.all(names.map(async name => started.set(name, await servers.start(name))))
    for (const scenario of scenarios) await sendWarmUpRequest(servers, scenario, started.get(scenario.server) as ServerProcess)
    await pause(servers.settings.idleBeforeReadingMs)
    const idleRss = new Map([...started].map(([name, server]) => [name, readProcessUsage(pidsOf(server))?.rssMB]))
    const opened: OpenScenario[] = []
    for (const scenario of scenarios) {
      const open = await openScenario(servers, scenario, started.get(scenario.server) as ServerProcess, reportSkipped)
      if (open !== undefined) opened.push({ ...open, idleRssMB: idleRss.get(scenario.server) })
    }
    return await runRounds(servers, opened)
  } finally {
    for (const server of started.values()) await server.stop()
  }
}

/** The same calls to the variants of the gateway. */
const variantScenarios = ({ variants, keys }: BenchServers, scenarios: readonly Scenario[]): readonly Scenario[] =>
  variants.flatMap(variant =>
    scenarios
      .filter(({ server }) => server === 'gateway')
      .map(scenario => ({
        ...scenario,
        name: variantName(scenario.name, variant),
        server: variant.server,
        path: scenario.path.replace(keys.valid, variant.key),
      })),
  )

/** The name of the line for the same calls to a variant. */
export const variantName = (name: string, { label }: Pick<Variant, 'label'>): string => `${name} ${label}`

const sendWarmUpRequest = async (
  servers: BenchServers,
  { warmUpRequest: request, ...scenario }: Scenario,
  server: ServerProcess,
): Promise<void> => {
  if (request === undefined) return
  const warmUpScenario = { ...scenario, requests: [request] }
  const session = await openSession(servers, warmUpScenario, server)
  await warmUp(servers, warmUpScenario, session)
  await session.close()
}

/** V8 compiles what has run often enough, in each process: a slow or busy machine needs more runs to reach as many calls. */
const maxWarmUpRuns = 5
const minWarmUpCalls = 5000
const minWarmUpBytes = 200e6
/** The first call of an account waits for the store. */
const callsPerKey = 2
const minCallsOfKeysPerRun = 200

const warmUp = async (servers: BenchServers, scenario: Scenario, session: LoadSession): Promise<void> => {
  const { processes = 1, keys = [] } = scenario
  const minCalls = Math.max(processes * minWarmUpCalls, callsPerKey * keys.length)
  const maxRuns = Math.max(processes * maxWarmUpRuns, keys.length / minCallsOfKeysPerRun)
  let [calls, bytes] = [0, 0]
  for (let i = 0; i < maxRuns && calls < minCalls && bytes < minWarmUpBytes; i++) {
    const result = await session.run({ durationMs: servers.settings.minWarmUpMs, ...pipeliningOf(scenario) })
    calls += result.responses * callsPerMessage(scenario)
    bytes += result.bodyBytes
  }
}

/** A peer with a wrong response is skipped; a wrong response of another server ends the benchmark. */
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
    reportSkipped(`skipped: ${withScenarioName(scenario, error).message}`)
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
    requests: scenario.requests,
    ...(scenario.keys && { keys: scenario.keys }),
  })
}

/** The mean, as a message may be a batch. */
const callsPerMessage = ({ requests }: Scenario): number =>
  requests.reduce((sum, { batchSize = 1 }) => sum + batchSize, 0) / requests.length

const runRounds = async (servers: BenchServers, opened: readonly OpenScenario[]): Promise<readonly ScenarioResult[]> => {
  const rounds = new Map<OpenScenario, Round[]>(opened.map(each => [each, []]))
  for (let i = 0; i < servers.settings.rounds; i++) {
    for (const each of i % 2 === 0 ? opened : opened.toReversed()) {
      const { leadMs } = servers.settings
      if (leadMs !== undefined) await each.session.run({ durationMs: leadMs, ...pipeliningOf(each.scenario) })
      rounds.get(each)?.push(await measureRound(servers, each, roundOptionsOf(servers, each.scenario)))
    }
  }
  for (const { session } of opened) await session.close()
  return opened.map(each => toScenarioResult(each, rounds.get(each) ?? []))
}

const roundOptionsOf = ({ settings }: BenchServers, scenario: Scenario): LoadOptions =>
  scenario.callsPerSecond === undefined
    ? { durationMs: settings.roundMs, ...pipeliningOf(scenario) }
    : { durationMs: settings.constantRateRoundMs, callsPerSecond: scenario.callsPerSecond }

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

/** Runs one round, and measures what the server process used. */
export const measureRound = async (
  servers: BenchServers,
  { scenario, server, session }: OpenScenario,
  options: LoadOptions,
): Promise<Round> => {
  const pids = pidsOf(server)
  resetPeakRss(pids)
  await servers.monitors.begin(pids, scenario.loopSampleIntervalMs ?? defaultSampleIntervalMs)
  const before = readProcessUsage(pids)
  const result = await session.run(options).catch((error: unknown) => {
    throw withScenarioName(scenario, error)
  })
  const after = readProcessUsage(pids)
  const reports = await servers.monitors.end(pids)
  const calls = result.responses * callsPerMessage(scenario)
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
