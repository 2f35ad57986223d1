import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { Socket, connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from '../support/tap.ts'
import { createClientAddressReader, createConnectionAddressReader } from '../../src/server/client-address.ts'
import { paceConnections } from '../../src/server/connection-pacing.ts'
import { FairScheduler } from '../../src/server/fair-scheduler.ts'
import { ReadPacing } from '../../src/server/read-pacing.ts'
import { createRpcApp } from '../../src/server/rpc-app.ts'
import { createRpcServer } from '../../src/server/http-server.ts'
import { OpenConnections } from '../../src/server/open-connections.ts'
import { ResponseCompressor } from '../../src/server/response-compressor.ts'
import { ActiveRequests } from '../../src/server/rpc-services.ts'
import type { RpcServices } from '../../src/server/rpc-services.ts'
import { WsServer } from '../../src/server/ws-server.ts'
import { MemoryBudget } from '../../src/services/memory-budget.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import { refuse } from '../../src/plugin/reply.ts'
import type { Origin } from '../../src/plugin/call.ts'
import { runFuzzBytes } from '../attack/fuzz-bytes.ts'
import { openRawConnection } from '../support/rpc-client.ts'
import { TestClock, TestLog, fakeResult, fakeAccessLog } from '../support/fakes.ts'
import { HeldScheduler } from '../support/held-scheduler.ts'
import { waitUntil } from '../support/wait-until.ts'

// Which requests enter the Koa application, seen by a middleware in front of all others.

const log = new TestLog()
const limits = {
  body: 2000,
  depth: 9,
  batch: 9,
  batchReply: 1000,
  connections: 100,
  batchConcurrency: 9,
  batchTimeout: 9000,
  inFlight: 1000,
}
/** All connections of the fuzz test together reserve less, even where a slow machine answers none of them before the last has come. */
const maxReservedBytes = 64 * 1024 * 1024
let finishLookup = (): void => undefined
const admit = ({ key }: Origin) => {
  if (key?.reveal() === 'looked-up') return new Promise<undefined>(resolve => (finishLookup = () => resolve(undefined)))
  if (key?.reveal() === 'bug') throw new Error('inside')
  if (key?.reveal() === 'slow') return wait(200).then(() => undefined)
  // Longer than the 2 s for which a body that was refused is drained.
  if (key?.reveal() === 'late') return wait(2_200).then(() => undefined)
  return key?.reveal() === 'good' ? undefined : refuse('key')
}
const messageHandler = {
  parse: createMessageParser(limits),
  run: () => Promise.resolve(fakeResult('"0x1"')),
  limits,
  clock: new TestClock(),
  log,
  accessLog: fakeAccessLog,
}
const endpoint = { name: 'net', admit, messageHandler }
const scheduler = new HeldScheduler()
const counted: number[] = []
const services: RpcServices = {
  endpointByHost: new Map([
    ['a', endpoint],
    ['127.0.0.1', endpoint],
  ]),
  readClientAddress: createClientAddressReader([]),
  limits,
  log,
  clock: new TestClock(),
  accessLog: fakeAccessLog,
  activeRequests: new ActiveRequests(),
  scheduler,
  readPacing: new ReadPacing(scheduler, ({ remoteAddress }) => remoteAddress),
  memoryBudget: new MemoryBudget(maxReservedBytes),
  hintGc: () => undefined,
  sendSingleWrite: () => false,
  compressor: new ResponseCompressor(),
  httpDate: () => 'Thu, 01 Jan 1970 00:00:00 GMT',
  countResponse: status => void counted.push(status),
}
const entered: string[] = []
const wsServer = new WsServer(services, new TestClock())
const app = createRpcApp(services, wsServer)
app.middleware.unshift(({ req }, next) => {
  entered.push(`${req.method} ${req.url}`)
  return next()
})
const server = createRpcServer(services, app.listener()).listen(0, '127.0.0.1')
paceConnections(server, { scheduler, trustedProxies: ['127.0.0.2'], isTls: false })
await once(server, 'listening')
wsServer.start()
t.teardown(() => {
  wsServer.terminate()
  server.close()
})

const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
const requestText = (line: string, ...headers: readonly string[]) => textOfVersion('1.1', line, 'Host: a', ...headers)
const textOfVersion = (version: string, line: string, ...headers: readonly string[]) =>
  `${line} HTTP/${version}\r\n${headers.map(header => `${header}\r\n`).join('')}\r\n`
const upgrade = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
] as const
const call = (key: string, ...headers: readonly string[]) =>
  requestText(`POST /v3/${key}`, 'Content-Type: application/json', `Content-Length: ${body.length}`, ...headers) + body

/** The response: its body too, where there is one. */
const responseTo = async (bytes: string): Promise<string> => {
  const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  raw.write(bytes)
  const text = await raw.waitFor(/^HTTP\/1.1 (?:101|204) [^]*\r\n\r\n|\r\n\r\n[^]*\}$/)
  raw.close()
  return text
}

const statusOf = async (bytes: string): Promise<number> => Number(/^HTTP\/1.1 (\d+) /.exec(await responseTo(bytes))?.[1])

