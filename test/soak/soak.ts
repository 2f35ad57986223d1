import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openCallers } from '../faults/callers.ts'
import type { CallOutcome } from '../faults/callers.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { blockTimeMs } from '../support/faulty-node.ts'
import { liveBytesOf, memoryReportOptions, residentBytesOf } from '../support/process-memory.ts'
import { connectWs, post } from '../support/rpc-client.ts'
import { startFaultyNetwork } from './faulty-network.ts'
import type { FaultyNetwork } from './faulty-network.ts'

// Sends calls to one gateway for half an hour or longer. Each of its networks has two nodes, of which the first has another
// fault every few seconds; some callers disconnect early. Fails when memory grows or a caller gets a wrong response. Prints a
// line every ten seconds, and a summary. Linux only: memory is read from /proc.

const networkCount = 4

/** How often a disconnecting caller connects. */
const disconnectIntervalMs = 250

const maxSampleIntervalMs = 10_000

/** A short run has at least so many samples. */
const minSamples = 30

/** Live memory is measured with one of so many samples: seldom, because operators do not force garbage collections. */
const samplesPerLiveSample = 5

/** How long calls in flight may take before live memory is measured. */
const settleMs = 2000

const pollIntervalMs = 50

const minFitSamples = 3

/** Growth of live memory from which a run fails, in ten minutes. */
const maxLiveGrowthMiB = 1

/** A measured value. */
interface Sample {
  readonly minute: number
  readonly value: number
}

/** The slope of a line with twice its standard error, which tells growth from noise. */
interface Growth {
  readonly slopePerMinute: number
  readonly marginPerMinute: number
}

/** Least squares; of three points at least. */
const fitLine = (points: readonly Sample[]): Growth => {
  const mean = (of: (point: Sample) => number) => points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [meanMinute, meanValue] = [mean(({ minute }) => minute), mean(({ value }) => value)]
  const variance = mean(({ minute }) => (minute - meanMinute) ** 2)
  const slope = mean(({ minute, value }) => (minute - meanMinute) * (value - meanValue)) / variance
  const residual = mean(({ minute, value }) => (value - meanValue - slope * (minute - meanMinute)) ** 2)
  return { slopePerMinute: slope, marginPerMinute: 2 * Math.sqrt(residual / (points.length - 2) / variance) }
}

const toMiB = (bytes: number): number => bytes / (1 << 20)

/** The state of a run, which all callers share. */
class SoakRun {
  readonly #startMs = performance.now()
  readonly #minutes: number
  readonly outcomeCounts = { correct: 0, rejected: 0, wrong: 0 }
  readonly wrongReasons = new Set<string>()
  pausedNetworks = 0
  isPaused = false

  constructor(minutes: number) {
    this.#minutes = minutes
  }

  get elapsedMinutes(): number {
    return (performance.now() - this.#startMs) / 60_000
  }

  isOver = (): boolean => this.elapsedMinutes >= this.#minutes

  recordOutcome = ({ kind, reason = '' }: CallOutcome): void => {
    this.outcomeCounts[kind] += 1
    if (kind === 'wrong') this.wrongReasons.add(reason)
  }

  waitWhilePaused = async (): Promise<void> => {
    this.pausedNetworks += 1
    while (this.isPaused) await wait(pollIntervalMs)
    this.pausedNetworks -= 1
  }
}

const hostOf = (network: string): string => `${network}.test`

const networkFileOf = ({ network, urls }: FaultyNetwork): object => ({
  ...networkFile(network, urls, {
    upstream: { timeout: '1500ms', maxBytes: '64KiB', probeAfter: '400ms' },
    failover: { upstreams: urls.map((url, i) => ({ name: `node-${i}`, url })), breaker: { openFor: '1s' } },
  }),
  blockTime: `${blockTimeMs}ms`,
  hosts: [hostOf(network)],
})

const createSoakDeployment = (networks: readonly FaultyNetwork[]): Deployment =>
  createDeployment({
    // Caches that are full before the warm-up ends: cached results do not count as growth.
    gateway: { log: 'error', memory: '4MiB' },
    networks: Object.fromEntries(networks.map(each => [each.network, networkFileOf(each)])),
    nodeOptions: memoryReportOptions,
  })

const addKey = async (deployment: Deployment, account: string): Promise<string> => {
  await deployment.addAccount(account, 'custom')
  return (await deployment.addKey(account)).key
}

const balanceRequest = (id: number): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'eth_getBalance', params: [`0x${id.toString(16).padStart(40, '0')}`, 'latest'] })

/** Callers that disconnect before their response, or in the middle of several calls. */
const disconnectEarly = async (gateway: GatewayProcess, key: string, host: string, isOver: () => boolean): Promise<void> => {
  for (let id = 1; !isOver(); id += 10) {
    await wait(disconnectIntervalMs)
    void post(gateway.http(key), balanceRequest(id), { host, signal: AbortSignal.timeout(id % 4) }).catch(() => undefined)
    const client = await connectWs(gateway.ws(key), { host })
    for (let i = 0; i < 8; i++) client.send(balanceRequest(id + i))
    await client.nextMessage()
    if (id % 20 === 1) await client.close()
    else client.socket.terminate()
  }
}

