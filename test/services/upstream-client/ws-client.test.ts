import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import type { WebSocket } from 'ws'
import { Cancellation } from '../../../src/plugin/call.ts'
import type { Target } from '../../../src/plugin/call.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { isFailure } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { MemoryBudget } from '../../../src/services/memory-budget.ts'
import { openUpstreamClient } from '../../../src/services/upstream-client/index.ts'
import type { RequestOptions } from '../../../src/services/upstream-client/index.ts'
import { TestClock } from '../../support/fakes.ts'
import { waitUntil } from '../../support/wait-until.ts'

interface RpcRequest {
  readonly id: number
  readonly method: string
}

/** What the node does with a request. */
type Responder = (request: RpcRequest, socket: WebSocket) => void

const respond = (socket: WebSocket, { id }: RpcRequest, result: unknown): void =>
  socket.send(JSON.stringify({ jsonrpc: '2.0', id, result }))

interface NodeOptions {
  readonly clock?: Clock
  /** The HTTP response to the upgrade, in place of a WebSocket. */
  readonly refusal?: string
}

const startNode = async (test: Pick<Test, 'teardown'>, responder: Responder, { clock = systemClock, refusal }: NodeOptions = {}) => {
  const received: RpcRequest[] = []
  const upgrades: IncomingMessage[] = []
  const sockets = new WebSocketServer({ noServer: true })
  const listen = async (port = 0): Promise<Server> => {
    const server = createServer().on('upgrade', (request, socket, head) => {
      upgrades.push(request)
      if (refusal !== undefined) socket.end(refusal)
      else
        sockets.handleUpgrade(request, socket, head, webSocket =>
          webSocket.on('message', data => {
            const message: RpcRequest = JSON.parse(String(data))
            received.push(message)
            responder(message, webSocket)
          }),
        )
    })
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return server
  }
  let server = await listen()
  const { port } = server.address() as AddressInfo
  const client = openUpstreamClient(clock, new MemoryBudget(Infinity))
  const drop = (): void => sockets.clients.forEach(socket => socket.terminate())
  const stop = async (): Promise<void> => {
    drop()
    if (server.listening) await once(server.close(), 'close')
  }
  test.teardown(async () => {
    await client.close()
    await stop()
  })
  const url = new Secret(`ws://user:pa%20ss@127.0.0.1:${port}/v1/canary-key`)
  const target: Target = { name: 'own', url, headers: { 'X-Api-Key': new Secret('key 1') }, source: 'node' }
  const request = (method: string, over: Partial<RequestOptions> = {}): Promise<Reply> =>
    client.request(
      target,
      { method, params: [] },
      { timeoutMs: 5000, maxBytes: 1 << 23, signal: new Cancellation(), idempotent: true, ...over },
    )
  return {
    request,
    received,
    upgrades,
    drop,
    stop,
    restart: async () => void (server = await listen(port)),
    disconnects: () => client.disconnects(target),
    connectionCount: () => sockets.clients.size,
  }
}

const textOf = (reply: Reply): string =>
  isFailure(reply) ? `${reply.fault} ${reply.kind}: ${reply.cause ?? reply.error.message}` : toBuffer(reply.result).toString()

t.test('calls share one connection, and each gets its own response, in whatever order they come', async t => {
  const waiting: (() => void)[] = []
  const node = await startNode(t, (request, socket) => {
    waiting.push(() => respond(socket, request, `${request.method} "quoted" "id":7`))
    if (waiting.length === 50) for (const send of waiting.reverse()) send()
  })
  const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => node.request(`eth_${i}`)))
  t.same(
    replies.map(reply => JSON.parse(textOf(reply))),
    replies.map((_, i) => `eth_${i} "quoted" "id":7`),
  )
  t.equal(node.upgrades.length, 1)
  t.match(node.upgrades[0], {
    url: '/v1/canary-key',
    headers: { authorization: `Basic ${Buffer.from('user:pa ss').toString('base64')}`, 'x-api-key': 'key 1' },
  })
  t.equal(node.disconnects(), 0)
})

