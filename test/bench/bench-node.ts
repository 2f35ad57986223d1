import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { cannedResults, lastLogBlock, logContract, maxLogs, logDataWords } from './request-templates.ts'
import { callKey, readRecordedResults } from './recorded-traffic.ts'
import { listenAndAnnounce } from './baselines/baseline-server.ts'

// A node with canned responses. Its first argument is the port to listen on; any free port if absent. Its second is a fault, which
// SIGUSR2 begins and ends.

interface RpcRequest {
  readonly id: unknown
  readonly method: string
  readonly params?: readonly unknown[]
}

const hash = (digit: string): string => `0x${digit.repeat(64)}`

const logsJson = (words: number): Buffer => {
  const log = (i: number) =>
    JSON.stringify({
      address: logContract(words),
      topics: [hash('d'), hash('e'), hash('f')],
      data: `0x${'0123456789abcdef'.repeat(4 * words)}`,
      blockNumber: `0x${(lastLogBlock - maxLogs + i).toString(16)}`, // a gateway refuses logs outside the requested range,
      transactionHash: hash('a'),
      transactionIndex: `0x${(i % 200).toString(16)}`,
      blockHash: hash('b'),
      logIndex: `0x${(i % 500).toString(16)}`,
      removed: false,
    })
  return Buffer.from(`[${Array.from({ length: maxLogs }, (_, i) => log(i)).join()}]`)
}

const toJsonBytes = (result: unknown): Buffer => Buffer.from(JSON.stringify(result))
const resultsByCall = new Map(readRecordedResults().map(({ method, params, result }) => [callKey(method, params), toJsonBytes(result)]))
/** The block that gateways ask for by its tags and its number. */
const latestBlock = resultsByCall.get(callKey('eth_getBlockByNumber', ['latest', false])) ?? Buffer.from('null')
const resultsByMethod = new Map(Object.entries(cannedResults).map(([method, result]) => [method, toJsonBytes(result)]))
resultsByMethod.set('eth_getBlockByNumber', latestBlock)
const logsByContract = new Map([logDataWords.small, logDataWords.large].map(words => [logContract(words), logsJson(words)]))
const noLogs = Buffer.from('[]')

const resultOf = ({ method, params }: RpcRequest): Buffer => {
  const recorded = resultsByCall.get(callKey(method, params))
  if (recorded !== undefined) return recorded
  if (method !== 'eth_getLogs') return resultsByMethod.get(method) ?? Buffer.from('null')
  const filter = params?.[0] as { address?: string } | undefined // anything else has no such address
  return logsByContract.get(filter?.address ?? '') ?? noLogs
}

/** Up to this length one write costs less than three. */
const maxConcatBytes = 65_536

const sendResponse = (res: ServerResponse, parts: readonly Buffer[]): void => {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': length })
  if (length < maxConcatBytes) return void res.end(Buffer.concat(parts))
  for (const part of parts) res.write(part) // a copy of 21 MB would take longer than everything else
  res.end()
}

const respond = (request: RpcRequest): Buffer[] => [
  Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(request.id)},"result":`),
  resultOf(request),
  Buffer.from('}'),
]

const respondToBatch = (batch: readonly RpcRequest[]): Buffer[] => [
  ...batch.flatMap((request, i) => [Buffer.from(i > 0 ? ',' : '['), ...respond(request)]),
  Buffer.from(']'),
]

const connectionNumbers = new WeakMap<Socket, number>()
let connectionCount = 0

const dripIntervalMs = 50

/** Headers and the first byte of a response; the other bytes come one by one, or never. */
const beginResponse = (res: ServerResponse, parts: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(parts)
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.write(body.subarray(0, 1))
  return body
}

const drip = (res: ServerResponse, parts: readonly Buffer[]): void => {
  const body = beginResponse(res, parts)
  let sent = 1
  const timer = setInterval(() => void res.write(body.subarray(sent, (sent += 1))), dripIntervalMs)
  res.once('close', () => clearInterval(timer))
}

/** How the node fails: each returns whether it has taken the response over. */
const faults: Readonly<Record<string, (req: IncomingMessage, res: ServerResponse, parts: readonly Buffer[]) => boolean>> = {
  'half-of-connections': ({ socket }) => (connectionNumbers.get(socket) ?? 0) % 2 === 1,
  headers: () => true,
  body: (_, res, parts) => beginResponse(res, parts).length > 0,
  drip: (_, res, parts) => {
    drip(res, parts)
    return true
  },
}
const fault = faults[process.argv[3] ?? '']
let isFaulty = false
process.on('SIGUSR2', () => (isFaulty = !isFaulty))

listenAndAnnounce(
  createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const message = JSON.parse(Buffer.concat(chunks).toString()) as RpcRequest | RpcRequest[] // only gateways send requests here
      const parts = Array.isArray(message) ? respondToBatch(message) : respond(message)
      if (!isFaulty || fault?.(req, res, parts) !== true) sendResponse(res, parts)
    })
  }).on('connection', socket => connectionNumbers.set(socket, (connectionCount += 1))),
  Number(process.argv[2] ?? 0),
)