t.test('every HTTP request runs down the middleware of the application', async t => {
  for (const [bytes, status, target] of [
    [call('good'), 200, 'POST /v3/good'],
    [call('bad'), 401, 'POST /v3/bad'],
    [call('good', 'Expect: the-best'), 200, 'POST /v3/good'],
    [call('good', 'Connection: Upgrade', 'Upgrade: h2c'), 200, 'POST /v3/good'],
    [call('good', 'Connection: Upgrade', 'Upgrade: websocket'), 200, 'POST /v3/good'],
    [requestText('OPTIONS /v3/good'), 204, 'OPTIONS /v3/good'],
    [requestText('PUT /v3/good'), 405, 'PUT /v3/good'],
    [requestText('GET /elsewhere'), 404, 'GET /elsewhere'],
    [textOfVersion('1.1', 'POST /v3/good', 'Host: b'), 404, 'POST /v3/good'],
    [requestText('CONNECT a:80'), 405, 'CONNECT a:80'],
    [requestText('POST /ws/v3/good'), 405, 'POST /ws/v3/good'],
    [requestText('GET /ws/v3/good'), 426, 'GET /ws/v3/good'],
    [requestText('GET /ws/v3/bad', ...upgrade), 401, 'GET /ws/v3/bad'],
    [requestText('GET /v3/good', ...upgrade), 404, 'GET /v3/good'],
    [requestText('GET /ws/v3/good', ...upgrade.slice(0, -1)), 400, 'GET /ws/v3/good'],
    [requestText('GET /ws/v3/good', ...upgrade), 101, 'GET /ws/v3/good'],
  ] as const) {
    t.equal(await statusOf(bytes), status, target)
    t.same(entered.splice(0), [target])
    t.same(counted.splice(0), [204, 101].includes(status) ? [] : [status], 'preflights and accepted upgrades are not counted as responses')
  }
})

