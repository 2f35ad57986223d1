import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { liveBytesOf, memoryReportOptions } from '../support/process-memory.ts'
import { connectWs } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { mustBeZero } from './attack.ts'
import type { Attack } from './attack.ts'
import { openCallers } from './restarts.ts'

export interface ReloadsOptions {
  readonly reloads: number
  /** Of all callers over HTTP together. */
  readonly callsPerSecond: number
  readonly workers: number
  readonly seed: number
  log(line: string): void
}

export interface ReloadsResult {
  readonly reloads: number
  readonly calls: number
  /** Calls that failed, or were answered with anything but their result. */
  readonly lost: number
  readonly droppedSockets: number
  /** Live memory of the gateway, or of its primary, that each reload left behind. */
  readonly leakedBytesPerReload: number
}

const socketCount = 8
const socketCallIntervalMs = 20
/** What is loaded or compiled once is there after so many. */
const warmUpReloads = 3

/** The newest block of each node: calls go to nodes that have it. */
const block = { number: '0x10', hash: `0x${'11'.repeat(32)}`, parentHash: `0x${'10'.repeat(32)}`, timestamp: '0x1' }

/** Reloads changed networks while callers send calls over HTTP and WebSockets. No caller may notice, and no memory may stay. */
export const runReloads = async ({ reloads, callsPerSecond, workers, seed, log }: ReloadsOptions): Promise<ReloadsResult> => {
  const startNode = () =>
    startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_gasPrice: { result: '0x9' }, eth_getBlockByNumber: { result: block } })
  const nodes = [await startNode(), await startNode()]
  /** Another price, and other upstreams than before, each time. */
  const network = (i: number) =>
    networkFile('testnet', [], {
      credits: { costs: { eth_gasPrice: 80 + i } },
      failover: { upstreams: [{ name: `node-${i % 2}`, url: nodes[i % 2]?.url }] },
    })
  const deployment = createDeployment({
    gateway: { workers, watch: false },
    networks: { testnet: network(0) },
    nodeOptions: memoryReportOptions,
  })
  try {
    const { key } = await deployment.addCaller('alice', 'custom')
    const gateway = await deployment.start()
    const callers = openCallers(gateway.http(key), callsPerSecond, new SeededRandom(seed))
    const sockets = await openSocketCallers(gateway.ws(key))
    let warmBytes = Number.NaN
    for (let i = 1; i <= warmUpReloads + reloads; i++) {
      deployment.writeNetwork('testnet', network(i))
      await reload(gateway)
      if (i === warmUpReloads) warmBytes = await liveBytesOf(gateway)
    }
    await callers.stop()
    const leakedBytesPerReload = Math.round(((await liveBytesOf(gateway)) - warmBytes) / reloads)
    const failures = [...callers.failures, ...(await sockets.stop())]
    for (const failure of failures) log(failure)
    return {
      reloads,
      calls: callers.calls + sockets.calls(),
      lost: failures.length,
      droppedSockets: sockets.dropped(),
      leakedBytesPerReload,
    }
  } finally {
    await deployment.remove()
    for (const node of nodes) await node.stop()
  }
}

const reload = async (gateway: GatewayProcess): Promise<void> => {
  const applied = () =>
    gateway.log.filter(({ event, changes }) => event === 'reloaded' && Array.isArray(changes) && changes.length > 0).length
  const before = applied()
  process.kill(gateway.pid, 'SIGHUP')
  await waitUntil(() => applied() > before)
}

/** WebSockets that send one call after another. */
const openSocketCallers = async (url: string) => {
  const clients = await Promise.all(Array.from({ length: socketCount }, () => connectWs(url)))
  const failures: string[] = []
  let [calls, dropped, isStopping] = [0, 0, false]
  for (const client of clients) {
    void client.closed.then(() => {
      if (!isStopping) dropped += 1
    })
  }
  const running = clients.map(async client => {
    while (!isStopping) {
      calls += 1
      const answer = await client.call('eth_gasPrice').catch((error: Error) => ({ result: error.message }))
      if (answer.result !== '0x9') failures.push(`WebSocket: ${JSON.stringify(answer)}`)
      await new Promise(resolve => setTimeout(resolve, socketCallIntervalMs))
    }
  })
  return {
    calls: () => calls,
    dropped: () => dropped,
    async stop() {
      isStopping = true
      await Promise.all(running)
      await Promise.all(clients.map(client => client.close()))
      return failures
    },
  }
}

/** As many reloads as the scale says. */
export const reloads: Attack = {
  name: 'reloads',
  summary: 'reloads changed networks, in one process and in several workers, under calls over HTTP and WebSockets',
  async run({ seed, scale, log }) {
    const count = Math.max(minReloads, Math.round(10 * scale))
    const results = [await runReloads({ reloads: count, callsPerSecond: 500, workers: 1, seed, log })]
    results.push(await runReloads({ reloads: count, callsPerSecond: 500, workers: 2, seed, log }))
    const sum = (figure: 'reloads' | 'calls' | 'lost' | 'droppedSockets') => results.reduce((total, result) => total + result[figure], 0)
    return [
      { name: 'reloads', value: sum('reloads') },
      { name: 'calls', value: sum('calls') },
      mustBeZero('calls lost', sum('lost')),
      mustBeZero('WebSockets dropped', sum('droppedSockets')),
      {
        name: 'memory left by a reload',
        unit: 'B',
        value: Math.max(...results.map(result => result.leakedBytesPerReload)),
        limit: maxLeakedBytes,
      },
    ]
  },
}

const minReloads = 10

/** Far below what a pipeline with its method table takes, and above the noise of a measurement over the fewest reloads (80 kB; over 180 reloads 17 kB). */
export const maxLeakedBytes = 250_000
