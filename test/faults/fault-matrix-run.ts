import { faults } from '../support/node-faults.ts'
import { compressionBombs, exceptChainId, respondCorrectly } from '../support/node-responses.ts'
import type { NodeFault } from '../support/node-responses.ts'
import { caCertificatePath, defaultBlockTimeMs, startFaultyNode } from '../support/faulty-node.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { liveBytesOf, skipUnlessLinux, residentBytesOf, memoryReportOptions } from '../support/process-memory.ts'
import { openCallers } from './callers.ts'
import type { Callers, CallOutcome, SentCall } from './callers.ts'
import { partnerFaultNames, faultCases } from './fault-cases.ts'
import type { NodeUnderTest, FaultCase } from './fault-cases.ts'

// Two gateways, started as operators start them, with a network for each fault. Nodes and callers run in this process, which
// tap does not load itself into: it hooks every promise, which takes longer than what is measured.

/** The result of one trial. */
export interface FaultResult {
  readonly name: string
  /** Which nodes have the fault: one of two, both, or the partner while the own node is unreachable. */
  readonly placement: 'one' | 'both' | 'partner'
  /** Calls that were judged; with one faulty node, those after its detection. */
  readonly calls: number
  readonly correctCalls: number
  /** Responses that were not those to the request; of all calls. */
  readonly wrongResponses: readonly string[]
  /** Judged calls that repeat no other call. */
  readonly uniqueCalls: number
  /** Requests to nodes for the judged calls. */
  readonly attempts: number
  /** What callers got instead of a correct response. */
  readonly callerErrors: readonly string[]
  /** Causes of failures in the log of the gateway. */
  readonly loggedCauses: readonly string[]
}

/** The result of one gateway. */
export interface GatewayResult {
  /** `heavy`: faults that take memory; `light`: all others. */
  readonly gateway: 'heavy' | 'light'
  /** Maximum growth of the resident set after the warm-up, held for a second or longer. */
  readonly residentGrowthMiB: number
  /** Growth of live memory from the warm-up to the end, after garbage collections. */
  readonly liveGrowthMiB: number
  readonly exitCode: number | null
  /** Log lines of the level error, which no fault of a node may cause. */
  readonly errorLines: readonly unknown[]
}

/** 100 calls a second. */
const callIntervalMs = 10
/** Calls that are judged after the detection of a faulty node. */
const judgedCallCount = 100
/** Calls where all nodes are faulty. */
const failingCallCount = 40
/** A faulty node counts as detected when so many calls in a row did not reach it. */
const minBypassingCalls = 20
/** A node that is not excluded counts as judged when so many calls had correct responses. */
const minCorrectCalls = 40

const samplesPerSecond = 50

/**
 * glibc gives larger blocks that are freed back to the system at once. Otherwise it soon holds 16 MiB, as brotli takes, in each thread that has
 * ever decompressed: how many of them the warm-up had depends on how busy the machine is.
 */
const returnFreedMemory = { MALLOC_MMAP_THRESHOLD_: '131072' }

/** pino's level for errors. */
const errorLevel = 50

/** Trials at a time on the gateway `light`. */
const lightConcurrency = 5

/** A network of two nodes, of which at least one is faulty. */
interface FaultTrial {
  readonly name: string
  readonly placement: FaultResult['placement']
  readonly network: string
  /** The first is faulty. */
  readonly nodes: readonly [NodeUnderTest, NodeUnderTest]
}

/** Starts the second node. */
const startOtherNode: Readonly<Record<FaultResult['placement'], (start: FaultCase['start']) => Promise<NodeUnderTest>>> = {
  one: () => startFaultyNode(respondCorrectly),
  both: start => start(),
  partner: () => faultCases['refuses connections']!.start(),
}

let networkCount = 0

const startTrial = async (name: string, placement: FaultResult['placement'], { start }: FaultCase): Promise<FaultTrial> => ({
  name,
  placement,
  network: `net-${(networkCount += 1)}`,
  nodes: await Promise.all([start(), startOtherNode[placement](start)]),
})

const hostOf = (network: string): string => `${network}.test`

/** A node whose behavior callers must not notice answers in time, however busy the machine is. */
const timeoutsFor = (name: string): object =>
  faultCases[name]?.testBoth === false ? { timeout: '60s', probeAfter: '30s' } : { timeout: '1500ms', probeAfter: '400ms' }