t.test('a request that proxies and servers read differently is refused with 400, whatever its method', async t => {
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const json = ['Content-Type: application/json', `Content-Length: ${body.length}`] as const
  for (const [bytes, problem] of [
    [textOfVersion('1.1', 'POST /v3/good', ...json) + body, /Host/],
    [textOfVersion('1.0', 'POST /v3/good', ...json) + body, /Host/],
    [textOfVersion('1.1', 'POST http://a/v3/good', ...json) + body, /Host/],
    [call('good', 'Host: a'), /Host/],
    [requestText('OPTIONS /v3/good', 'host: a'), /Host/],
    [requestText('GET /ws/v3/good', 'Host: a', ...upgrade), /Host/],
    [textOfVersion('2.0', 'POST /v3/good', 'Host: a', ...json) + body, /HTTP version/],
    [textOfVersion('0.9', 'OPTIONS /v3/good', 'Host: a'), /HTTP version/],
    [requestText('POST /v3/good', 'Content-Type: application/json', 'Transfer-Encoding: gzip, chunked') + chunked, /transfer coding/],
    [textOfVersion('1.0', 'POST /v3/good', 'Host: a', json[0], 'Transfer-Encoding: chunked') + chunked, /transfer coding/],
  ] as const) {
    const response = await responseTo(bytes)
    t.match(response, /^HTTP\/1.1 400 [^]*"id":null,"error":\{"code":-32600,/)
    t.match(response, problem)
  }
  t.equal(await statusOf(requestText('POST /v3/good', 'Content-Type: application/json', 'Transfer-Encoding: Chunked') + chunked), 200)
  counted.length = entered.length = 0
})

t.test('a WebSocket opens over HTTP/1.1 with version 13; other handshakes get 426 and the protocol to upgrade to', async t => {
  const [connection, protocol, version, key] = upgrade
  for (const bytes of [
    requestText('GET /ws/v3/good'),
    textOfVersion('1.0', 'GET /ws/v3/good', 'Host: a', ...upgrade),
    requestText('GET /ws/v3/good', connection, protocol, key, 'Sec-WebSocket-Version: 8'),
    requestText('GET /ws/v3/good', connection, protocol, key, 'Sec-WebSocket-Version: 12'),
  ]) {
    const response = await responseTo(bytes)
    t.match(response, /^HTTP\/1.1 426 Upgrade Required\r\n[^]*"error":\{"code":-32600,/)
    if (!bytes.includes('Version:')) t.match(response, '"message":"this path takes WebSocket upgrades, ')
    t.match(response, /\r\nUpgrade: websocket\r\n/i)
    t.match(response, /\r\nConnection: Upgrade\r\n/i)
    if (bytes.includes('Sec-WebSocket-Version: 8')) t.match(response, /\r\nSec-WebSocket-Version: 13\r\n/i)
  }
  const accepted = await responseTo(
    requestText('GET /ws/v3/good', ...upgrade, 'Sec-WebSocket-Protocol: a, b', 'Sec-WebSocket-Extensions: permessage-deflate'),
  )
  t.match(accepted, /^HTTP\/1.1 101 /)
  t.notMatch(accepted, /Sec-WebSocket-(?:Protocol|Extensions)/i, 'neither a subprotocol nor compression is agreed to')
  for (const [offered, status] of [
    ['h2c, WebSocket', 101],
    ['websocket,h2c', 101],
    ['websockets', 426],
  ] as const)
    t.equal(await statusOf(requestText('GET /ws/v3/good', connection, `Upgrade: ${offered}`, version, key)), status, offered)
  counted.length = entered.length = 0
})

t.test('an idle WebSocket whose caller has ended its side gets a close frame', async t => {
  const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  raw.write(requestText('GET /ws/v3/good', ...upgrade))
  await raw.waitFor(/101 [^]*\r\n\r\n/)
  raw.end()
  t.match(await raw.waitFor(/\x88\x02\x03/), /\x88\x02\x03/)
  raw.close()
  counted.length = entered.length = 0
})

t.test('a method that Node does not know is 405, as any other than POST; what is no request is 400', async t => {
  for (const [bytes, status] of [
    [requestText('post /v3/good'), 405],
    [requestText('FOO /v3/good'), 405],
    [requestText('POSTS /v3/good'), 405],
    [requestText('PUT /v3/good'), 405],
    [requestText('PUT /ws/v3/good'), 405],
    [requestText('POST /ws/v3'), 405],
    [call('good', 'Connection: keep-alive') + requestText('BREW-tea /v3/good'), 405],
    [requestText('{"a":1} /v3/good'), 400],
    ['hello\r\n\r\n', 400],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n', 400],
    ['post /v3/good\r\n\r\n', 400],
  ] as const) {
    const response = await responseTo(bytes)
    const [head = ''] = response.slice(response.lastIndexOf('HTTP/1.1 ')).split('\r\n\r\n')
    t.match(head, new RegExp(`^HTTP/1.1 ${status} `), JSON.stringify(bytes))
    t.match(head, /\r\nDate: \w{3}, .* GMT(?:\r\n|$)/, 'as on all responses (RFC 9110, 6.6.1)')
    if (status === 405) t.match(head, `\r\nAllow: ${bytes.includes(' /ws/') ? 'GET' : 'POST'}, OPTIONS\r\n`)
    t.equal(counted.splice(0).at(-1), status)
  }
  entered.length = 0
})

t.test('what is malformed behind a request is answered once, behind its response, in however many pieces it comes', async t => {
  const connected = once(server, 'connection') as Promise<[Socket]>
  const responded = new Promise<ServerResponse>(resolve => server.once('request', (_, response) => resolve(response)))
  const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  raw.write(call('looked-up'))
  const [[socket], response] = [await connected, await responded]
  await waitUntil(() => response.req.complete)
  const listenerCount = response.listenerCount('finish')
  for (let piece = 0; piece < 20; piece++) server.emit('clientError', new Error('malformed'), socket)
  t.equal(response.listenerCount('finish'), listenerCount + 1, 'a listener for each piece would be a leak, of which Node warns')
  finishLookup()
  const text = await raw.waitFor(/HTTP\/1.1 400 [^]*\}$/)
  t.match(text, /^HTTP\/1.1 200 /)
  t.equal(text.split('HTTP/1.1 ').length - 1, 2)
  raw.close()
})

t.test('a caller who has sent malformed bytes behind a request gets all of a long response, and the error behind it', async t => {
  const body = 'x'.repeat(300_000)
  const longServer = createRpcServer(services, (_, res) => void res.end(body)).listen(0, '127.0.0.1')
  t.teardown(() => longServer.close())
  await once(longServer, 'listening')
  const connected = once(longServer, 'connection') as Promise<[Socket]>
  const caller = connect((longServer.address() as AddressInfo).port, '127.0.0.1').setEncoding('latin1')
  const [connection] = await connected
  // What comes while the connection ends is reported once more.
  connection.once('finish', () => caller.write('malformed'))
  caller.write(`${call('good')}malformed\r\n\r\n`)
  await waitUntil(() => connection.writableFinished)
  let text = ''
  for await (const piece of caller) text += piece
  t.match(text.replace(body, ''), /^HTTP\/1.1 200 [^]*HTTP\/1.1 400 [^]*\}$/)
  t.ok(text.includes(body))
})

