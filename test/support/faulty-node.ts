import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import net from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import type { Json } from '../../src/plugin/call.ts'
import { isJsonObject } from '../../src/util/json.ts'
import { httpResponse, respondCorrectly } from './node-responses.ts'
import type { NodeFault } from './node-responses.ts'

/** A node on raw sockets, which can violate HTTP and JSON-RPC in every way. */
export interface FaultyNode {
  readonly url: string
  /** Number of requests so far: all, or those for the method. */
  requestCount(method?: string): number
  /** Connections that are open now. */
  readonly openConnectionCount: number
  /** Sets how the node responds from now on. */
  setFault(fault: NodeFault): void
  /** Resolves when the node has received `count` requests. */
  waitForRequests(count: number): Promise<void>
  /** Resolves when no connection is open. */
  whenNoConnections(): Promise<void>
  stop(): Promise<void>
}

/** The result depends on method and parameters only, and differs for all of them. */
export const expectedResultOf = (method: string, params: readonly Json[], blockTimeMs = defaultBlockTimeMs): string =>
  JSON.stringify(chainResponses[method]?.(params, blockTimeMs) ?? `0x${Buffer.from(JSON.stringify([method, params])).toString('hex')}`)

/** Responses to requests of the gateway itself: a chain with a block every `blockTimeMs`, the same on all nodes. */
const chainResponses: Readonly<Record<string, (params: readonly Json[], blockTimeMs: number) => Json>> = {
  eth_chainId: () => '0x7a69',
  // A quantity has 32 bytes at most.
  eth_getBalance: params => `0x1${createHash('sha256').update(JSON.stringify(params)).digest('hex').slice(1)}`,
  eth_blockNumber: (_, blockTimeMs) => hex(currentHeight(blockTimeMs)),
  eth_getBlockByNumber: ([block], blockTimeMs) => {
    const height = currentHeight(blockTimeMs)
    return blockAt(block === 'latest' ? height : block === 'finalized' ? height - finalityLagBlocks : Number(block), blockTimeMs)
  },
  eth_getBlockByHash: ([hash], blockTimeMs) => blockAt(Number(hash), blockTimeMs),
  eth_getTransactionReceipt: ([hash]) => ({
    transactionHash: hash ?? null,
    transactionIndex: '0x0',
    blockHash: blockHashAt(5),
    blockNumber: '0x5',
    logs: [],
    status: '0x1',
  }),
  eth_getLogs: ([filter = null]) => {
    // A block has one log.
    const blockHash = isJsonObject(filter) && typeof filter['blockHash'] === 'string' ? filter['blockHash'] : blockHashAt(5)
    return [
      {
        address: `0x${'11'.repeat(20)}`,
        topics: [],
        data: `0x${Buffer.from(JSON.stringify(filter)).toString('hex')}`,
        removed: false,
        logIndex: '0x0',
        transactionIndex: '0x0',
        transactionHash: blockHashAt(1),
        blockHash,
        blockNumber: hex(Number(blockHash)),
      },
    ]
  },
}

export const defaultBlockTimeMs = 12_000

const finalityLagBlocks = 8

/** The height at the start of the process. */
const minHeightBlocks = 16
const currentHeight = (blockTimeMs: number): number => minHeightBlocks + Math.floor(performance.now() / blockTimeMs)
const hex = (value: number): string => `0x${value.toString(16)}`
const blockHashAt = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`

const blockAt = (number: number, blockTimeMs: number): Json => ({
  number: hex(number),
  hash: blockHashAt(number),
  parentHash: blockHashAt(number - 1),
  transactions: [],
  timestamp: hex(Math.floor((performance.timeOrigin + (number - minHeightBlocks) * blockTimeMs) / 1000)),
})

export const startFaultyNode = (fault: NodeFault = respondCorrectly, blockTimeMs?: number): Promise<FaultyNode> =>
  startServer(fault, 'http', serve => net.createServer(serve), blockTimeMs)

const certificates = fileURLToPath(new URL('../../../test/support/certificates/', import.meta.url))

/** The authority to trust (NODE_EXTRA_CA_CERTS): the valid certificate is then valid, and each of the others has exactly one defect. */
export const caCertificatePath = join(certificates, 'authority.pem')

/** A node over TLS that responds correctly; its certificate may be invalid. */
export const startTlsNode = (certificate: 'valid' | 'other-host' | 'expired' | 'self-signed'): Promise<FaultyNode> => {
  const pem = readFileSync(join(certificates, `${certificate}.pem`))
  return startServer(respondCorrectly, 'https', serve =>
    tls.createServer({ key: pem, cert: pem }, serve).on('tlsClientError', () => undefined),
  )
}

/** Responds in plaintext to a TLS handshake. */
export const startPlaintextNode = (): Promise<FaultyNode> =>
  startServer(respondCorrectly, 'https', () =>
    net.createServer(socket => void socket.once('data', () => socket.write(httpResponse('{}', { status: 400 })))),
  )

/** A URL where nothing listens. */
export const unreachableUrl = async (): Promise<string> => {
  const node = await startFaultyNode()
  await node.stop()
  return node.url
}

/** Accepts connections, and never reads from them. */
export const startBlackHole = (scheme: 'http' | 'https' = 'http'): Promise<FaultyNode> =>
  startServer(respondCorrectly, scheme, () => net.createServer({ pauseOnConnect: true }))

const startServer = async (
  fault: NodeFault,
  scheme: string,
  listen: (serve: (socket: Socket) => void) => Server,
  blockTimeMs?: number,
): Promise<FaultyNode> => {
  const sockets = new Set<Socket>()
  const counts = new Map<string, number>()
  let total = 0
  const server = listen(socket =>
    readRequests(socket, (id, method, params, connectionRequestCount) => {
      total += 1
      counts.set(method, (counts.get(method) ?? 0) + 1)
      server.emit('request-received')
      fault(socket, { id, method, expectedResult: expectedResultOf(method, params, blockTimeMs), connectionRequestCount })
    }),
  )
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.setNoDelay()
    socket.on('error', ignoreError)
    socket.once('close', () => {
      sockets.delete(socket)
      server.emit('connection-closed')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requestCount: method => (method === undefined ? total : (counts.get(method) ?? 0)),
    get openConnectionCount() {
      return sockets.size
    },
    setFault(next) {
      fault = next
    },
    async waitForRequests(count) {
      while (total < count) await once(server, 'request-received')
    },
    async whenNoConnections() {
      while (sockets.size > 0) await once(server, 'connection-closed')
    },
    async stop() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Faults reset connections on purpose. */
const ignoreError = (): void => undefined

type OnRequest = (id: number, method: string, params: readonly Json[], connectionRequestCount: number) => void

/** Reads HTTP requests with a content-length, as the gateway sends them. */
const readRequests = (socket: Socket, onRequest: OnRequest): void => {
  socket.on('error', ignoreError)
  let text = ''
  let connectionRequestCount = 0
  socket.on('data', bytes => {
    text += bytes.toString('latin1')
    for (;;) {
      const head = text.indexOf('\r\n\r\n') + 4
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      if (head < 4 || text.length < head + length) return
      const { id, method, params } = JSON.parse(text.slice(head, head + length))
      text = text.slice(head + length)
      onRequest(id, method, params, (connectionRequestCount += 1))
    }
  })
}
