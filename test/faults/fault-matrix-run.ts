import { compressionBombs, faults, respondCorrectly } from '../support/node-faults.ts'
import type { NodeFault } from '../support/node-faults.ts'
import { caCertificatePath, blockTimeMs, startFaultyNode } from '../support/faulty-node.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { liveBytesOf, skipUnlessLinux, residentBytesOf, memoryReportOptions } from '../support/process-memory.ts'
import { openCallers } from './callers.ts'
import type { Callers, CallOutcome, SentCall } from './callers.ts'
import { partnerFaultNames, faultCases } from './fault-cases.ts'
import type { NodeUnderTest, FaultCase } from './fault-cases.ts'

// Two gateways, in processes of their own as operators start them, with a network for each fault. Nodes and callers live in
// this process, which is none of tap's: tap watches every promise of its process, which takes longer than what is measured.

/** What came of one fault. */
export interface FaultResult {
  readonly name: string
  /** Which of the two nodes have it; or the partner, while the own node is away. */
  readonly placement: 'one' | 'both' | 'partner'
  /** That were judged: once the fault was known, where one node has it. */
  readonly calls: number
  readonly correct: number
  /** Answers that were not those to the question; of all calls. */
  readonly wrongAnswers: readonly string[]
  /** That had not been asked before, of these calls. */
  readonly uniqueCalls: number
  /** Requests of these calls that reached a node. */
  readonly attempts: number
  /** What callers were told instead. */
  readonly callerErrors: readonly string[]
  /** What the gateway's log gave as the cause of failures. */
  readonly loggedCauses: readonly string[]
}

/** What became of a gateway. */
export interface GatewayResult {
  /** That which had to do with faults that take memory, or that with all others. */
  readonly gateway: 'heavy' | 'light'
  /** MiB by which its resident set grew, at most, for a second or longer, once it was warm. */
  readonly residentGrowthMiB: number
  /** MiB by which what it needs had grown in the end, when garbage had been collected. */
  readonly liveGrowthMiB: number
  readonly exitCode: number | null
  /** Lines of its log that nothing a node does should bring about. */
  readonly errorLines: readonly unknown[]
}

/** In ms between two calls: 200 a second. */
const callIntervalMs = 5
/** Calls that are judged, once the fault is known; and half as many where nobody else is there. */
const judgedCalls = 110
/** Calls in a row that did not reach the faulty node: it has been found out. */
const minBypassingCalls = 20
/** So many must have been answered well, for it to be taken as it is. */
const minCorrectCalls = 100

/** A network of two nodes, and what is to be found out with it. */
interface FaultTrial {
  readonly name: string
  readonly placement: FaultResult['placement']
  readonly network: string
  /** The first is faulty. */
  readonly nodes: readonly [NodeUnderTest, NodeUnderTest]
}

/** What the other node is. */
const startOtherNode: Readonly<Record<FaultResult['placement'], (start: FaultCase['start']) => Promise<NodeUnderTest>>> = {
  one: () => startFaultyNode(respondCorrectly),
  both: start => start(),
  partner: () => faultCases['is not there']!.start(),
}

let networkCount = 0

const startTrial = async (name: string, placement: FaultResult['placement'], { start }: FaultCase): Promise<FaultTrial> => ({
  name,
  placement,
  network: `net-${(networkCount += 1)}`,
  nodes: await Promise.all([start(), startOtherNode[placement](start)]),
})

const hostOf = (network: string): string => `${network}.test`

/** As shipped, but less patient. */
const networkFileOf = ({ network, nodes: [{ url }, other], placement: who }: FaultTrial): object => ({
  ...networkFile(network, who === 'partner' ? [other.url] : [url, other.url], {
    upstream: { timeout: '1500ms', maxBytes: '64KiB', silence: '400ms' },
    ...(who === 'partner' && { failover: { upstreams: [{ name: 'node-1', url: other.url }], partner: { name: 'partner', url } } }),
  }),
  blockTime: `${blockTimeMs}ms`,
  hosts: [hostOf(network)],
})

/** The first of two nodes is faulty: once that is known, callers must not notice. */
const runOneFaulty = async ({ network, nodes: [faulty, healthy] }: FaultTrial, callers: Callers) => {
  const load = callers.forNetwork(hostOf(network), 'eth_call')
  const attempts = () => faulty.requestCount('eth_call') + healthy.requestCount('eth_call')
  const detectionCalls = await load.send(
    callIntervalMs,
    createDetection(() => faulty.requestCount('eth_call')),
  )
  const before = await outcomesOf(detectionCalls)
  const attemptsBefore = attempts()
  const judgedSent = await load.send(callIntervalMs, sent => sent.length === judgedCalls)
  const after = await outcomesOf(judgedSent)
  return { ...summarize(judgedSent, after, before), attempts: attempts() - attemptsBefore }
}

/** True once so many calls on end went round the faulty node, while calls were answered; or it answers well. */
const createDetection = (requestCount: () => number) => {
  const seen: number[] = []
  return (sent: readonly SentCall[]): boolean => {
    seen.push(requestCount())
    const countCorrect = (calls: readonly SentCall[]) => calls.filter(({ outcome }) => outcome?.kind === 'right').length
    return (
      (countCorrect(sent.slice(-2 * minBypassingCalls)) >= minBypassingCalls && seen.at(-minBypassingCalls - 1) === seen.at(-1)) ||
      countCorrect(sent) >= minCorrectCalls
    )
  }
}

