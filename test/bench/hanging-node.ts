import { setTimeout as pause } from 'node:timers/promises'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { LoadSession } from './load-process.ts'
import { slowMs } from './load/load-generator.ts'
import type { LoadResult, RequestTemplate } from './load/load-generator.ts'
import { logsOfNoContractRequest, uncachedStorageAtRequest } from './request-templates.ts'
import { startServer } from './server-process.ts'
import type { ServerProcess } from './server-process.ts'
import type { BenchServers } from './servers.ts'

const roundMs = 8_000
const faultAfterMs = 1_000
const faultMs = 6_000
const flapMs = 3_000
const connections = 512

/** What happens to the node that gets all calls, and what callers may notice of it. */
interface Trial {
  readonly title: string
  readonly request: RequestTemplate
  readonly callsPerSecond: number
  readonly fault: (node: FailingNode) => Promise<void>
  /** A fault of bench-node. */
  readonly nodeFault?: string
  readonly durationMs?: number
  /** Targets. */
  readonly maxP99Ms: number
  readonly maxMs: number
}

/** SIGSTOP: the node accepts connections, and answers nothing. */
const stopped = async ({ signal }: FailingNode): Promise<void> => {
  signal('SIGSTOP')
  await pause(faultMs)
  signal('SIGCONT')
}

const faultOfNode = async ({ signal }: FailingNode): Promise<void> => {
  signal('SIGUSR2')
  await pause(faultMs)
  signal('SIGUSR2')
}

const restarted = async (node: FailingNode): Promise<void> => {
  await node.kill()
  await pause(flapMs)
  await node.start()
}

const flapping = async (node: FailingNode): Promise<void> => {
  for (let i = 0; i < 2; i++) {
    await restarted(node)
    await pause(flapMs)
  }
}

const storage = { request: uncachedStorageAtRequest, callsPerSecond: 1000, maxP99Ms: 100, maxMs: 600 } as const
const nodeFaultTrial = (title: string, nodeFault: string): Trial => ({
  ...storage,
  title: `1,000 calls/s, ${title}`,
  fault: faultOfNode,
  nodeFault,
})

const hangTrials: readonly Trial[] = [
  { ...storage, title: '100 calls/s', callsPerSecond: 100, fault: stopped, maxP99Ms: 50, maxMs: 150 },
  { ...storage, title: '1,000 calls/s', fault: stopped },
  {
    ...storage,
    title: '100 eth_getLogs/s, which are not hedged',
    request: logsOfNoContractRequest,
    callsPerSecond: 100,
    fault: stopped,
    maxP99Ms: 600,
  },
]

const faultTrials: readonly Trial[] = [
  nodeFaultTrial('half of the connections hang', 'half-of-connections'),
  nodeFaultTrial('no headers come', 'headers'),
  nodeFaultTrial('bodies do not end', 'body'),
  nodeFaultTrial('bodies drip, a byte each 50 ms', 'drip'),
  { ...storage, title: '1,000 calls/s, the node is killed, and back after 3 s', fault: restarted, maxMs: 150 },
  { ...storage, title: '1,000 calls/s, the node comes and goes every 3 s', fault: flapping, durationMs: 14_000, maxMs: 150 },
]

/** The node that gets all calls hangs. */
export const hangingNode = (servers: BenchServers): Promise<CaseResult> => runTrials(servers, hangTrials)

/** It fails in other ways. */
export const failingNode = (servers: BenchServers): Promise<CaseResult> => runTrials(servers, faultTrials)

const runTrials = async (servers: BenchServers, trials: readonly Trial[]): Promise<CaseResult> => {
  const figures = []
  for (const trial of trials) figures.push(...figuresOf(trial, await runTrial(servers, trial)))
  return { rows: [], figures }
}

const runTrial = async ({ settings, loadProcess }: BenchServers, trial: Trial): Promise<LoadResult> => {
  const [first, second] = [new FailingNode(trial.nodeFault), new FailingNode()]
  await Promise.all([first.start(), second.start()])
  const network = { ...networkFile('hang', [first.url, second.url]), chainId: 1337, blockTime: '60m' }
  const deployment = createDeployment({ gateway: { log: 'error' }, networks: { hang: network } })
  try {
    const { key } = await deployment.addCaller('caller', 'custom')
    const url = (await deployment.start()).http(key)
    const session = await loadProcess.open({ url, connections, requests: [trial.request] })
    await session.run({ durationMs: settings.minWarmUpMs, callsPerSecond: trial.callsPerSecond })
    const result = await runWithFault(session, trial, first)
    await session.close()
    return result
  } finally {
    await deployment.remove()
    await Promise.all([first.kill(), second.kill()])
  }
}

/** Rejects when a response is wrong. */
const runWithFault = async (session: LoadSession, { callsPerSecond, fault, durationMs = roundMs }: Trial, node: FailingNode) => {
  const [result] = await Promise.all([session.run({ durationMs, callsPerSecond }), pause(faultAfterMs).then(() => fault(node))])
  return result
}

/** A bench-node that keeps its port. */
class FailingNode {
  readonly #fault: string
  #port = '0'
  #server: ServerProcess | undefined

  constructor(fault = '') {
    this.#fault = fault
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  readonly signal = (signal: NodeJS.Signals): void => {
    if (this.#server?.pid !== undefined) process.kill(this.#server.pid, signal)
  }

  async start(): Promise<void> {
    this.#server = await startServer({ script: new URL('./bench-node.js', import.meta.url), args: [this.#port, this.#fault] })
    this.#port = new URL(this.#server.url).port
  }

  /** Its connections are reset. */
  async kill(): Promise<void> {
    await this.#server?.stop()
  }
}

const figuresOf = ({ title, maxP99Ms, maxMs }: Trial, { p99, max, slowResponses }: LoadResult) => [
  createFigure(`${title}: calls over ${slowMs} ms`, 'calls', spreadOf([slowResponses]), 0),
  createFigure(`${title}: 99th percentile`, 'ms', spreadOf([p99]), maxP99Ms),
  createFigure(`${title}: longest call`, 'ms', spreadOf([max]), maxMs),
]
