import { once } from 'node:events'
import { Agent as HttpAgent, createServer, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { Agent, fetch } from 'undici'
import { loadValidConfig } from '../../src/cli/gateway-process.ts'
import { openGateway } from '../../src/core/gateway.ts'
import { plugins } from '../../plugins/index.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Clock } from '../../src/services/clock.ts'
import { acceptPending } from '../../src/server/connection-pacing.ts'
import { deferred } from '../support/deferred.ts'
import { createDeployment, networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const certificate = fileURLToPath(new URL('../../../test/support/certificates/valid.pem', import.meta.url))

const graceMs = 123_456
const drain = { grace: `${graceMs}ms` }

/** A gateway in this process, with a key of it. */
const openOwnGateway = async (t: Test, settings: object = {}, clock: Clock = systemClock) => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_getBlockByNumber: { result: null } })
  const deployment = createDeployment({ gateway: settings, networks: { testnet: networkFile('testnet', [node.url]) } })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const { key } = await deployment.addCaller('alice')
  const config = await loadValidConfig(deployment.dir, plugins, { env: {}, err: line => t.fail(line) })
  if (config === undefined) throw new Error('the configuration has problems')
  return { gateway: await openGateway(config, clock, new TestLog()), key, node }
}

t.test('while `drain.grace` lasts, /readyz answers 503, and calls are answered with Connection: close', async t => {
  let endGrace: (() => void) | undefined
  const clock: Clock = {
    ...systemClock,
    after(ms, run) {
      if (ms !== graceMs) return systemClock.after(ms, run)
      endGrace = run
      return { cancel: () => undefined }
    },
  }
  const { gateway, key } = await openOwnGateway(t, { drain }, clock)
  const { rpc, admin } = gateway.urls
  const url = `${rpc}/v3/${key}`
  const readyStatus = async () => (await post(`${admin}/readyz`, '', { method: 'GET' })).status
  t.equal(await readyStatus(), 200)
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 })
  const connectionHeader = async () => {
    const sent = request(url, { agent, method: 'POST', headers: { 'content-type': 'application/json' } })
    sent.end('{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}')
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    response.resume()
    await once(response, 'end')
    return response.headers.connection
  }
  t.equal(await connectionHeader(), 'keep-alive')
  const stopped = gateway.stop()
  t.equal(await readyStatus(), 503)
  t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
  t.equal(await connectionHeader(), 'close')
  t.equal(await connectionHeader(), 'close', 'new connections are accepted')
  endGrace?.()
  await stopped
  await t.rejects(call(url, 'eth_chainId'), { code: 'ECONNREFUSED' })
})

t.test('while calls in flight finish, operators are answered, also where their listener has TLS', async t => {
  for (const admin of [{}, { tls: { cert: certificate, key: certificate } }]) {
    const { gateway, key, node } = await openOwnGateway(t, { admin })
    const { promise: answered, resolve: answer } = deferred()
    node.setResponse('eth_gasPrice', async () => {
      await answered
      return { result: '0x1' }
    })
    const url = `${gateway.urls.rpc}/v3/${key}`
    const inFlight = call(url, 'eth_gasPrice')
    await node.waitForRequests('eth_gasPrice', 1)
    const stopped = gateway.stop(0)
    await waitUntil(async () => (await call(url, 'eth_chainId').catch(() => undefined)) === undefined)
    const operator = new Agent({ connect: { rejectUnauthorized: false }, pipelining: 0 })
    const { status } = await fetch(`${gateway.urls.admin}/readyz`, { dispatcher: operator })
    t.equal(status, 503)
    await operator.destroy()
    answer()
    t.match(await inFlight, { result: '0x1' })
    await stopped
  }
})