t.test('the body of a refused request', async t => {
  t.jobs = 8
  const parallel = { buffered: true }
  const json = 'Content-Type: application/json'
  const open = () => openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const responseCount = (text: string) => text.split('HTTP/1.1 ').length - 1

  for (const [what, head, piece] of [
    ['of 300 MB, with a key that is refused', requestText('POST /v3/bad', json, 'Content-Length: 300000000'), 'x'.repeat(65_536)],
    ['of 300 MB, with a valid key', requestText('POST /v3/good', json, 'Content-Length: 300000000'), 'x'.repeat(65_536)],
    [
      'in endless chunks, with a key that is refused',
      requestText('POST /v3/bad', json, 'Transfer-Encoding: chunked'),
      `${'8000\r\n'.padEnd(32_774, 'x')}\r\n`,
    ],
    [
      'in endless chunks, with a valid key',
      requestText('POST /v3/good', json, 'Transfer-Encoding: chunked'),
      `${'8000\r\n'.padEnd(32_774, 'x')}\r\n`,
    ],
    ['of a preflight', requestText('OPTIONS /v3/good', 'Content-Length: 300000000'), 'x'.repeat(65_536)],
  ] as const) {
    t.test(`${what}: little of it is read, there is one response, and the connection closes`, parallel, async t => {
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      socket.on('error', () => undefined)
      let text = ''
      socket.setEncoding('latin1').on('data', bytes => {
        text += bytes
      })
      const closed = new Promise(resolve => socket.on('close', resolve)) // after a reset too
      socket.write(head)
      const send = (): void => {
        while (!socket.destroyed && socket.write(piece));
      }
      socket.on('drain', send)
      send()
      await closed
      t.ok(socket.bytesWritten - socket.writableLength < 30_000_000, `${socket.bytesWritten} bytes`)
      t.equal(responseCount(text), 1)
      t.match(text, /^HTTP\/1.1 (?:204|401|413) /)
    })
  }

  t.test('that is short is dropped, and the connection takes the next request', parallel, async t => {
    const raw = await open()
    raw.write(requestText('POST /v3/bad', json, `Content-Length: ${body.length}`))
    t.match(await raw.waitFor(/\}$/), /^HTTP\/1.1 401 /)
    raw.write(body + call('good'))
    t.match(await raw.waitFor(/"result".*\}$/), /^HTTP\/1.1 401 (?!.*close)[^]*HTTP\/1.1 200 /)
    raw.close()
  })

  t.test('is dropped up to 256 KiB, and the connection takes the next request', parallel, async t => {
    const raw = await open()
    raw.write(requestText('POST /v3/bad', json, 'Content-Length: 262144'))
    await raw.waitFor(/\}$/)
    raw.write('x'.repeat(262_144) + call('good'))
    t.match(await raw.waitFor(/"result".*\}$/), /^HTTP\/1.1 401 (?!.*close)[^]*HTTP\/1.1 200 /)
    raw.close()
  })

  t.test('of which it is not known how much follows: the response says that the connection closes', parallel, async t => {
    for (const [request, piece] of [
      [requestText('POST /v3/bad', json, 'Transfer-Encoding: chunked'), '5\r\n{"jso\r\n'],
      [requestText('POST /v3/good', json, 'Transfer-Encoding: chunked'), `200000\r\n${'x'.repeat(1_100_000)}`],
      [requestText('OPTIONS /v3/good', 'Transfer-Encoding: chunked'), '5\r\n{"jso\r\n'],
      [requestText('OPTIONS /v3/good', 'Content-Length: 300000'), '{"jso'],
    ] as const) {
      const raw = await open()
      raw.write(request + piece)
      t.match(await raw.waitFor(/\r\n\r\n/), /^HTTP\/1.1 (?:204|401|413) [^]*\r\nConnection: close\r\n/, request)
      raw.close()
    }
  })

  t.test('that comes in thousands of pieces ends the connection at once, which the response did not say', parallel, async t => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay()
    socket.on('error', () => undefined) // pieces on their way may meet a closed connection, which is then reset
    const received = new Promise<string>(resolve => {
      let text = ''
      socket.on('data', chunk => void (text += chunk)).once('close', () => resolve(text))
    })
    socket.write(requestText('POST /v3/bad', json, 'Content-Length: 262144'))
    for (let i = 0; i < 262_144 && !socket.readableEnded && !socket.destroyed; i++) {
      socket.write('x')
      await new Promise(setImmediate)
    }
    t.match(await received, /^HTTP\/1.1 401 /)
    t.ok(socket.bytesWritten < 100_000, `${socket.bytesWritten} bytes`)
    socket.destroy()
  })

  t.test('that does not arrive closes the connection, without a second response', parallel, async t => {
    const raw = await open()
    raw.write(requestText('POST /v3/bad', json, `Content-Length: ${body.length}`))
    const text = await raw.received
    t.match(text, /^HTTP\/1.1 401 /)
    t.equal(responseCount(text), 1)
  })

  t.test('of a request that waits behind another one closes nothing before the first response is sent', parallel, async t => {
    const raw = await open()
    raw.write(call('late') + requestText('POST /v3/bad', json, 'Content-Length: 300000000'))
    t.match(await raw.waitFor(/HTTP\/1.1 401 /), /^HTTP\/1.1 200 /)
    raw.close()
  })
})

t.test('after a body in too many short chunks, nothing more is read from the connection', async t => {
  const open = () => openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const head = (key: string) => requestText(`POST /v3/${key}`, 'Content-Type: application/json', 'Transfer-Encoding: chunked')
  const chunks = (count: number) => `${'1\r\na\r\n'.repeat(count)}0\r\n\r\n`

  t.test('which closes, though the end of the body has been read too', async t => {
    const raw = await open()
    raw.write(head('good') + chunks(1_100))
    t.match(await raw.received, /^HTTP\/1.1 400 [^]*Connection: close\r\n[^]*too many short chunks/)
  })

  t.test('which closes, also where the body was refused before it came', async t => {
    const raw = await open()
    raw.write(head('bad'))
    await raw.waitFor(/\}$/)
    raw.write(chunks(2_500) + call('good'))
    t.match(await raw.received, /^HTTP\/1.1 401 (?![^]*HTTP\/1.1)/)
  })

  t.test('an upgrade behind it is not served, and other connections get their bodies', async t => {
    const raw = await open()
    raw.write(head('good') + chunks(1_100) + requestText('GET /ws/v3/good', ...upgrade))
    await raw.waitFor(/\}$/)
    for (let i = 0; i < 3; i += 1) t.equal(await statusOf(call('good')), 200)
    t.match(await raw.received, /^HTTP\/1.1 400 (?![^]*HTTP\/1.1)/)
  })
})