/** The shipped pipeline with other timeouts. */
const networkFileOf = ({ name, network, nodes: [{ url }, other], placement }: FaultTrial): object => ({
  ...networkFile(network, placement === 'partner' ? [other.url] : [url, other.url], {
    upstream: { ...timeoutsFor(name), maxBytes: '64KiB' },
    ...(placement === 'partner' && { failover: { upstreams: [{ name: 'node-1', url: other.url }], partner: { name: 'partner', url } } }),
  }),
  blockTime: `${defaultBlockTimeMs}ms`,
  hosts: [hostOf(network)],
})

/** One of two nodes is faulty: callers must not notice it after its detection. */
const runOneFaulty = async ({ network, nodes: [faulty, healthy] }: FaultTrial, callers: Callers) => {
  const load = callers.forNetwork(hostOf(network), 'eth_call')
  const attempts = () => faulty.requestCount('eth_call') + healthy.requestCount('eth_call')
  const detectionCalls = await load.send(
    callIntervalMs,
    createDetection(() => faulty.requestCount('eth_call')),
  )
  const outcomesBefore = await outcomesOf(detectionCalls)
  const attemptsBefore = attempts()
  const judgedSent = await load.send(callIntervalMs, sent => sent.length === judgedCallCount)
  const outcomes = await outcomesOf(judgedSent)
  return { ...summarize(judgedSent, outcomes, outcomesBefore), attempts: attempts() - attemptsBefore }
}

/** True when calls have bypassed the faulty node while they had correct responses, or when the node itself responds correctly. */
const createDetection = (requestCount: () => number) => {
  const seen: number[] = []
  return (sent: readonly SentCall[]): boolean => {
    seen.push(requestCount())
    const countCorrect = (calls: readonly SentCall[]) => calls.filter(({ outcome }) => outcome?.kind === 'correct').length
    return (
      (countCorrect(sent.slice(-2 * minBypassingCalls)) >= minBypassingCalls && seen.at(-minBypassingCalls - 1) === seen.at(-1)) ||
      countCorrect(sent) >= minCorrectCalls
    )
  }
}

/** All nodes are faulty: failover must not multiply the requests to them. */
const runAllFaulty = async ({ network, nodes, placement }: FaultTrial, callers: Callers) => {
  const method = placement === 'partner' ? 'eth_getLogs' : 'eth_call'
  const sent = await callers.forNetwork(hostOf(network), method).send(callIntervalMs, sent => sent.length === failingCallCount)
  return { ...summarize(sent, await outcomesOf(sent)), attempts: nodes.reduce((sum, node) => sum + node.requestCount(method), 0) }
}

const outcomesOf = (sent: readonly SentCall[]): Promise<readonly CallOutcome[]> => Promise.all(sent.map(({ done }) => done))

const summarize = (sent: readonly SentCall[], outcomes: readonly CallOutcome[], outcomesBefore: readonly CallOutcome[] = []) => ({
  calls: outcomes.length,
  uniqueCalls: sent.filter(({ isRepeat }) => !isRepeat).length,
  correctCalls: outcomes.filter(({ kind }) => kind === 'correct').length,
  wrongResponses: [...outcomesBefore, ...outcomes].flatMap(({ kind, reason = '' }) => (kind === 'wrong' ? [reason] : [])),
  callerErrors: [...new Set(outcomes.flatMap(({ reason }) => reason ?? []))],
})

const runTrials = async (queue: FaultTrial[], { gateway, callers }: RunningGateway): Promise<void> => {
  for (let trial = queue.shift(); trial !== undefined; trial = queue.shift()) {
    const { name, placement, network } = trial
    const result = await (placement === 'one' ? runOneFaulty : runAllFaulty)(trial, callers)
    const causes = new Set(gateway.log.flatMap(line => (line.network === network && typeof line.cause === 'string' ? line.cause : [])))
    process.send?.({ name, placement, ...result, loggedCauses: [...causes] } satisfies FaultResult)
  }
}

interface RunningGateway {
  readonly gateway: GatewayProcess
  readonly callers: Callers
}