t.test('connections that are open already when listening ends are served', async t => {
  const { gateway, key } = await openOwnGateway(t)
  const { port } = new URL(gateway.urls.rpc)
  const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
  const sockets = Array.from({ length: 40 }, () => connect(Number(port), '127.0.0.1'))
  const responses = sockets.map(socket => {
    socket.write(
      `POST /v3/${key} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    return text(socket).catch((error: Error) => error.message)
  })
  // The system has accepted all of them, and the event loop few: it accepts one in each turn.
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  await gateway.stop(0)
  const results = (await Promise.all(responses)).map(response => response.split('\r\n\r\n')[1] ?? response)
  t.strictSame([...new Set(results)], ['{"jsonrpc":"2.0","id":1,"result":"0x7a69"}'])
})

t.test('connections that came while the process was held up are served, though the time to accept them is over', async t => {
  const server = createServer((_, response) => response.end('served')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clock = new TestClock()
  const pending = acceptPending(server, clock)
  const sockets = Array.from({ length: 20 }, () => connect((server.address() as AddressInfo).port, '127.0.0.1'))
  const responses = sockets.map(socket => {
    socket.write('GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n')
    return text(socket).catch((error: Error) => error.message)
  })
  // The system has accepted all of them now, and the event loop none.
  await new Promise<void>(resolve => process.nextTick(resolve))
  clock.advance(500)
  const serve = await pending
  server.close()
  serve()
  for (const response of await Promise.all(responses)) t.match(response, /served/)
})

t.test('a call that goes on when its caller has left is counted before the gateway ends', async t => {
  const node = await startFakeNode({ eth_getBalance: { result: '0x1' } })
  t.teardown(() => node.stop())
  const network = networkFile('testnet', [node.url])
  const slow = `export default {
    name: 'slow', summary: 'Takes its time.', options: { type: 'object', properties: {} }, reads: [],
    create: () => ({
      async handle(call, next) {
        const reply = await next(call)
        await new Promise(resolve => setTimeout(resolve, 1_000))
        return reply
      },
    }),
  }`
  const pipeline = (network['pipeline'] as object[]).flatMap(step => ('params' in step ? [{ use: '../slow.mjs' }, step] : [step]))
  const { deployment, gateway, url } = await startGateway(t, {
    networks: { testnet: { ...network, pipeline } },
    files: { 'slow.mjs': slow },
  })
  const leaving = new AbortController()
  const left = t.rejects(call(url, 'eth_getBalance', [`0x${'1'.repeat(40)}`, '0x1'], { signal: leaving.signal }))
  await node.waitForRequests('eth_getBalance', 1)
  leaving.abort()
  await left
  t.equal(await gateway.stop(), 0)
  t.match(await deployment.run('audit'), { code: 0 })
})

t.test('a call that is given up after `drain.timeout` costs nothing: its caller has not left', async t => {
  const node = await startFakeNode({ eth_gasPrice: 'hang', eth_maxPriorityFeePerGas: 'hang' })
  t.teardown(() => node.stop())
  const { deployment, gateway, url, key } = await startGateway(t, {
    gateway: { drain: { grace: '0s', timeout: '100ms' } },
    networks: { testnet: networkFile('testnet', [node.url]) },
  })
  const client = await connectWs(gateway.ws(key))
  const given = [t.rejects(call(url, 'eth_gasPrice')), t.rejects(client.call('eth_maxPriorityFeePerGas'))]
  await Promise.all([node.waitForRequests('eth_gasPrice', 1), node.waitForRequests('eth_maxPriorityFeePerGas', 1)])
  t.equal(await gateway.stop(), 0)
  await Promise.all(given)
  t.match(JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout), { used: 0 })
})

t.test('a response that is cut off after `drain.timeout` costs nothing', async t => {
  const node = await startFakeNode({ eth_call: { result: `0x${'0'.repeat(20 << 20)}` } })
  t.teardown(() => node.stop())
  const { deployment, gateway, url, key } = await startGateway(t, {
    gateway: { drain: { grace: '0s', timeout: '100ms' } },
    networks: { testnet: networkFile('testnet', [node.url]) },
  })
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_call', params: [{ to: `0x${'1'.repeat(40)}` }, 'latest'] })
  const sent = request(url, { method: 'POST', headers: { 'content-type': 'application/json' } })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const { socket } = await connectWs(gateway.ws(key))
  const { _socket: tcpSocket } = socket as unknown as { readonly _socket: Socket }
  socket.send(body)
  await once(tcpSocket, 'data')
  socket.pause()
  const cut = [t.rejects(once(response, 'end')), once(socket, 'close')]
  t.equal(await gateway.stop(), 0)
  response.resume()
  socket.resume()
  await Promise.all(cut)
  t.match(JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout), { used: 0 })
})

t.test('the primary of several workers stays up for `drain.grace` too', async t => {
  const { gateway, url } = await startGateway(t, {
    gateway: { drain: { grace: '1h' }, workers: 2 },
    networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) },
  })
  process.kill(gateway.pid, 'SIGTERM')
  const readyStatus = async () => (await gateway.get('/readyz')).status
  await waitUntil(async () => (await readyStatus()) !== 200)
  t.equal(await readyStatus(), 503)
  for (let i = 0; i < 4; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
  await gateway.kill()
})

t.test('a gateway without a listener for operators stops in order too: nothing else keeps its process alive', async t => {
  const { gateway } = await startGateway(t, {
    gateway: { listen: { rpc: '127.0.0.1:0' }, drain: { grace: '0s' } },
    networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) },
  })
  t.equal(await gateway.stop(), 0)
  t.match(gateway.log.slice(-2), [{ event: 'stopping', signal: 'SIGTERM' }, { event: 'stopped' }])
})
