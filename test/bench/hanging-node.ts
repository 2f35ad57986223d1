import { setTimeout as pause } from 'node:timers/promises'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { LoadSession } from './load-process.ts'
import { slowMs } from './load/load-generator.ts'
import type { LoadResult } from './load/load-generator.ts'
import { logsOfNoContractRequest, uncachedStorageAtRequest } from './request-templates.ts'
import type { RequestTemplate } from './request-templates.ts'
import { startServer } from './server-process.ts'
import type { BenchServers } from './servers.ts'

const roundMs = 8_000
const stopAfterMs = 1_000
const stoppedMs = 6_000
/** The node gets all of its calls again. */
const recoveryMs = 5_000
const connections = 512

interface Load {
  readonly title: string
  readonly request: RequestTemplate
  readonly callsPerSecond: number
  /** Targets. */
  readonly maxP99Ms: number
  readonly maxMs: number
}

const loads: readonly Load[] = [
  { title: '100 calls/s', request: uncachedStorageAtRequest, callsPerSecond: 100, maxP99Ms: 50, maxMs: 150 },
  { title: '1,000 calls/s', request: uncachedStorageAtRequest, callsPerSecond: 1000, maxP99Ms: 100, maxMs: 600 },
  { title: '100 eth_getLogs/s, which are not hedged', request: logsOfNoContractRequest, callsPerSecond: 100, maxP99Ms: 600, maxMs: 600 },
]

/** The node that gets all calls is stopped (SIGSTOP): it accepts connections, and answers nothing. */
export const hangingNode = async ({ settings, loadProcess }: BenchServers): Promise<CaseResult> => {
  const nodes = await Promise.all([0, 1].map(() => startServer({ script: new URL('./bench-node.js', import.meta.url), args: ['0'] })))
  const network = {
    ...networkFile(
      'hang',
      nodes.map(({ url }) => url),
    ),
    chainId: 1337,
    blockTime: '60m',
  }
  const deployment = createDeployment({ gateway: { log: 'error' }, networks: { hang: network } })
  try {
    await deployment.addAccount('caller', 'custom')
    const { key } = await deployment.addKey('caller')
    const url = (await deployment.start()).http(key)
    const figures = []
    for (const load of loads) {
      const { body, ...expected } = load.request
      const session = await loadProcess.open({ url, connections, body, expected })
      await session.run({ durationMs: settings.minWarmUpMs, callsPerSecond: load.callsPerSecond })
      figures.push(...figuresOf(load, await runWithStop(session, load, nodes[0]?.pid ?? 0)))
      await session.close()
      await pause(recoveryMs)
    }
    return { rows: [], figures }
  } finally {
    await deployment.remove()
    await Promise.all(nodes.map(node => node.stop()))
  }
}

/** Rejects when a response is wrong. */
const runWithStop = async (session: LoadSession, { callsPerSecond }: Load, pid: number): Promise<LoadResult> => {
  const result = session.run({ durationMs: roundMs, callsPerSecond })
  await pause(stopAfterMs)
  process.kill(pid, 'SIGSTOP')
  try {
    await Promise.race([pause(stoppedMs), result])
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  return result
}

const figuresOf = ({ title, maxP99Ms, maxMs }: Load, { p99, max, slowResponses }: LoadResult) => [
  createFigure(`${title}: calls over ${slowMs} ms`, 'calls', spreadOf([slowResponses]), 0),
  createFigure(`${title}: 99th percentile`, 'ms', spreadOf([p99]), maxP99Ms),
  createFigure(`${title}: longest call`, 'ms', spreadOf([max]), maxMs),
]