/** All that there is fails: the load on it must not double. */
const runAllFaulty = async ({ network, nodes, placement: who }: FaultTrial, callers: Callers) => {
  const method = who === 'partner' ? 'eth_getLogs' : 'eth_call'
  const sent = await callers.forNetwork(hostOf(network), method).send(callIntervalMs, sent => sent.length === judgedCalls / 2)
  return { ...summarize(sent, await outcomesOf(sent)), attempts: nodes.reduce((sum, node) => sum + node.requestCount(method), 0) }
}

const outcomesOf = (sent: readonly SentCall[]): Promise<readonly CallOutcome[]> => Promise.all(sent.map(({ done }) => done))

const summarize = (sent: readonly SentCall[], outcomes: readonly CallOutcome[], before: readonly CallOutcome[] = []) => ({
  calls: outcomes.length,
  uniqueCalls: sent.filter(({ isRepeat }) => !isRepeat).length,
  correct: outcomes.filter(({ kind }) => kind === 'right').length,
  wrongAnswers: [...before, ...outcomes].flatMap(({ kind, reason = '' }) => (kind === 'wrong' ? [reason] : [])),
  callerErrors: [...new Set(outcomes.flatMap(({ reason }) => reason ?? []))],
})

const runTrials = async (queue: FaultTrial[], { gateway, callers }: RunningGateway): Promise<void> => {
  for (let trial = queue.shift(); trial !== undefined; trial = queue.shift()) {
    const { name, placement: who, network } = trial
    const result = await (who === 'one' ? runOneFaulty : runAllFaulty)(trial, callers)
    const causes = new Set(gateway.log.flatMap(line => (line.network === network && typeof line.cause === 'string' ? line.cause : [])))
    process.send?.({ name, placement: who, ...result, loggedCauses: [...causes] } satisfies FaultResult)
  }
}

interface RunningGateway {
  readonly gateway: GatewayProcess
  readonly callers: Callers
}

/** Tries all with one gateway, so many at once; it is warm when those have been tried that come first. */
const runGateway = async (
  name: GatewayResult['gateway'],
  trials: readonly FaultTrial[],
  concurrency: number,
  warmUps: readonly FaultTrial[],
): Promise<void> => {
  const deployment = createDeployment({
    // Small caches, and a small heap where the resident set is judged: what may be kept, or is not needed any more, is no growth.
    gateway: { log: 'warn', memory: '8MiB' },
    nodeOptions: [...memoryReportOptions, ...(name === 'heavy' ? ['--max-semi-space-size=2', '--max-old-space-size=64'] : [])],
    networks: Object.fromEntries([...trials, ...warmUps].map(trial => [trial.network, networkFileOf(trial)])),
    env: { NODE_EXTRA_CA_CERTS: caCertificatePath },
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
  const resident = () => (skipUnlessLinux === false ? residentBytesOf(gateway.pid) : 0)
  const residentBefore = resident()
  let peakResident = residentBefore
  let lastSecond: readonly number[] = []
  // What it holds for a second: on a slow machine more of the longest answers, of 32 MiB, meet for a moment.
  const sampler = setInterval(() => {
    lastSecond = [...lastSecond, resident()].slice(-50)
    if (lastSecond.length === 50) peakResident = Math.max(peakResident, Math.min(...lastSecond))
  }, 20)
  const queue = [...trials]
  await Promise.all(Array.from({ length: concurrency }, () => runTrials(queue, { gateway, callers })))
  clearInterval(sampler)
  const liveAfter = await liveBytesOf(gateway)
  await callers.stop()
  const code = await gateway.stop()
  const errors = gateway.log.filter(({ level, reason }) => Number(level) >= 50 && reason !== 'chain')
  process.send?.({
    gateway: name,
    residentGrowthMiB: toMiB(peakResident - residentBefore),
    liveGrowthMiB: toMiB(liveAfter - liveBefore),
    exitCode: code,
    errorLines: errors,
  } satisfies GatewayResult)
  await deployment.remove()
}

const toMiB = (bytes: number): number => Math.round(bytes / (1 << 20))

for (const make of Object.values(compressionBombs)) make()
const startWarmUp = (fault: NodeFault): Promise<FaultTrial> => startTrial('warms up', 'one', { start: () => startFaultyNode(fault) })
const lightWarmUps = await Promise.all(
  [respondCorrectly, respondCorrectly, respondCorrectly, respondCorrectly, respondCorrectly].map(startWarmUp),
)
const heavyWarmUps = await Promise.all([respondCorrectly, faults['sends a brotli bomb']].map(startWarmUp))
const placementsOf = (name: string, { testBoth: both }: FaultCase): readonly FaultResult['placement'][] => [
  'one',
  ...(both === false ? [] : (['both'] as const)),
  ...(partnerFaultNames.some(each => each === name) ? (['partner'] as const) : []),
]
const allTrials = await Promise.all(
  Object.entries(faultCases).flatMap(([name, subject]) => placementsOf(name, subject).map(who => startTrial(name, who, subject))),
)
const isHeavy = ({ name }: FaultTrial): boolean => /bomb|endlessly|hugely|without end/.test(name)
await Promise.all([
  // What takes most memory comes one after the other, in front of a gateway that has nothing else to do.
  runGateway('heavy', allTrials.filter(isHeavy), 1, heavyWarmUps),
  runGateway(
    'light',
    allTrials.filter(trial => !isHeavy(trial)),
    5,
    lightWarmUps,
  ),
])
await Promise.all([...allTrials, ...lightWarmUps, ...heavyWarmUps].flatMap(({ nodes }) => nodes.map(node => node.stop())))
process.disconnect()
