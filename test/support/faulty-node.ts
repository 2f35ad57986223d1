import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import net from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import type { Json } from '../../src/plugin/call.ts'
import { httpResponse, respondCorrectly } from './node-faults.ts'
import type { NodeFault } from './node-faults.ts'

/** A node that speaks HTTP over bare sockets, so that it can do everything wrong. */
export interface FaultyNode {
  readonly url: string
  /** Requests so far: in all, and by method. */
  requestCount(method?: string): number
  /** Connections that are open now. */
  readonly openConnectionCount: number
  /** What it does from now on. */
  setFault(fault: NodeFault): void
  /** Resolves when this many requests have come in. */
  waitForRequests(count: number): Promise<void>
  /** Resolves when no connection is open. */
  whenNoConnections(): Promise<void>
  stop(): Promise<void>
}

/** Results follow from the parameters, and from nothing else: no two questions have the same right answer. */
export const expectedResultOf = (method: string, params: readonly Json[]): string =>
  JSON.stringify(chainResponses[method]?.(params) ?? `0x${Buffer.from(JSON.stringify([method, params])).toString('hex')}`)

/** What nodes are asked by the gateway itself: a chain that gets a block every 12 s, and is the same on all of them. */
const chainResponses: Readonly<Record<string, (params: readonly Json[]) => Json>> = {
  eth_chainId: () => '0x7a69',
  eth_blockNumber: () => hex(currentHeight()),
  eth_getBlockByNumber: ([at]) => blockAt(at === 'latest' ? currentHeight() : at === 'finalized' ? currentHeight() - 8 : Number(at)),
  eth_getBlockByHash: ([hash]) => blockAt(Number(hash)),
  eth_getLogs: ([filter]) => [
    {
      address: `0x${'11'.repeat(20)}`,
      topics: [],
      data: `0x${Buffer.from(JSON.stringify(filter)).toString('hex')}`,
      removed: false,
      logIndex: '0x0',
      transactionIndex: '0x0',
      transactionHash: blockHashAt(1),
      blockHash: blockHashAt(5),
      blockNumber: '0x5',
    },
  ],
}

/** In ms. */
export const blockTimeMs = 12_000
const currentHeight = (): number => 16 + Math.floor(performance.now() / blockTimeMs)
const hex = (value: number): string => `0x${value.toString(16)}`
const blockHashAt = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`

const blockAt = (number: number): Json => ({
  number: hex(number),
  hash: blockHashAt(number),
  parentHash: blockHashAt(number - 1),
  transactions: [],
  timestamp: hex(Math.floor((performance.timeOrigin + (number - 16) * blockTimeMs) / 1000)),
})

export const startFaultyNode = (fault: NodeFault = respondCorrectly): Promise<FaultyNode> =>
  startServer(fault, 'http', serve => net.createServer(serve))

const certificates = fileURLToPath(new URL('../../../test/support/certificates/', import.meta.url))

/** What has to be trusted (NODE_EXTRA_CA_CERTS) for the valid certificate to be so, and for the others to lack one thing only. */
export const caCertificatePath = join(certificates, 'authority.pem')

/** Right in all but, perhaps, its certificate. */
export const startTlsNode = (certificate: 'valid' | 'other-host' | 'expired' | 'self-signed'): Promise<FaultyNode> => {
  const pem = readFileSync(join(certificates, `${certificate}.pem`))
  return startServer(respondCorrectly, 'https', serve =>
    tls.createServer({ key: pem, cert: pem }, serve).on('tlsClientError', () => undefined),
  )
}

/** Answers in the clear to whoever begins with TLS. */
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

/** Takes connections, and never reads from them. */
export const startBlackHole = (scheme: 'http' | 'https' = 'http'): Promise<FaultyNode> =>
  startServer(respondCorrectly, scheme, () => net.createServer({ pauseOnConnect: true }))

const startServer = async (fault: NodeFault, scheme: string, listen: (serve: (socket: Socket) => void) => Server): Promise<FaultyNode> => {
  const sockets = new Set<Socket>()
  const counts = new Map<string, number>()
  let total = 0
  const server = listen(socket =>
    readRequests(socket, (id, method, params, turn) => {
      total += 1
      counts.set(method, (counts.get(method) ?? 0) + 1)
      server.emit('asked')
      fault(socket, { id, method, expectedResult: expectedResultOf(method, params), connectionRequestCount: turn })
    }),
  )
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.setNoDelay()
    socket.on('error', ignoreError)
    socket.once('close', () => {
      sockets.delete(socket)
      server.emit('left')
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
      while (total < count) await once(server, 'asked')
    },
    async whenNoConnections() {
      while (sockets.size > 0) await once(server, 'left')
    },
    async stop() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Resets are what these nodes are for. */
const ignoreError = (): void => undefined

type OnRequest = (id: number, method: string, params: readonly Json[], turn: number) => void

/** Reads what the gateway sends: one request at a time, with its length. */
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
