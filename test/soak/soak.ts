import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openCallers } from '../faults/callers.ts'
import { childrenOf, createDeployment, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { anonymousBytesOf, liveMemoryOf, memoryReportOptions } from '../support/process-memory.ts'
import { soakBlockTimeMs, startFaultyNetwork } from './faulty-network.ts'
import type { FaultyNetwork } from './faulty-network.ts'
import { combineDecisions, growthOf, judge } from './growth.ts'
import type { Growth, Sample, LeakDecision } from './growth.ts'
import { disconnectEarly, pollFilters, reloadNetworks, revokeKeys, sendBatches, subscribe } from './soak-loads.ts'
import { SoakRun } from './soak-run.ts'

// Decides whether a gateway leaks memory: sends all kinds of calls to it for an hour or longer, from several accounts. Each of its
// networks has two nodes, of which the first has another fault every few seconds; callers disconnect, keys are revoked, networks
// are reloaded. The caches are full from the start. Each minute, while no call is in flight, garbage is collected and the memory of
// each process is measured. Prints a line for each process then, and the decision at the end (growth.ts). Exits with 0 for no slope,
// with 1 for a leak or wrong responses, with 2 when it is undecided. Linux only: resident memory is read from /proc.

const networkCount = 4
const accounts = ['alice', 'bob', 'carol']

/**
 * V8 gives back the 30 MiB of its young generation with some collections, and keeps them with others: with a sample a minute, 75 minutes did not tell
 * whether a worker grew by 0.5 MiB a minute.
 */
const maxSampleIntervalMs = 20_000

/** A short run has at least so many samples. */
const minSamples = 30

/** How long calls in flight may take before memory is measured. */
const settleMs = 2000

const toMiB = (bytes: number): number => bytes / (1 << 20)

const hostOf = (network: string): string => `${network}.test`

/** What a reload changes: prices, and the list of upstreams. */
const networkFileOf = ({ network, urls }: FaultyNetwork, reloadNumber = 0): object => {
  const listed = reloadNumber % 2 === 0 ? urls : [...urls, ...urls.slice(1)]
  return {
    ...networkFile(network, urls, {
      credits: { costs: { eth_call: 80 + (reloadNumber % 100) } },
      upstream: { timeout: '1500ms', maxBytes: '64KiB', probeAfter: '400ms' },
      failover: { upstreams: listed.map((url, i) => ({ name: `node-${i}`, url })), breaker: { openFor: '1s' } },
    }),
    blockTime: `${soakBlockTimeMs}ms`,
    hosts: [hostOf(network)],
  }
}

const createSoakDeployment = (networks: readonly FaultyNetwork[], workers: number): Deployment =>
  createDeployment({
    gateway: { memory: '1MiB', workers, watch: false },
    networks: Object.fromEntries(networks.map(each => [each.network, networkFileOf(each)])),
    nodeOptions: memoryReportOptions,
  })

const addKey = async (deployment: Deployment, account: string): Promise<string> => {
  await deployment.addAccount(account, 'custom')
  return (await deployment.addKey(account)).key
}

/** The memory of one process in the course of the run, in MiB. */
interface ProcessMemory {
  readonly name: string
  readonly pid: number
  /** Heap and external memory after garbage collections. */
  readonly live: Sample[]
  /** All that it has allocated and not returned to the operating system. */
  readonly resident: Sample[]
}

const processesOf = ({ pid }: GatewayProcess): ProcessMemory[] =>
  [pid, ...childrenOf(pid)].map((each, i) => ({ name: i === 0 ? 'primary' : `worker ${i}`, pid: each, live: [], resident: [] }))

const sampleMemory = async (run: SoakRun, gateway: GatewayProcess, processes: readonly ProcessMemory[], intervalMs: number) => {
  for (;;) {
    await wait(intervalMs)
    if (run.isOver()) return
    await run.withoutLoad(async () => {
      await wait(settleMs)
      for (const each of processes) console.log(await sampleProcess(run.elapsedMinutes, gateway, each))
    })
    console.log(`  ${JSON.stringify({ ...run.outcomeCounts, ...run.eventCounts })}`)
  }
}

const sampleProcess = async (minute: number, gateway: GatewayProcess, { name, pid, live, resident }: ProcessMemory): Promise<string> => {
  const { heapBytes, externalBytes } = await liveMemoryOf(gateway, pid)
  const residentMiB = toMiB(anonymousBytesOf(pid))
  live.push({ minute, value: toMiB(heapBytes + externalBytes) })
  resident.push({ minute, value: residentMiB })
  const figures = `heap ${toMiB(heapBytes).toFixed(2)}, external ${toMiB(externalBytes).toFixed(2)}, resident ${residentMiB.toFixed(1)} MiB`
  return `${minute.toFixed(1)} min  ${name.padEnd(8)}  ${figures}`
}

/**
 * From which slope on memory leaks, in MiB per minute. Live memory: 72 MiB a day; an hour cannot tell a slower growth from the warming up
 * of V8. Resident memory goes up and down by tens of MiB, as V8 and the allocator return memory late.
 */
const maxSlopes = { live: 0.05, resident: 0.5 }

const formatGrowth = ({ slope, lower, upper }: Growth, maxSlope: number): string =>
  `${slope.toFixed(4)} MiB/min (${lower.toFixed(4)} to ${upper.toFixed(4)}, limit ${maxSlope}): ${judge({ slope, lower, upper }, maxSlope)}`

/** With fewer correct responses the run says nothing of a gateway at work. The faults of the first node of each network cost some. */
const minCorrectShare = 0.9

/** Prints the summary. */
const summarize = (run: SoakRun, processes: readonly ProcessMemory[], minutes: number): LeakDecision => {
  const { correct, rejected, wrong } = run.outcomeCounts
  const calls = correct + rejected + wrong
  console.log(`calls: ${calls}, correct ${((100 * correct) / calls).toFixed(3)} %, rejected ${rejected}, wrong ${wrong}`)
  if (correct < minCorrectShare * calls) throw new Error('too many calls were rejected: the run decides nothing')
  const decisions = processes.flatMap(({ name, live, resident }) =>
    Object.entries({ live, resident }).map(([kind, samples]) => {
      const maxSlope = maxSlopes[kind as keyof typeof maxSlopes] // the names of the entries above
      const growth = growthOf(samples, minutes)
      console.log(`${name} ${kind}: ${formatGrowth(growth, maxSlope)}`)
      return judge(growth, maxSlope)
    }),
  )
  const decision = combineDecisions(decisions)
  console.log(`decision: ${decision}`)
  return decision
}

interface SoakOptions {
  readonly minutes: number
  readonly callsPerSecond: number
  readonly workers: number
}

const exitCodes: Readonly<Record<LeakDecision, number>> = { 'no slope': 0, leak: 1, undecided: 2 }

/** Resolves with the exit code. */
const runSoak = async ({ minutes, callsPerSecond, workers }: SoakOptions): Promise<number> => {
  const networks = await Promise.all(Array.from({ length: networkCount }, (_, i) => startFaultyNetwork(`net-${i}`, i / networkCount)))
  const deployment = createSoakDeployment(networks, workers)
  const keys = await Promise.all(accounts.map(account => addKey(deployment, account)))
  const gateway = await deployment.start()
  const processes = processesOf(gateway)
  const callers = openCallers(gateway.rpc, keys)
  const run = new SoakRun(minutes)
  const { isOver, recordOutcome } = run
  const options = { callIntervalMs: (1000 * networkCount) / callsPerSecond, isOver, recordOutcome }
  const targetOf = (network: string, i: number) => ({ gateway, key: keys[i % keys.length] ?? '', host: hostOf(network) })
  const loads = networks.flatMap((each, i) => {
    const load = callers.forNetwork(hostOf(each.network), 'eth_call')
    const targets = keys.map((_, keyNumber) => targetOf(each.network, keyNumber + i))
    return [
      run.repeat(() => each.runFault(load, options)),
      ...targets.map(target => subscribe(run, target)),
      ...targets.slice(1).flatMap(target => [sendBatches(run, target), pollFilters(run, target), disconnectEarly(run, target)]),
    ]
  })
  const writeNetwork = (reloadNumber: number): void => {
    const changed = networks[reloadNumber % networks.length] as FaultyNetwork
    deployment.writeNetwork(changed.network, networkFileOf(changed, reloadNumber))
  }
  const sampleIntervalMs = Math.min(maxSampleIntervalMs, (minutes * 60_000) / minSamples)
  await Promise.all([
    ...loads,
    revokeKeys(run, deployment, targetOf('net-0', 0)),
    reloadNetworks(run, gateway, writeNetwork),
    sampleMemory(run, gateway, processes, sampleIntervalMs),
  ])
  await callers.stop()
  const exitCode = await gateway.stop()
  await deployment.remove()
  await Promise.all(networks.map(each => each.stop()))
  if (exitCode !== 0) console.log(`the gateway exited with ${exitCode}: ${gateway.stderr()}`)
  const decision = summarize(run, processes, minutes)
  return run.outcomeCounts.wrong > 0 || exitCode !== 0 ? 1 : exitCodes[decision]
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '100' },
    workers: { type: 'string', default: '2' },
  },
})
const options = { minutes: Number(values.minutes), callsPerSecond: Number(values.rate), workers: Number(values.workers) }
if (!Object.values(options).every(value => value > 0)) {
  throw new Error('usage: npm run soak -- [--minutes N] [--rate CALLS_PER_SECOND] [--workers N]')
}
process.exitCode = await runSoak(options)
