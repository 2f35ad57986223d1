import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import type { WebSocket } from 'ws'
import { toHexQuantity } from '../../src/util/json.ts'

/** The WebSocket side of a node: it publishes new heads, and fails when a test wants it. */
export interface FakeSubscriptionNode {
  readonly url: string
  /** Oldest first, over all connections. */
  readonly requestedMethods: readonly string[]
  /** The headers of the upgrades. */
  readonly upgradeHeaders: readonly IncomingHttpHeaders[]
  /** The result of the method from now on, or an object with `error`; undefined is no response. */
  setResponse(method: string, result: unknown): void
  /** Resolves once there were `count` requests for the method. */
  waitForRequests(method: string, count: number): Promise<void>
  /** Sends a notification to each subscriber. */
  publish(result: unknown): void
  /** Sends this text to each connection. */
  sendText(text: string): void
  readonly connectionCount: number
  /** Terminates each connection without a close frame: the client gets 1006. */
  dropConnections(): void
  stop(): Promise<void>
}

const subscriptionId = '0xfeed'

/** `options` are those of the server of `ws`. */
export const startFakeSubscriptionNode = async (
  chainId: number,
  port = 0,
  options: { readonly autoPong?: boolean } = {},
): Promise<FakeSubscriptionNode> => {
  const server = new WebSocketServer({ host: '127.0.0.1', port, ...options })
  await once(server, 'listening')
  const responses = new Map<string, unknown>([
    ['eth_chainId', toHexQuantity(chainId)],
    ['eth_subscribe', subscriptionId],
  ])
  const requestedMethods: string[] = []
  const subscribers = new Set<WebSocket>()
  const upgradeHeaders: IncomingHttpHeaders[] = []
  server.on('connection', (socket, request) => {
    upgradeHeaders.push(request.headers)
    socket.on('message', data => {
      const { id, method } = JSON.parse(String(data))
      requestedMethods.push(method)
      const result = responses.get(method)
      if (result !== undefined) socket.send(JSON.stringify({ jsonrpc: '2.0', id, ...(typeof result === 'object' ? result : { result }) }))
      if (method === 'eth_subscribe') subscribers.add(socket)
      server.emit('request')
    })
    socket.on('close', () => subscribers.delete(socket))
  })
  const dropConnections = () => {
    for (const socket of server.clients) socket.terminate()
  }
  const sendText = (text: string, to: Iterable<WebSocket> = server.clients) => {
    for (const socket of to) socket.send(text)
  }
  const publish = (result: unknown) =>
    sendText(JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params: { subscription: subscriptionId, result } }), subscribers)
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requestedMethods,
    upgradeHeaders,
    dropConnections,
    sendText,
    setResponse: (method, result) => void responses.set(method, result),
    async waitForRequests(method, count) {
      while (requestedMethods.filter(requested => requested === method).length < count) await once(server, 'request')
    },
    publish,
    get connectionCount() {
      return server.clients.size
    },
    async stop() {
      if (server.address() === null) return
      const closed = once(server, 'close')
      server.close()
      dropConnections()
      await closed
    },
  }
}

/** A block as nodes return it. */
export const blockJson = (number: number) => ({
  number: toHexQuantity(number),
  hash: hashOf(number),
  parentHash: hashOf(number - 1),
  timestamp: '0x1',
})

export const hashOf = (number: number) => `0x${number.toString(16).padStart(64, '0')}`