t.test('requests behind another one of their connection', async t => {
  const openIdle = async () => {
    const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    raw.write(call('good'))
    await raw.waitFor(/\}$/)
    return raw
  }

  t.test('are served in the turn of their address, refused ones too, and answered in order', async t => {
    const raw = await openIdle()
    scheduler.hold()
    raw.write(call('slow') + requestText('GET /nothing') + call('good'))
    await waitUntil(() => scheduler.waiting.length === 2)
    raw.write(call('good'))
    await wait(20)
    t.same(scheduler.waiting, Array(2).fill({ owner: '127.0.0.1', units: 1 }), 'nothing more is read meanwhile')
    scheduler.release()
    const text = await raw.waitFor(/(?:HTTP\/1.1 [^]*){5}\}$/)
    t.same(
      [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status),
      ['200', '200', '404', '200', '200'],
    )
    raw.close()
  })

  t.test('for which there is no room are dropped behind the first that is refused so, and the connection closes', async t => {
    const raw = await openIdle()
    entered.length = 0
    const { memoryBudget } = services
    const reservedBytes = memoryBudget.freeBytes - 60_000
    t.ok(memoryBudget.reserve(reservedBytes))
    raw.write(call('slow') + requestText('GET /nothing').repeat(500))
    const text = await raw.received
    t.match(text, /HTTP\/1.1 503 [^]*Connection: close\r\n[^]*too many bytes are in flight[^]*\}$/)
    t.ok(entered.length < 10, `${entered.length} requests`)
    await waitUntil(() => memoryBudget.reservedBytes === reservedBytes)
    memoryBudget.release(reservedBytes)
    for (let i = 0; i < 3; i += 1) t.equal(await statusOf(call('good')), 200, 'other connections get their requests')
  })

  t.test('whose caller leaves before their turn hold nothing afterwards', async () => {
    const raw = await openIdle()
    scheduler.hold()
    raw.write(call('slow') + call('good'))
    await waitUntil(() => scheduler.waiting.length === 1)
    raw.close()
    scheduler.release()
    await services.activeRequests.whenIdle()
    await waitUntil(() => services.memoryBudget.reservedBytes === 0)
  })
})

t.test('a request with more than 100 headers is refused, and its connection closes', async t => {
  const headersBeside = (line: string) => Array.from({ length: 100 - requestText(line).match(/^[\w-]+:/gm)!.length }, (_, i) => `x-${i}: y`)
  for (const line of ['GET /nothing', 'POST /v3/good', 'OPTIONS /v3/good']) {
    const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    raw.write(requestText(line, ...headersBeside(line)))
    t.notMatch(await raw.waitFor(/HTTP\/1.1 [^]*\r\n\r\n/), /HTTP\/1.1 431 /, line)
    raw.write(requestText(line, ...headersBeside(line), 'x: y') + call('good'))
    const text = await raw.received
    t.match(text, /HTTP\/1.1 431 [^]*Connection: close\r\n[^]*the request has more than 100 headers/, line)
    t.notMatch(text.slice(text.indexOf('431')), /HTTP\/1.1 200/, 'what is behind it is dropped')
  }
  const headers = Array.from({ length: 96 }, (_, i) => `x-${i}: y`)
  t.match(await responseTo(requestText('GET /ws/v3/good', ...upgrade, ...headers)), /^HTTP\/1.1 431 /, 'an upgrade')
})

t.test('a request whose caller leaves while its key is looked up holds nothing afterwards', async () => {
  await services.activeRequests.whenIdle()
  for (const bytes of [call('looked-up'), call('looked-up').slice(0, -1)]) {
    const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    raw.write(bytes)
    await waitUntil(() => services.memoryBudget.reservedBytes > 0)
    const count = counted.length
    raw.close()
    await waitUntil(() => counted.length > count)
    finishLookup()
    await services.activeRequests.whenIdle()
    await waitUntil(() => services.memoryBudget.reservedBytes === 0)
  }
})

