import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createListener } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { readBody } from './baselines/baseline-server.ts'

/** Nodes at addresses of their own, so that no two share connections. They answer what gateways ask on their own account. */
export interface IdleNodes {
  readonly urls: readonly string[]
  readonly maxConnections: number
  readonly maxInFlight: number
  /** When requests arrived, by performance.now(). */
  readonly requestTimes: readonly number[]
  /** From now on. */
  reset(): void
  close(): Promise<void>
}

/** An answer takes so long, as that of a node in another data center. */
const responseDelayMs = 20

/** A block that gateways take for the newest and for the finalized one. */
const block = { number: '0x64', hash: `0x${'b'.repeat(64)}`, parentHash: `0x${'a'.repeat(64)}` }

/** Addresses of the loopback interface from 127.1.0.1 on. */
const addressOf = (i: number): string => `127.1.${Math.floor(i / 250)}.${1 + (i % 250)}`

export const openIdleNodes = async (count: number): Promise<IdleNodes> => {
  let [connections, maxConnections, inFlight, maxInFlight] = [0, 0, 0, 0]
  let requestTimes: number[] = []
  const server = createServer(async (req, res) => {
    requestTimes.push(performance.now())
    maxInFlight = Math.max(maxInFlight, (inFlight += 1))
    res.once('close', () => (inFlight -= 1))
    const { id, method } = JSON.parse(await readBody(req)) as { readonly id: unknown; readonly method: string } // of a gateway
    const body = JSON.stringify({ jsonrpc: '2.0', id, result: method === 'eth_chainId' ? '0x539' : block })
    setTimeout(() => res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length }).end(body), responseDelayMs)
  }).on('connection', socket => {
    maxConnections = Math.max(maxConnections, (connections += 1))
    socket.once('close', () => (connections -= 1))
  })
  const listeners: Server[] = []
  let port = 0
  for (let i = 0; i < count; i += 1) {
    const listener = createListener(socket => void server.emit('connection', socket))
    await once(listener.listen(port, addressOf(i)), 'listening')
    port = (listener.address() as AddressInfo).port // the address of a TCP server is always an AddressInfo
    listeners.push(listener)
  }
  return {
    urls: listeners.map((_, i) => `http://${addressOf(i)}:${port}`),
    get maxConnections() {
      return maxConnections
    },
    get maxInFlight() {
      return maxInFlight
    },
    get requestTimes() {
      return requestTimes
    },
    reset() {
      requestTimes = []
      ;[maxConnections, maxInFlight] = [connections, inFlight]
    },
    async close() {
      const closed = listeners.map(listener => once(listener.close(), 'close'))
      server.closeAllConnections()
      await Promise.all(closed)
    },
  }
}
