import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import type { WebSocket } from 'ws'

/** The WebSocket of a node that tells of new heads, and fails as a test wants. */
export interface FakeSubscriptionNode {
  readonly url: string
  /** Methods that were asked for, oldest first, over all connections. */
  readonly requestedMethods: readonly string[]
  /** What it answers from now on; undefined is no answer at all. */
  setResponse(method: string, result: unknown): void
  /** Resolves once it has been asked for the method so often. */
  waitForRequests(method: string, count: number): Promise<void>
  /** Tells all who subscribed. */
  publishHead(block: object): void
  /** Says these very bytes to everybody. */
  sendText(text: string): void
  /** How many are connected. */
  readonly connectionCount: number
  /** Drops everybody without a word: they see 1006. */
  dropConnections(): void
  stop(): Promise<void>
}

export const startSubscriptionNode = async (chainId: number, port = 0): Promise<FakeSubscriptionNode> => {
  const server = new WebSocketServer({ host: '127.0.0.1', port })
  await once(server, 'listening')
  const answers = new Map<string, unknown>([
    ['eth_chainId', `0x${chainId.toString(16)}`],
    ['eth_subscribe', '0xfeed'],
  ])
  const asked: string[] = []
  const subscribed = new Set<WebSocket>()
  server.on('connection', socket => {
    socket.on('message', data => {
      const { id, method } = JSON.parse(String(data))
      asked.push(method)
      const result = answers.get(method)
      if (result !== undefined) socket.send(JSON.stringify({ jsonrpc: '2.0', id, ...(typeof result === 'object' ? result : { result }) }))
      if (method === 'eth_subscribe') subscribed.add(socket)
      server.emit('asked')
    })
    socket.on('close', () => subscribed.delete(socket))
  })
  const drop = () => {
    for (const socket of server.clients) socket.terminate()
  }
  const say = (text: string, to: Iterable<WebSocket> = server.clients) => {
    for (const socket of to) socket.send(text)
  }
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requestedMethods: asked,
    dropConnections: drop,
    sendText: say,
    setResponse: (method, result) => void answers.set(method, result),
    async waitForRequests(method, count) {
      while (asked.filter(each => each === method).length < count) await once(server, 'asked')
    },
    publishHead: block =>
      say(JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params: { subscription: '0xfeed', result: block } }), subscribed),
    get connectionCount() {
      return server.clients.size
    },
    async stop() {
      const closed = once(server, 'close')
      server.close()
      drop()
      await closed
    },
  }
}