t.test('100 (Continue) is sent once the headers have been accepted', async t => {
  const expecting = (path: string, ...headers: readonly string[]) => requestText(`POST ${path}`, ...headers, 'Expect: 100-continue')
  const [json, length] = ['Content-Type: application/json', `Content-Length: ${body.length}`]
  for (const [bytes, status] of [
    [expecting('/v3/bad', json, length), 401],
    [expecting('/nowhere', json, length), 404],
    [expecting('/v3/good', 'Content-Type: text/plain', length), 415],
    [expecting('/v3/good', json, 'Content-Length: 2001'), 413],
  ] as const) {
    const response = await responseTo(bytes)
    t.match(response, new RegExp(`^HTTP/1.1 ${status} `))
    t.match(response, /\r\nConnection: close\r\n/i)
  }
  const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  raw.write(expecting('/v3/good', json, length))
  t.equal(await raw.waitFor(/\r\n\r\n$/), 'HTTP/1.1 100 Continue\r\n\r\n')
  raw.write(body)
  t.match(await raw.waitFor(/\}$/), /HTTP\/1.1 200 /)
  raw.close()
})

t.test('bytes that the HTTP parser refuses do not reach the middleware', async t => {
  entered.length = counted.length = 0
  t.equal(await statusOf('no HTTP\r\n\r\n'), 400)
  t.equal(await statusOf(requestText('POST /v3/good', `X: ${'a'.repeat(20_000)}`)), 431)
  t.same([entered, counted], [[], [400, 431]])
})

t.test('an upgrade waits for the responses to requests that came before it', async t => {
  const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  raw.write(call('good') + call('good') + requestText('GET /ws/v3/good', ...upgrade))
  t.match(await raw.waitFor(/HTTP\/1.1 101 [^]*\r\n\r\n/), /^(HTTP\/1.1 200 [^]*"result":[^]*\}){2}HTTP\/1.1 101 /)
  raw.close()
})

t.test('a WebSocket that opens behind requests that waited for their turns is read', async t => {
  const caller = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => caller.destroy())
  let received = ''
  caller.on('data', chunk => (received += chunk.toString('latin1')))
  scheduler.hold()
  caller.write(call('good').repeat(10) + requestText('GET /ws/v3/good', ...upgrade))
  while (!received.includes('HTTP/1.1 101 ')) {
    await waitUntil(() => scheduler.waiting.length > 0 || received.includes('HTTP/1.1 101 '))
    scheduler.release()
    scheduler.hold()
  }
  scheduler.release()
  caller.write(Buffer.from(`\x81${String.fromCharCode(128 + body.length)}\0\0\0\0${body}`, 'latin1'))
  await waitUntil(() => /HTTP\/1.1 101 [^]*"result":/.test(received))
})

t.test('a caller that resets the connection while an upgrade waits, or an offer that is ignored, does no harm', async t => {
  for (const offer of [requestText('GET /ws/v3/good', ...upgrade), requestText('GET /', 'Connection: Upgrade', 'Upgrade: h2c')]) {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    entered.length = 0
    socket.write(call('looked-up') + offer)
    await waitUntil(() => entered.length > 0)
    await wait(20)
    const count = counted.length
    socket.resetAndDestroy()
    await waitUntil(() => counted.length > count)
    finishLookup()
    await services.activeRequests.whenIdle()
  }
  t.equal(await statusOf(call('good')), 200)
})

t.test('what middleware throws is logged once with the request id, and is an internal error without details', async t => {
  for (const bytes of [call('bug'), requestText('GET /ws/v3/bug', ...upgrade)]) {
    const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    raw.write(bytes)
    const text = await raw.waitFor(/\}\}\}$/)
    raw.close()
    t.match(text, /^HTTP\/1.1 200 [^]*"id":null,"error":\{"code":-32603,"message":"internal error","data":\{"requestId":"[^"]+"\}\}\}$/)
    const requestId = /X-Request-Id: (.*)\r\n/i.exec(text)?.[1]
    t.match(log.lines.splice(0), [{ level: 'error', fields: { requestId, network: 'net', stack: /inside/ } }])
  }
})

t.test('a request has 10 s for its headers, and 30 s for all of it', async t => {
  t.match(server, { headersTimeout: 10_000, requestTimeout: 30_000 })
})

