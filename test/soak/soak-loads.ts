import { setTimeout as wait } from 'node:timers/promises'
import { classifyMessage } from '../faults/callers.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { expectedResultOf } from '../support/faulty-node.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { RpcMessage, WsClient } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import type { SoakRun } from './soak-run.ts'

// What callers and operators do in a soak beside single calls. Each function is one load: it runs until the run is over.

const stepMs = 1000

/** Where a load calls. */
export interface SoakTarget {
  readonly gateway: GatewayProcess
  readonly key: string
  readonly host: string
}

const addressOf = (number: number): string => `0x${number.toString(16).padStart(40, '0')}`

const request = (id: number, method: string, params: readonly unknown[]): object => ({ jsonrpc: '2.0', id, method, params })

const balanceParams = (number: number) => [addressOf(number), 'latest']

const batchCalls = 20

/** The last calls of a batch are the same in each batch. */
const cachedCallsPerBatch = 8

/** Batches of calls that no one has sent before, and of some that are cached. */
export const sendBatches = async (run: SoakRun, { gateway, key, host }: SoakTarget): Promise<void> => {
  let batchNumber = 0
  await run.repeat(async () => {
    batchNumber += 1
    const numbers = Array.from({ length: batchCalls }, (_, i) => (i < batchCalls - cachedCallsPerBatch ? batchNumber * batchCalls + i : i))
    const body = JSON.stringify(numbers.map((number, id) => request(id, 'eth_getBalance', balanceParams(number))))
    const answer: unknown = (await post(gateway.http(key), body, { host })).json()
    const messages: readonly RpcMessage[] = Array.isArray(answer) ? answer : []
    for (const [id, number] of numbers.entries()) {
      const message = messages.find(each => each.id === id) ?? {}
      const correctResult = expectedResultOf('eth_getBalance', balanceParams(number))
      run.recordOutcome(classifyMessage(message, { id, correctResult }, `batch: ${JSON.stringify(message)}`))
    }
    run.countEvent('batches')
    await wait(stepMs)
  })
}

const stepsPerConnection = 20

/** A WebSocket with subscriptions and calls, which is opened anew after some seconds. */
export const subscribe = async (run: SoakRun, { gateway, key, host }: SoakTarget): Promise<void> => {
  let client: WsClient | undefined
  let [steps, calls] = [0, 0]
  await run.repeat(async () => {
    steps += 1
    if (client === undefined || client.socket.readyState !== client.socket.OPEN) {
      if (client !== undefined) run.countEvent('WebSockets closed by the gateway')
      client = await connectWs(gateway.ws(key), { host })
      checkHeads(run, client)
      client.send(JSON.stringify(request(0, 'eth_subscribe', ['newHeads'])))
      client.send(JSON.stringify(request(0, 'eth_subscribe', ['logs', {}])))
      run.countEvent('WebSockets')
    }
    client.send(JSON.stringify(request((calls += 1), 'eth_getBalance', balanceParams(calls))))
    await wait(stepMs)
    if (steps % stepsPerConnection !== 0) return
    if (steps % (2 * stepsPerConnection) === 0) client.socket.terminate()
    else await client.close()
    client = undefined
  })
  client?.socket.terminate()
}

/** Heads come one after another; none is left out or comes twice. */
const checkHeads = (run: SoakRun, { socket }: WsClient): void => {
  let lastHeight: number | undefined
  socket.on('message', data => {
    const { params } = JSON.parse(String(data))
    if (params === undefined) return
    run.countEvent('events')
    if (params.result.parentHash === undefined) return
    const height = Number(params.result.number)
    if (lastHeight !== undefined && height !== lastHeight + 1) {
      run.recordOutcome({ kind: 'wrong', reason: `newHeads: ${height} after ${lastHeight}` })
    }
    lastHeight = height
  })
}

/** Filters of logs and blocks. Half of them are never removed: they end when they have expired. */
export const pollFilters = async (run: SoakRun, { gateway, key, host }: SoakTarget): Promise<void> => {
  let step = 0
  const ask = async (method: string, ...params: readonly unknown[]) => {
    const { result } = await call(gateway.http(key), method, params, { host })
    return result
  }
  await run.repeat(async () => {
    step += 1
    const id = await (step % 2 === 0 ? ask('eth_newBlockFilter') : ask('eth_newFilter', { address: addressOf(step) }))
    run.countEvent('filters')
    await wait(2 * stepMs)
    await ask('eth_getFilterChanges', id)
    if (step % 4 < 2) await ask('eth_uninstallFilter', id)
  })
}

const disconnectIntervalMs = 250

/** Callers that disconnect before their response, or in the middle of several calls. */
export const disconnectEarly = async (run: SoakRun, { gateway, key, host }: SoakTarget): Promise<void> => {
  let id = 1
  const body = (number: number) => JSON.stringify(request(number, 'eth_getBalance', balanceParams(number)))
  await run.repeat(async () => {
    await wait(disconnectIntervalMs)
    void post(gateway.http(key), body(id), { host, signal: AbortSignal.timeout(id % 4) }).catch(() => undefined)
    const client = await connectWs(gateway.ws(key), { host })
    for (let i = 0; i < 8; i++) client.send(body(id + i))
    await client.nextMessage()
    if (id % 20 === 1) await client.close()
    else client.socket.terminate()
    id += 10
  })
}

const revokeIntervalMs = 5000
const pollIntervalMs = 50
const unauthorizedStatus = 401

/** New accounts with a key each, which is used, revoked and refused. */
export const revokeKeys = async (run: SoakRun, deployment: Deployment, { gateway, host }: Omit<SoakTarget, 'key'>): Promise<void> => {
  let count = 0
  await run.repeat(async () => {
    count += 1
    const account = `guest-${count}`
    const { id, key } = await deployment.addCaller(account, 'custom')
    const ask = () => post(gateway.http(key), JSON.stringify(request(1, 'eth_getBalance', balanceParams(1))), { host })
    const { status } = await ask()
    if (status === unauthorizedStatus) run.recordOutcome({ kind: 'wrong', reason: 'a new key was refused' })
    const { code, stderr } = await deployment.run('keys', 'revoke', id)
    if (code !== 0) return run.recordOutcome({ kind: 'wrong', reason: `keys revoke: ${stderr}` })
    await waitUntil(async () => {
      await wait(pollIntervalMs)
      return (await ask()).status === unauthorizedStatus
    })
    run.countEvent('revocations')
    await wait(revokeIntervalMs)
  })
}

const reloadIntervalMs = 15_000

/** Reloads with other prices and another list of upstreams, one network after another. */
export const reloadNetworks = async (
  run: SoakRun,
  gateway: GatewayProcess,
  writeNetwork: (reloadNumber: number) => void,
): Promise<void> => {
  let count = 0
  const reloads = () => gateway.log.filter(({ event }) => event === 'reloaded').length
  await run.repeat(async () => {
    const before = reloads()
    writeNetwork((count += 1))
    process.kill(gateway.pid, 'SIGHUP')
    await waitUntil(() => reloads() > before)
    run.countEvent('reloads')
    const endMs = performance.now() + reloadIntervalMs
    while (performance.now() < endMs && !run.isOver()) await wait(stepMs)
  })
}