t.test('a response may have its id behind a long result; what nobody asked for is ignored', async t => {
  const long = 'x'.repeat(5_000_000)
  const node = await startNode(t, ({ id, method }, socket) => {
    for (const text of ['no JSON', '[]', '{"id":"x"}', '{"jsonrpc":"2.0","id":1,"result":"a stranger\'s"}']) socket.send(text)
    socket.send('{"jsonrpc":"2.0","method":"eth_subscription","params":{}}')
    if (method === 'eth_long') socket.send(`{"result":"${long}","jsonrpc":"2.0","id":${id}}`)
    else socket.send(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"no canary-key here"},"id":${id}}`)
  })
  t.equal(textOf(await node.request('eth_long')), `"${long}"`)
  t.match(await node.request('eth_long', { maxBytes: 1_000_000 }), { kind: 'tooLarge' })
  const error = await node.request('eth_error')
  t.match(error, { kind: 'node', error: { code: -32000 } })
  t.notMatch(textOf(error), 'canary')
})

t.test('a call whose response is invalid, but has its id, fails at once', async t => {
  const node = await startNode(t, ({ id, method }, socket) => {
    if (method === 'eth_twice') socket.send(`{"jsonrpc":"2.0","id":${id},"result":"0x1","result":"0x2"}`)
    else socket.send(`{"jsonrpc":"2.0","id":"${id}","result":"0x1"}`)
  })
  t.equal(textOf(await node.request('eth_twice')), 'upstream unavailable: duplicate member')
  t.equal(textOf(await node.request('eth_text')), 'upstream unavailable: id mismatch')
})

t.test('calls of different traces share the connection', async t => {
  const node = await startNode(t, (request, socket) => respond(socket, request, 'ok'))
  for (const trace of ['a', 'b']) await node.request('eth_call', { traceparent: `00-${trace.repeat(32)}-${trace.repeat(16)}-01` })
  t.equal(textOf(await node.request('eth_call')), '"ok"')
  t.equal(node.upgrades.length, 1)
})

t.test('when the connection is lost without a close frame, idempotent calls are sent again, and others fail', async t => {
  let drops = 1
  const node = await startNode(t, (request, socket) => {
    if (request.method === 'eth_first') return respond(socket, request, 'ok')
    if (node.received.filter(({ method }) => method === 'eth_last').length > 0 && drops > 0) {
      drops -= 1
      return node.drop()
    }
    if (drops === 0) respond(socket, request, request.method)
  })
  await node.request('eth_first')
  const replies = await Promise.all([
    node.request('eth_call'),
    node.request('eth_sendRawTransaction', { idempotent: false }),
    node.request('eth_last'),
  ])
  t.same(replies.map(textOf), ['"eth_call"', 'upstream unavailable: connection closed (ECONNRESET)', '"eth_last"'])
  t.equal(node.received.filter(({ method }) => method === 'eth_sendRawTransaction').length, 1)
  t.equal(node.disconnects(), 1)
  t.equal(node.upgrades.length, 2)
})

t.test('a call that the node answers with a closed connection twice fails', async t => {
  const node = await startNode(t, (request, socket) => (request.method === 'eth_kill' ? node.drop() : respond(socket, request, 'ok')))
  await node.request('eth_first')
  t.match(textOf(await node.request('eth_kill')), /connection closed/)
  t.equal(node.received.filter(({ method }) => method === 'eth_kill').length, 2)
})

t.test(
  'a response above 64 MiB ends the connection twice: other calls in flight fail over at most, and later ones are answered',
  async t => {
    const huge = Buffer.alloc(67_108_865, 'x')
    const node = await startNode(t, (request, socket) => {
      if (request.method === 'eth_huge') socket.send(huge)
      else if (request.method !== 'eth_slow') respond(socket, request, 'ok')
    })
    await node.request('eth_first')
    const replies = await Promise.all([
      node.request('eth_slow'),
      node.request('eth_sendRawTransaction', { idempotent: false }),
      node.request('eth_huge'),
      node.request('eth_slow'),
    ])
    t.equal(textOf(replies[1]), '"ok"', 'it was answered before')
    for (const reply of [replies[0], replies[2], replies[3]]) t.match(textOf(reply), /^upstream unavailable: /)
    t.equal(node.received.filter(({ method }) => method === 'eth_huge').length, 2)
    t.equal(textOf(await node.request('eth_call')), '"ok"')
  },
)

t.test('while the node is down calls fail at once, and it is used again when it is back', async t => {
  const node = await startNode(t, (request, socket) => respond(socket, request, 'ok'))
  await node.stop()
  t.match(textOf(await node.request('eth_call')), /^upstream unavailable: connection refused/)
  t.match(textOf(await node.request('eth_call')), /^upstream unavailable: connection/, 'without another attempt')
  await node.restart()
  await waitUntil(async () => textOf(await node.request('eth_call')) === '"ok"')
})

t.test('an HTTP response to the upgrade means what it means to a call', async t => {
  const limited = await startNode(t, () => undefined, {
    refusal: 'HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n',
  })
  t.match(await limited.request('eth_call'), { kind: 'unavailable', category: 'rateLimited', retryAfter: 7 })
  const denied = await startNode(t, () => undefined, { refusal: 'HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n' })
  t.match(await denied.request('eth_call'), { kind: 'unavailable', fault: 'upstream', cause: /401/ })
})

t.test('a call that is canceled leaves the others alone; a connection on which nothing comes is replaced', async t => {
  const clock = new TestClock()
  let isSilent = false
  const node = await startNode(t, (request, socket) => (isSilent ? socket.pause() : respond(socket, request, 'ok')), { clock })
  t.equal(textOf(await node.request('eth_first')), '"ok"')
  isSilent = true
  const signal = new Cancellation()
  const [canceled, waiting] = [node.request('eth_a', { signal }), node.request('eth_b', { timeoutMs: 60_000 })]
  await waitUntil(() => node.received.length >= 2)
  signal.abort()
  t.match(await canceled, { fault: 'caller' })
  isSilent = false
  clock.advance(5_000)
  await waitUntil(() => {
    clock.advance(100)
    return node.upgrades.length === 2
  })
  t.equal(textOf(await waiting), '"ok"', 'it is sent again over the new connection')
})

t.test('a connection without calls is kept for a minute and then closed, and opened again for the next call', async t => {
  const clock = new TestClock()
  const node = await startNode(t, (request, socket) => respond(socket, request, 'ok'), { clock })
  await node.request('eth_call')
  for (let i = 0; i < 4; i += 1) {
    clock.advance(15_000)
    // Until the pong, the next timer is the one that gives it up after 5 s.
    await waitUntil(() => (clock.nextTimerAt ?? Infinity) - clock.monotonic() > 5_000)
  }
  await waitUntil(() => node.connectionCount() === 0)
  t.equal(node.disconnects(), 0, 'the node did not end it')
  t.equal(textOf(await node.request('eth_call')), '"ok"')
  t.equal(node.upgrades.length, 2)
})