t.test(
  'a request that has arrived in time is answered, although a process that was stopped meanwhile reads it after the timeout',
  async t => {
    const accepted = once(server, 'connection')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('utf8')
    const [socket] = (await accepted) as [Socket]
    const timeOut = () => server.emit('clientError', Object.assign(new Error('timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket)
    // As Node finds timeouts exceeded: in a timer, before the turn reads what has arrived.
    await wait(1)
    client.write(call('good'))
    timeOut()
    t.match((await once(client, 'data'))[0], /^HTTP\/1.1 200 /)
    await wait(1)
    client.write(call('good').slice(0, 30))
    timeOut()
    t.match((await once(client, 'data'))[0], /^HTTP\/1.1 408 /)
  },
)

t.test('a request that has arrived in time is answered, although its connection waits for its turn until after the timeout', async t => {
  for (const [bytes, status] of [
    [call('good'), 200],
    [call('good').slice(0, 30), 408],
  ] as const) {
    const accepted = once(server, 'connection')
    scheduler.hold()
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('utf8')
    client.write(bytes)
    const [socket] = (await accepted) as [Socket]
    const response = once(client, 'data')
    server.emit('clientError', Object.assign(new Error('timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket)
    for (let turns = 0; turns < 5; turns += 1) await promisify(setImmediate)()
    t.equal(socket.bytesWritten, 0)
    scheduler.release()
    t.match((await response)[0], new RegExp(`^HTTP/1.1 ${status} `))
    client.destroy()
  }
})

t.test('a request that has not arrived in time behind a slow one is refused when its turn comes', async t => {
  const accepted = once(server, 'connection')
  const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const [socket] = (await accepted) as [Socket]
  const isLate = async (sentBehind: string): Promise<void> => {
    entered.length = 0
    raw.write(call('looked-up') + call('good').slice(0, -3))
    await waitUntil(() => entered.length === 2)
    const { bytesWritten } = socket
    server.emit('clientError', Object.assign(new Error('timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket)
    for (let turns = 0; turns < 5; turns += 1) await promisify(setImmediate)()
    t.equal(socket.bytesWritten, bytesWritten, 'not before the response to the first')
    raw.write(sentBehind)
    finishLookup()
  }
  await isLate(call('good').slice(-3))
  await raw.waitFor(/(?:HTTP\/1.1 200 [^]*){2}\}$/)
  await isLate('')
  t.match(
    await raw.received,
    /(?:HTTP\/1.1 200 [^]*){3}HTTP\/1.1 408 [^]*"code":-32600,"message":"the request took too long to arrive"\}\}$/,
  )
  await services.activeRequests.whenIdle()
})

t.test('while the gateway stops', async t => {
  const openBehindSlow = async (behind: string) => {
    const raw = await openRawConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const count = entered.length
    raw.write(call('looked-up') + behind)
    const begin = async (requests: number) => waitUntil(() => entered.length === count + requests)
    return { raw, begin }
  }
  services.activeRequests.isDraining = true
  t.teardown(() => (services.activeRequests.isDraining = false))

  for (const [what, last] of [
    ['a call', call('good')],
    ['a refused request', requestText('GET /nothing')],
    ['a preflight', requestText('OPTIONS /v3/good')],
  ] as const)
    t.test(`requests of one connection that have begun are all responded to; it closes after the last, ${what}`, async t => {
      const { raw, begin } = await openBehindSlow(call('good') + last)
      await begin(3)
      finishLookup()
      const heads = (await raw.received).split(/(?=HTTP\/1.1 )/)
      t.same(
        heads.map(head => /^Connection: (.*)\r$/im.exec(head)?.[1]),
        ['keep-alive', 'keep-alive', 'close'],
      )
    })

  t.test('no request begins behind them, though others are still answered', async t => {
    const { raw, begin } = await openBehindSlow(call('good') + call('slow'))
    await begin(3)
    finishLookup()
    await raw.waitFor(/(?:HTTP\/1.1 200 [^]*){2}\}$/)
    const count = entered.length
    raw.write(call('good') + requestText('GET /ws/v3/good', ...upgrade))
    t.equal((await raw.received).split('HTTP/1.1 200').length, 4)
    t.equal(entered.length, count)
    await services.activeRequests.whenIdle()
    await waitUntil(() => services.memoryBudget.reservedBytes === 0)
  })

  t.test('requests are still taken behind a response that was made before, and does not say that the connection closes', async t => {
    services.activeRequests.isDraining = false
    const { raw, begin } = await openBehindSlow('')
    await begin(1)
    const count = counted.length
    raw.write(call('good'))
    await waitUntil(() => counted.length > count)
    services.activeRequests.isDraining = true
    finishLookup()
    await raw.waitFor(/(?:HTTP\/1.1 200 [^]*){2}\}$/)
    raw.write(call('slow') + call('good'))
    const heads = (await raw.received).split(/(?=HTTP\/1.1 )/)
    t.same(
      heads.map(head => /^Connection: (.*)\r$/im.exec(head)?.[1]),
      ['keep-alive', 'keep-alive', 'keep-alive', 'close'],
    )
  })

  t.test('an upgrade behind them is not served', async t => {
    const { raw, begin } = await openBehindSlow(call('slow'))
    await begin(2)
    finishLookup()
    await raw.waitFor(/HTTP\/1.1 200 [^]*\}$/)
    raw.write(requestText('GET /ws/v3/good', ...upgrade))
    t.notMatch(await raw.received, / 101 /)
  })
})

t.test('after malformed bytes no request is active, no memory is reserved, and nothing is logged', async t => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const faults: string[] = []
  const result = await runFuzzBytes({ url, wsUrl: url, apiKey: 'good', seed: 2, count: 400, log: fault => faults.push(fault) })
  t.same(faults, [])
  t.equal(result.sent, 400)
  await services.activeRequests.whenIdle()
  t.equal(services.memoryBudget.reservedBytes, 0)
  t.same(log.lines, [])
})

t.test('a new connection of an address that has used its share of the time is read in its turn', async t => {
  scheduler.hold()
  entered.length = 0
  const response = responseTo(call('good'))
  await waitUntil(() => scheduler.waiting.length > 0)
  t.match(scheduler.waiting, [{ owner: '127.0.0.1' }])
  t.same(entered, [], 'nothing has been read')
  scheduler.release()
  t.match(await response, /^HTTP\/1.1 200 /)
})

t.test('the addresses of one /64 of IPv6 share their turns', async t => {
  const [listener, held] = [createServer(), new HeldScheduler()]
  paceConnections(listener, { scheduler: held, trustedProxies: [], isTls: false })
  held.hold()
  const addresses = ['2001:db8:0:7::1', '2001:db8:0:7:ffff::2', '2001:db8:0:8::1', '::ffff:192.0.2.7']
  for (const remoteAddress of addresses)
    listener.emit('connection', Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress }))
  t.same(
    held.waiting.map(({ owner }) => owner),
    ['2001:db8:0:7::/64', '2001:db8:0:7::/64', '2001:db8:0:8::/64', '192.0.2.7'],
  )
})