/** Runs the trials with one gateway, `concurrency` at a time, after the warm-up trials. */
const runGateway = async (
  name: GatewayResult['gateway'],
  trials: readonly FaultTrial[],
  concurrency: number,
  warmUps: readonly FaultTrial[],
): Promise<void> => {
  const isResidentJudged = name === 'heavy'
  const deployment = createDeployment({
    // Small caches, and a small heap where the resident set is judged: what may be cached or is garbage does not count as growth.
    gateway: { log: 'warn', memory: '8MiB' },
    nodeOptions: [...memoryReportOptions, ...(isResidentJudged ? ['--max-semi-space-size=2', '--max-old-space-size=64'] : [])],
    networks: Object.fromEntries([...trials, ...warmUps].map(trial => [trial.network, networkFileOf(trial)])),
    env: { NODE_EXTRA_CA_CERTS: caCertificatePath, ...(isResidentJudged && returnFreedMemory) },
  })
  const keys = await Promise.all(
    ['alice', 'bob'].map(async name => {
      await deployment.addAccount(name, 'growth')
      return (await deployment.addKey(name)).key
    }),
  )
  const gateway = await deployment.start()
  const callers = openCallers(gateway.rpc, keys)
  await Promise.all(warmUps.map(trial => runOneFaulty(trial, callers)))
  const liveBefore = await liveBytesOf(gateway)
  const residentBytes = () => (skipUnlessLinux === false ? residentBytesOf(gateway.pid) : 0)
  const residentBefore = residentBytes()
  let peakResident = residentBefore
  let lastSecond: readonly number[] = []
  // Memory that is held for a second: on a slow machine several of the largest responses, of 32 MiB, coincide for a moment.
  const sampler = setInterval(() => {
    lastSecond = [...lastSecond, residentBytes()].slice(-samplesPerSecond)
    if (lastSecond.length === samplesPerSecond) peakResident = Math.max(peakResident, Math.min(...lastSecond))
  }, 1000 / samplesPerSecond)
  const queue = [...trials]
  await Promise.all(Array.from({ length: concurrency }, () => runTrials(queue, { gateway, callers })))
  clearInterval(sampler)
  const liveAfter = await liveBytesOf(gateway)
  await callers.stop()
  const exitCode = await gateway.stop()
  const errorLines = gateway.log.filter(({ level, reason }) => Number(level) >= errorLevel && reason !== 'chain')
  process.send?.({
    gateway: name,
    residentGrowthMiB: toMiB(peakResident - residentBefore),
    liveGrowthMiB: toMiB(liveAfter - liveBefore),
    exitCode,
    errorLines,
  } satisfies GatewayResult)
  await deployment.remove()
}

const toMiB = (bytes: number): number => Math.round(bytes / (1 << 20))

// Compressing the bombs takes long: not during a trial.
for (const createBomb of Object.values(compressionBombs)) createBomb()
const startWarmUp = (fault: NodeFault): Promise<FaultTrial> =>
  startTrial('warm-up', 'one', { start: () => startFaultyNode(exceptChainId(fault)) })
const lightWarmUps = await Promise.all(Array.from({ length: lightConcurrency }, () => startWarmUp(respondCorrectly)))
const heavyWarmUps = await Promise.all([respondCorrectly, faults['sends a brotli bomb']].map(startWarmUp))
const placementsOf = (name: string, { testBoth }: FaultCase): readonly FaultResult['placement'][] => [
  'one',
  ...(testBoth === false ? [] : (['both'] as const)),
  ...(partnerFaultNames.some(each => each === name) ? (['partner'] as const) : []),
]
const allTrials = await Promise.all(
  Object.entries(faultCases).flatMap(([name, faultCase]) =>
    placementsOf(name, faultCase).map(placement => startTrial(name, placement, faultCase)),
  ),
)
const isHeavy = ({ name }: FaultTrial): boolean => /bomb|endless|300 MiB/.test(name)
await Promise.all([
  // Faults that take most memory run one at a time, on a gateway without other calls.
  runGateway('heavy', allTrials.filter(isHeavy), 1, heavyWarmUps),
  runGateway(
    'light',
    allTrials.filter(trial => !isHeavy(trial)),
    lightConcurrency,
    lightWarmUps,
  ),
])
await Promise.all([...allTrials, ...lightWarmUps, ...heavyWarmUps].flatMap(({ nodes }) => nodes.map(node => node.stop())))
process.disconnect()