/** Measured while all nodes are healthy and no call is in flight: the memory of calls in flight is not growth. */
const measureLiveMiB = async (run: SoakRun, gateway: GatewayProcess): Promise<number> => {
  run.isPaused = true
  while (run.pausedNetworks < networkCount && !run.isOver()) await wait(pollIntervalMs)
  await wait(settleMs)
  const bytes = await liveBytesOf(gateway)
  run.isPaused = false
  return toMiB(bytes)
}

interface MemorySamples {
  readonly resident: Sample[]
  readonly live: Sample[]
  /** When every fault had occurred on some network; infinite before. */
  warmMinute: number
}

const sampleMemory = async (run: SoakRun, gateway: GatewayProcess, networks: readonly FaultyNetwork[], intervalMs: number) => {
  const samples: MemorySamples = { resident: [], live: [], warmMinute: Infinity }
  for (let i = 1; !run.isOver(); i++) {
    await wait(intervalMs)
    const minute = run.elapsedMinutes
    samples.resident.push({ minute, value: toMiB(residentBytesOf(gateway.pid)) })
    if (i % samplesPerLiveSample === 0 && !run.isOver()) samples.live.push({ minute, value: await measureLiveMiB(run, gateway) })
    const isWarm = networks.every(({ rotations }) => rotations >= 1 / networkCount)
    if (isWarm) samples.warmMinute = Math.min(samples.warmMinute, run.elapsedMinutes)
    console.log(formatSamples(run, samples, networks))
  }
  return samples
}

const formatSamples = (run: SoakRun, { resident, live }: MemorySamples, networks: readonly FaultyNetwork[]): string =>
  [
    `${run.elapsedMinutes.toFixed(1)} min`,
    `${resident.at(-1)?.value.toFixed(1)} MiB, live ${live.at(-1)?.value.toFixed(2) ?? '?'}`,
    JSON.stringify(run.outcomeCounts),
    networks.map(({ currentFault }) => currentFault).join(', '),
  ].join('  ')

/** Undefined when the run was too short. */
const growthFrom = (minute: number, samples: readonly Sample[]): Growth | undefined => {
  const judged = samples.filter(sample => sample.minute >= minute)
  return judged.length < minFitSamples ? undefined : fitLine(judged)
}

const formatGrowth = (growth: Growth | undefined): string =>
  growth === undefined
    ? 'unknown: the run was too short'
    : `${(10 * growth.slopePerMinute).toFixed(2)} MiB (± ${(10 * growth.marginPerMinute).toFixed(2)}) in ten minutes`

/** Prints the summary; true when the run has passed. */
const summarize = (run: SoakRun, samples: MemorySamples, minutes: number): boolean => {
  // Modules, caches and connections exist once every fault has occurred; a short run is judged before.
  const judgedFromMinute = Math.max(minutes / 3, Math.min(samples.warmMinute, minutes / 2))
  const live = growthFrom(judgedFromMinute, samples.live)
  const resident = growthFrom(judgedFromMinute, samples.resident)
  const { correct, rejected, wrong } = run.outcomeCounts
  const calls = correct + rejected + wrong
  console.log(`from minute ${judgedFromMinute.toFixed(1)}: live memory ${formatGrowth(live)}, resident ${formatGrowth(resident)}`)
  console.log(`calls: ${calls}, correct ${((100 * correct) / calls).toFixed(3)} %, rejected ${rejected}, wrong ${wrong}`)
  for (const reason of run.wrongReasons) console.log(`wrong: ${reason}`)
  const hasGrowth = live !== undefined && 10 * (live.slopePerMinute - live.marginPerMinute) >= maxLiveGrowthMiB
  if (hasGrowth) console.log('live memory grows')
  return wrong === 0 && !hasGrowth
}

const runSoak = async (minutes: number, callsPerSecond: number): Promise<boolean> => {
  const networks = await Promise.all(Array.from({ length: networkCount }, (_, i) => startFaultyNetwork(`net-${i}`, i / networkCount)))
  const deployment = createSoakDeployment(networks)
  const keys = await Promise.all(['alice', 'bob'].map(account => addKey(deployment, account)))
  const gateway = await deployment.start()
  const callers = openCallers(gateway.rpc, keys)
  const run = new SoakRun(minutes)
  const { isOver, recordOutcome, waitWhilePaused } = run
  const loadOptions = { callIntervalMs: (1000 * networkCount) / callsPerSecond, isOver, recordOutcome, waitWhilePaused }
  const loads = networks.flatMap(each => [
    each.run(callers.forNetwork(hostOf(each.network), 'eth_call'), loadOptions),
    disconnectEarly(gateway, keys[0] ?? '', hostOf(each.network), isOver),
  ])
  const samples = await sampleMemory(run, gateway, networks, Math.min(maxSampleIntervalMs, (minutes * 60_000) / minSamples))
  await Promise.all(loads)
  await callers.stop()
  const exitCode = await gateway.stop()
  await deployment.remove()
  await Promise.all(networks.map(each => each.stop()))
  if (exitCode !== 0) console.log(`the gateway exited with ${exitCode}: ${gateway.stderr()}`)
  return summarize(run, samples, minutes) && exitCode === 0
}

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' }, rate: { type: 'string', default: '100' } } })
const [minutes, callsPerSecond] = [Number(values.minutes), Number(values.rate)]
if (!(minutes > 0 && callsPerSecond > 0)) throw new Error('usage: npm run soak -- --minutes N [--rate CALLS_PER_SECOND]')
process.exitCode = (await runSoak(minutes, callsPerSecond)) ? 0 : 1
