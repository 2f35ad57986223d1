import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { cpuTimesOf } from '../support/cpu-times.ts'
import type { CpuTimes } from '../support/cpu-times.ts'
import { callData, exhaustionBlockMs } from './exhaustion-node.ts'
import { reportResult, takeTask } from './task-process.ts'

/** A process that calls as an ordinary caller does, and measures how long it waits. */
export interface BystanderTask {
  readonly url: string
  readonly gatewayPid: number
  /** Where it has a subscription too; absent: it has none. */
  readonly ws?: string
  /** Opens a connection for each call. */
  readonly opensConnections: boolean
  readonly durationMs: number
  readonly seed: number
}

export interface BystanderReport {
  /** Without the time for which the gateway, or this process, waited for a CPU: others use the machine too. At least the CPU time of the gateway. */
  readonly p99Ms: number
  readonly elapsedP99Ms: number
  /** Calls without a result. */
  readonly failed: number
  /** What the first of them got. */
  readonly firstFailure: string | undefined
  /** From a block to its event, of 99 in 100 blocks. NaN without events, or when one is missing. */
  readonly eventP99Ms: number
}

/** A call that takes longer has failed. */
const timeoutMs = 10_000

const { url, ws, gatewayPid, opensConnections, durationMs, seed } = takeTask<BystanderTask>()
/** It holds few connections at the same time. */
const intervalMs = opensConnections ? 50 : 10
/** More sockets than calls that wait at the same time: a call never waits for another of the bystander. */
const agent = new http.Agent({ keepAlive: !opensConnections, maxSockets: 200 })

/** Mostly calls that the gateway answers by itself, calls that the node must answer, and some longer answers. */
const bodyOf = (n: number): string => {
  if (n % 2 === 0) return JSON.stringify({ jsonrpc: '2.0', id: n, method: 'eth_chainId', params: [] })
  const kind = n % 20 === 1 ? callData.medium : callData.short
  const data = `${kind}${(seed * 1_000_000 + n).toString(16).padStart(63, '0')}`
  return JSON.stringify({
    jsonrpc: '2.0',
    id: n,
    method: 'eth_call',
    params: [{ to: `0x${'00'.repeat(20)}`, data: evenLength(data) }, 'latest'],
  })
}

const evenLength = (hex: string): string => (hex.length % 2 === 0 ? hex : `${hex}0`)

/** Undefined when the call was answered. */
const call = (body: string): Promise<string | undefined> =>
  new Promise(resolve => {
    const request = http.request(
      url,
      { method: 'POST', agent, headers: { 'content-type': 'application/json' }, timeout: timeoutMs },
      response => {
        let start = ''
        response.setEncoding('latin1').on('data', chunk => {
          if (start.length < 100) start += chunk
        })
        response.on('end', () =>
          resolve(response.statusCode === 200 && start.includes('"result":') ? undefined : `${response.statusCode} ${start}`),
        )
        response.on('error', error => resolve(String(error)))
      },
    )
    request.on('timeout', () => request.destroy(new Error('timeout')))
    request.on('error', error => resolve(String(error)))
    request.end(body)
  })

const latencies: number[] = []
const elapsed: number[] = []
let failed = 0
let firstFailure: string | undefined
const measure = async (n: number): Promise<void> => {
  const [startMs, before] = [performance.now(), cpuTimes()]
  const failure = await call(bodyOf(n))
  if (failure !== undefined) failed += 1
  firstFailure ??= failure
  const elapsedMs = performance.now() - startMs
  elapsed.push(elapsedMs)
  const after = cpuTimes()
  latencies.push(Math.max(after.usedMs - before.usedMs, elapsedMs - (after.waitedMs - before.waitedMs)))
}

/** What the gateway used, and what both processes waited: they may have waited at the same time. */
const cpuTimes = (): CpuTimes => {
  const { usedMs, waitedMs } = cpuTimesOf(gatewayPid)
  return { usedMs, waitedMs: waitedMs + cpuTimesOf(process.pid).waitedMs }
}

const p99Of = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? NaN

/** The delays of the first log of each block until the function that it returns is called; undefined where a block is missing. */
const watchBlocks = async (wsUrl: string): Promise<() => readonly number[] | undefined> => {
  const socket = new WebSocket(wsUrl)
  const delays: number[] = []
  let latest: number | undefined
  let isComplete = true
  const subscribed = new Promise<void>(resolve => {
    socket.on('message', data => {
      const { params } = JSON.parse(String(data))
      if (params === undefined) return resolve()
      const number = Number(params.result.blockNumber)
      if (number === latest) return
      if (latest !== undefined && number !== latest + 1) isComplete = false
      latest = number
      delays.push(Date.now() - number * exhaustionBlockMs)
    })
  })
  socket.on('close', () => {
    isComplete = false
  })
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
  socket.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["logs",{}]}')
  await subscribed
  return () => {
    const result = isComplete ? delays : undefined
    socket.terminate()
    return result
  }
}

const endWatch = ws === undefined ? undefined : await watchBlocks(ws)
const calls: Promise<void>[] = []
const endMs = performance.now() + durationMs
for (let n = 0; performance.now() < endMs; n += 1) {
  calls.push(measure(n))
  await sleep(intervalMs)
}
await Promise.all(calls)
const eventP99Ms = p99Of(endWatch?.() ?? [])
const report: BystanderReport = { p99Ms: p99Of(latencies), elapsedP99Ms: p99Of(elapsed), failed, firstFailure, eventP99Ms }
reportResult(report)