t.test('a new connection of a trusted proxy does not wait for its turn, nor does one above the limit of connections', async t => {
  const address = server.address() as AddressInfo
  scheduler.hold()
  const connectionCount = scheduler.connectionCount
  const proxy = connect({ port: address.port, host: '127.0.0.1', localAddress: '127.0.0.2' })
  proxy.write(call('bad'))
  t.match(String((await once(proxy, 'data'))[0]), /^HTTP\/1.1 401 /)
  const refused: unknown[] = []
  const recordRefused = (_peer: string, reason: unknown) => void refused.push(reason)
  new OpenConnections(server, { peer: 'caller', maxConnections: 0, recordRefused, readAddress: () => undefined })
  await once(
    connect(address.port, '127.0.0.1').on('error', () => undefined),
    'close',
  )
  t.same(refused, ['limit'])
  t.equal(scheduler.connectionCount - connectionCount, 2, 'both have been accepted')
  t.same(scheduler.waiting, [])
  scheduler.release()
  proxy.destroy()
})

t.test('calls that arrive on hundreds of connections of an account at once', async t => {
  const entered: string[] = []
  class RecordingScheduler extends FairScheduler {
    override enterToRead(owner: string): Promise<void> | undefined {
      const turn = super.enterToRead(owner)
      if (turn !== undefined) entered.push(owner)
      return turn
    }
  }
  const fair = new RecordingScheduler(new TestClock())
  for (const owner of ['alice', 'bob']) fair.enter(owner, 1)
  const admit = ({ key, state }: Origin) => {
    state.accountId = key?.reveal() ?? ''
    return undefined
  }
  const activeRequests = new ActiveRequests()
  const ownServices = {
    ...services,
    endpointByHost: new Map([['a', { ...endpoint, admit }]]),
    activeRequests,
    scheduler: fair,
    readPacing: new ReadPacing(fair, createConnectionAddressReader(['127.0.0.2'])),
    memoryBudget: new MemoryBudget(1 << 26),
  }
  const listener = createRpcServer(ownServices, createRpcApp(ownServices, wsServer).listener()).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => listener.close())
  let [readInTurn, maxReadInTurn] = [0, 0]
  listener.on('request', () => {
    if (readInTurn === 0) setImmediate(() => (readInTurn = 0))
    readInTurn += 1
    maxReadInTurn = Math.max(maxReadInTurn, readInTurn)
  })
  const { port } = listener.address() as AddressInfo
  const connectFrom = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress }).setEncoding('latin1')
    await once(socket, 'connect')
    return socket
  }
  const answers = async (sockets: readonly Socket[], key: string) => {
    maxReadInTurn = 0
    for (const socket of sockets) socket.write(call(key))
    return Promise.all(sockets.map(async socket => String((await once(socket, 'data'))[0])))
  }
  const connectionCount = 300
  const sockets = await Promise.all(Array.from({ length: connectionCount }, () => connectFrom('127.0.0.1')))

  t.test('are read in its turns once it has used its share of the time, and all are answered', async t => {
    await answers(sockets, 'alice')
    for (let i = 0; i < 3; i += 1) {
      const texts = await answers(sockets, 'alice')
      t.ok(texts.every(text => text.startsWith('HTTP/1.1 200 ')))
    }
    t.ok(maxReadInTurn < 200, `${maxReadInTurn} of ${connectionCount} in a turn`)
  })

  t.test('do not delay those of a connection on which another account calls too', async t => {
    const shared = sockets.slice(0, 200)
    await answers(shared, 'bob')
    entered.length = 0
    await answers(shared, 'alice')
    await answers(shared, 'bob')
    t.same(entered, [])
  })

  t.test('do not delay those of a trusted proxy', async t => {
    const proxy = await Promise.all(Array.from({ length: 200 }, () => connectFrom('127.0.0.2')))
    entered.length = 0
    for (let i = 0; i < 3; i += 1) await answers(proxy, 'carol')
    t.same(entered, [])
    for (const socket of proxy) socket.destroy()
  })

  t.test('whose callers leave hold nothing afterwards', async () => {
    for (const socket of sockets) socket.write(call('alice'))
    await once(listener, 'request')
    for (const socket of sockets) socket.destroy()
    await activeRequests.whenIdle()
    await waitUntil(() => ownServices.memoryBudget.reservedBytes === 0)
    await waitUntil(async () => (await promisify<number>(done => listener.getConnections(done))()) === 0)
    await waitUntil(() => fair.waitingCount === 0)
  })
})
