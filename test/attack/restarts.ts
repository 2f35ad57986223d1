import { once } from 'node:events'
import { Agent, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { post } from '../support/rpc-client.ts'
import { mustBeZero } from './attack.ts'
import type { Attack } from './attack.ts'

export interface RestartsOptions {
  readonly restarts: number
  /** Of all callers together. */
  readonly callsPerSecond: number
  readonly seed: number
  log(line: string): void
}

export interface RestartsResult {
  readonly restarts: number
  readonly calls: number
  /** Calls that failed, or were answered with anything but their result. */
  readonly lost: number
}

const callerCount = 16
const healthCheckIntervalMs = 100
/** Long enough for the balancer to notice that a gateway is to stop, also on a busy machine. */
const drain = { grace: '2s', timeout: '10s' }

/**
 * Restarts two gateways in turns, by SIGTERM, behind a balancer that reads /readyz, while callers send calls over connections
 * that they keep. No caller may notice.
 */
export const runRestarts = async ({ restarts, callsPerSecond, seed, log }: RestartsOptions): Promise<RestartsResult> => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_gasPrice: { result: '0x9' } })
  const networks = { testnet: networkFile('testnet', [node.url]) }
  const deployment = createDeployment({ gateway: { drain, log: 'warn' }, networks })
  try {
    const { key } = await deployment.addCaller('alice', 'custom')
    const gateways = [await deployment.start(), await deployment.start()]
    const balancer = await openBalancer(gateways)
    const callers = openCallers(`${balancer.url}/v3/${key}`, callsPerSecond, new SeededRandom(seed))
    try {
      for (let i = 0; i < restarts; i++) await restart(deployment, gateways, i % gateways.length, balancer)
    } finally {
      await callers.stop()
      balancer.close()
    }
    for (const failure of callers.failures) log(failure)
    return { restarts, calls: callers.calls, lost: callers.failures.length }
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

const minRestarts = 2

/** As many restarts as the scale says. */
export const restarts: Attack = {
  name: 'restarts',
  summary: 'restarts two gateways in turns behind a load balancer, under calls of clients that keep their connections',
  async run({ seed, scale, log }) {
    const result = await runRestarts({ restarts: Math.max(minRestarts, Math.round(scale)), callsPerSecond: 500, seed, log })
    return [{ name: 'restarts', value: result.restarts }, { name: 'calls', value: result.calls }, mustBeZero('calls lost', result.lost)]
  },
}

/** Resolves once the balancer sends calls to the new process. */
const restart = async (deployment: Deployment, gateways: GatewayProcess[], i: number, balancer: Balancer): Promise<void> => {
  const code = await gateways[i]?.stop()
  if (code !== 0) throw new Error(`the gateway exited with ${code}`)
  gateways[i] = await deployment.start()
  await balancer.whenReady(i)
}

export interface Balancer {
  readonly url: string
  /** Resolves once the gateway at this position was found to be ready by two health checks that have begun since. */
  whenReady(i: number): Promise<void>
  close(): void
}

/** Connects each caller to the ready gateways in turn, as a TCP load balancer does. */
export const openBalancer = async (gateways: readonly GatewayProcess[]): Promise<Balancer> => {
  const isReady = gateways.map(() => true)
  let checks = 0
  let turn = 0
  const check = async (): Promise<void> => {
    await Promise.all(
      gateways.map(async ({ admin }, i) => {
        isReady[i] = await post(`${admin}/readyz`, '', { method: 'GET' }).then(
          ({ status }) => status === 200,
          () => false,
        )
      }),
    )
    checks += 1
  }
  const timer = setInterval(() => void check(), healthCheckIntervalMs)
  const nextGateway = (): GatewayProcess | undefined => {
    const ready = gateways.filter((_, i) => isReady[i])
    turn += 1
    return ready[turn % ready.length]
  }
  const server = createServer({ allowHalfOpen: true }, caller => {
    const { hostname, port } = new URL(nextGateway()?.rpc ?? 'http://127.0.0.1:1')
    const gateway = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    caller.pipe(gateway).pipe(caller)
    caller.on('error', () => gateway.destroy())
    gateway.on('error', () => caller.destroy())
  })
  return {
    url: await listen(server),
    async whenReady(i) {
      const before = checks
      while (checks < before + 2 || isReady[i] !== true) await new Promise(resolve => setTimeout(resolve, healthCheckIntervalMs))
    },
    close() {
      clearInterval(timer)
      server.close()
    },
  }
}

const listen = async (server: Server): Promise<string> => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP server has no other kind of address
}

export interface Callers {
  readonly calls: number
  readonly failures: readonly string[]
  /** Resolves after the last answer. */
  stop(): Promise<void>
}

/** Each caller sends one call after another over a connection that it keeps, at random times; a slow answer delays no later call. */
export const openCallers = (url: string, callsPerSecond: number, random: SeededRandom): Callers => {
  const failures: string[] = []
  let calls = 0
  let isStopping = false
  const meanIntervalMs = (1000 * callerCount) / callsPerSecond
  const callers = Array.from({ length: callerCount }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    let dueMs = performance.now()
    while (!isStopping) {
      dueMs += 2 * meanIntervalMs * random.next()
      await new Promise(resolve => setTimeout(resolve, dueMs - performance.now()))
      const [method, result] = random.next() < 0.5 ? ['eth_chainId', '0x7a69'] : ['eth_gasPrice', '0x9']
      calls += 1
      const answer = await sendCall(agent, url, method).catch((error: Error) => error.message)
      if (answer !== `{"jsonrpc":"2.0","id":1,"result":"${result}"}`) failures.push(`${method} after ${calls} calls: ${answer}`)
    }
    agent.destroy()
  })
  return {
    get calls() {
      return calls
    },
    failures,
    async stop() {
      isStopping = true
      await Promise.all(callers)
    },
  }
}

/** The text of the response. */
export const sendCall = async (agent: Agent, url: string, method: string): Promise<string> => {
  const sent = request(url, { agent, method: 'POST', headers: { 'content-type': 'application/json' } })
  sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method }))
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return text(response)
}
